"""A variational autoencoder, as it is written for PyTorch. The noise comes with the data, so that two libraries agree."""

import torch
from torch import nn, optim
from torch.nn import functional as F


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(64, 40)
        self.fc21 = nn.Linear(40, 6)
        self.fc22 = nn.Linear(40, 6)
        self.fc3 = nn.Linear(6, 40)
        self.fc4 = nn.Linear(40, 64)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar, eps):
        std = torch.exp(0.5 * logvar)
        if eps is None:
            eps = torch.randn_like(std)
        return mu + eps * std

    def decode(self, z):
        h3 = F.elu(self.fc3(z))
        return torch.sigmoid(self.fc4(h3))

    def forward(self, x, eps=None):
        mu, logvar = self.encode(x.view(-1, 64))
        z = self.reparameterize(mu, logvar, eps)
        return self.decode(z), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, 64), reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


def build():
    torch.manual_seed(1)
    return VAE()


def train(model, batches, record):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = model.to(device)
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    model.train()
    losses = []
    for data, noise in batches:
        data = torch.tensor(data).to(device)
        optimizer.zero_grad()
        recon, mu, logvar = model(data, torch.tensor(noise).to(device))
        loss = loss_function(recon, data, mu, logvar) / data.size(0)
        loss.backward()
        record(model)
        losses.append(loss.item())
        optimizer.step()
    with torch.no_grad():
        sample = model.decode(torch.zeros(2, 6).to(device)).cpu().view(2, 1, 8, 8)
    return losses, sample.sum().item()
