"""Helpers around training: data loading, text."""

from gradino.utils import data as data
from gradino.utils import text as text

__all__ = ["data", "text"]
