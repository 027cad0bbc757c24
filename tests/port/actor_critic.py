"""An actor-critic that learns to walk down a corridor. Uniform numbers come with the data and choose the actions."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class ActorCritic(nn.Module):
    def __init__(self, states=6, actions=2):
        super().__init__()
        self.states = states
        self.body = nn.Sequential(nn.Linear(states, 16), nn.Tanh(), nn.Linear(16, 16), nn.LeakyReLU(0.1))
        self.actor = nn.Linear(16, actions)
        self.critic = nn.Linear(16, 1)

    def forward(self, state):
        x = self.body(F.one_hot(state, self.states).float())
        return F.softmax(self.actor(x), dim=-1), self.critic(x)


def build():
    torch.manual_seed(4)
    return ActorCritic()


def episode(model, draws):
    """One walk: log-probabilities, values, rewards and entropies of its steps."""
    position, steps = 0, []
    for u in draws:
        probs, value = model(torch.tensor(position))
        action = int((torch.cumsum(probs, dim=0) < float(u)).sum().clamp(max=1).item())
        position = min(position + 1, model.states - 1) if action == 1 else max(position - 1, 0)
        reward = 1.0 if position == model.states - 1 else -0.02
        entropy = -(probs * probs.log()).sum()
        steps.append((probs[action].log(), value.squeeze(), reward, entropy))
        if position == model.states - 1:
            break
    return steps


def train(model, batches, record):
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-2, betas=(0.9, 0.99))
    losses, walked = [], []
    for draws in batches:
        steps = episode(model, draws)
        returns, future = [], 0.0
        for _, _, reward, _ in reversed(steps):
            future = reward + 0.9 * future
            returns.insert(0, future)
        returns = torch.tensor(returns)
        returns = (returns - returns.mean()) / (returns.std() + 1e-6)
        policy_losses, value_losses = [], []
        for (log_prob, value, _, entropy), target in zip(steps, returns):
            advantage = target - value.item()
            policy_losses.append(-log_prob * advantage - 0.01 * entropy)
            value_losses.append(F.smooth_l1_loss(value, target))
        optimizer.zero_grad()
        loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
        loss.backward()
        record(model)
        optimizer.step()
        losses.append(loss.item())
        walked.append(len(steps))
    return losses, walked
