"""Whole models: ``GPT``."""

from gradino.models.gpt import GPT, GPTConfig, KVCache

__all__ = ["GPT", "GPTConfig", "KVCache"]
