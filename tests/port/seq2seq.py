"""Translation in miniature: a GRU encoder, a GRU decoder with additive attention, teacher forcing and greedy decoding."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self, vocab, dim, hidden):
        super().__init__()
        self.embedding = nn.Embedding(vocab, dim)
        self.gru = nn.GRU(dim, hidden, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(2 * hidden, hidden)

    def forward(self, src):
        outputs, hidden = self.gru(self.embedding(src))
        hidden = torch.tanh(self.fc(torch.cat((hidden[-2], hidden[-1]), dim=1)))
        return outputs, hidden


class Attention(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.attn = nn.Linear(3 * hidden, hidden)
        self.v = nn.Parameter(torch.rand(hidden))

    def forward(self, hidden, encoder_outputs):
        steps = encoder_outputs.shape[1]
        repeated = hidden.unsqueeze(1).repeat(1, steps, 1)
        energy = torch.tanh(self.attn(torch.cat((repeated, encoder_outputs), dim=2)))
        return F.softmax((energy * self.v).sum(-1), dim=1)


class Decoder(nn.Module):
    def __init__(self, vocab, dim, hidden):
        super().__init__()
        self.embedding = nn.Embedding(vocab, dim)
        self.attention = Attention(hidden)
        self.cell = nn.GRUCell(dim + 2 * hidden, hidden)
        self.out = nn.Linear(3 * hidden + dim, vocab)

    def forward(self, token, hidden, encoder_outputs):
        embedded = self.embedding(token)
        weights = self.attention(hidden, encoder_outputs).unsqueeze(1)
        context = torch.bmm(weights, encoder_outputs).squeeze(1)
        hidden = self.cell(torch.cat((embedded, context), dim=1), hidden)
        return self.out(torch.cat((hidden, context, embedded), dim=1)), hidden


class Seq2Seq(nn.Module):
    def __init__(self, vocab=17, dim=8, hidden=10):
        super().__init__()
        self.encoder = Encoder(vocab, dim, hidden)
        self.decoder = Decoder(vocab, dim, hidden)

    def forward(self, src, trg):
        outputs, hidden = self.encoder(src)
        predictions = []
        for t in range(trg.shape[1] - 1):
            prediction, hidden = self.decoder(trg[:, t], hidden, outputs)
            predictions.append(prediction)
        return torch.stack(predictions, dim=1)

    @torch.no_grad()
    def greedy(self, src, steps):
        outputs, hidden = self.encoder(src)
        token = torch.ones(src.shape[0], dtype=torch.long)
        found = []
        for _ in range(steps):
            logits, hidden = self.decoder(token, hidden, outputs)
            token = logits.argmax(-1)
            found.append(token)
        return torch.stack(found, 1)


def build():
    torch.manual_seed(3)
    return Seq2Seq()


def train(model, batches, record):
    optimizer = torch.optim.Adamax(model.parameters(), lr=1e-2)
    losses = []
    for src, trg in batches:
        src, trg = torch.as_tensor(src), torch.as_tensor(trg)
        optimizer.zero_grad(set_to_none=True)
        logits = model(src, trg)
        loss = F.nll_loss(F.log_softmax(logits, dim=-1).reshape(-1, logits.shape[-1]), trg[:, 1:].reshape(-1))
        loss.backward()
        record(model)
        optimizer.step()
        losses.append(loss.item())
    return losses, model.greedy(src, 6).tolist()
