"""Helpers for modules."""

from gradino.nn.utils import rnn as rnn

__all__ = ["rnn"]
