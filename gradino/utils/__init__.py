"""Helpers around training: data loading."""

from gradino.utils import data as data

__all__ = ["data"]
