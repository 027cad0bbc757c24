"""A tagger of words: embedding, a bidirectional LSTM over packed sequences, and a loss that ignores padding."""

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence


class Tagger(nn.Module):
    def __init__(self, vocab=30, dim=10, hidden=12, tags=5):
        super().__init__()
        self.embedding = nn.Embedding(vocab, dim, padding_idx=0)
        self.lstm = nn.LSTM(dim, hidden, num_layers=2, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(0.0)
        self.fc = nn.Linear(2 * hidden, tags)

    def forward(self, tokens, lengths):
        embedded = self.dropout(self.embedding(tokens))
        packed = pack_padded_sequence(embedded, lengths.cpu(), batch_first=True, enforce_sorted=False)
        output, (hidden, _) = self.lstm(packed)
        output, _ = pad_packed_sequence(output, batch_first=True, total_length=tokens.size(1))
        return self.fc(output), hidden


def build():
    torch.manual_seed(2)
    return Tagger()


def train(model, batches, record):
    criterion = nn.CrossEntropyLoss(ignore_index=-1)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    losses = []
    for sentences, tags in batches:
        lengths = torch.tensor([len(s) for s in sentences])
        tokens = pad_sequence([torch.tensor(s) for s in sentences], batch_first=True, padding_value=0)
        targets = pad_sequence([torch.tensor(t) for t in tags], batch_first=True, padding_value=-1)
        logits, hidden = model(tokens, lengths)
        loss = criterion(logits.permute(0, 2, 1), targets) + 1e-3 * hidden.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        record(model)
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    with torch.no_grad():
        best = model(tokens, lengths)[0].argmax(dim=-1)
    return losses, [best[i, : int(n)].tolist() for i, n in enumerate(lengths)]
