"""A training loop with a DataLoader, a loss of logits, warm-up, early stopping on a plateau, and checkpoints that are loaded again."""

import copy

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, TensorDataset


class Points(Dataset):
    def __init__(self, x, y):
        self.x, self.y = torch.from_numpy(x), torch.from_numpy(y)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], self.y[index]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 16), nn.Linear(16, 16)])
        self.act = nn.Hardswish()
        self.norm = nn.LayerNorm(16)
        self.gates = nn.ParameterList([torch.ones(16), torch.zeros(16)])
        self.head = nn.Sequential(nn.Flatten(), nn.PReLU(), nn.Linear(16, 3))

    def forward(self, x):
        for layer, gate in zip(self.layers, self.gates):
            x = self.act(layer(x)) * torch.sigmoid(gate)
        return self.head(self.norm(x))


def build():
    torch.manual_seed(5)
    return Net()


def run_epoch(model, loader, criterion, optimizer=None, record=None):
    model.train(optimizer is not None)
    total, count = 0.0, 0
    for x, y in loader:
        with torch.set_grad_enabled(optimizer is not None):
            loss = criterion(model(x), y)
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()
            record(model)
            optimizer.step()
        total += loss.item() * x.size(0)
        count += x.size(0)
    return total / count


def train(model, batches, record):
    (x, y), (vx, vy) = batches
    loader = DataLoader(Points(x, y), batch_size=8, shuffle=False, num_workers=0, pin_memory=False, drop_last=True)
    valid = DataLoader(TensorDataset(torch.from_numpy(vx), torch.from_numpy(vy)), batch_size=16)
    criterion = nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.0, 2.0, 0.5]))
    optimizer = torch.optim.NAdam(model.parameters(), lr=1e-2)
    warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 3))
    losses, best, kept = [], float("inf"), None
    for epoch in range(4):
        losses.append(run_epoch(model, loader, criterion, optimizer, record))
        warmup.step()
        held = run_epoch(model, valid, criterion)
        losses.append(held)
        if held < best:
            best, kept = held, copy.deepcopy(model.state_dict())
    model.load_state_dict(kept)
    losses.append(run_epoch(model, valid, criterion))
    return losses, [round(p.norm().item(), 3) for p in model.parameters()]
