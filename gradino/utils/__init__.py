"""Helpers around training: data loading, text."""

from gradino.utils import data as data
from gradino.utils import text as text
from gradino.utils.pictures import draw_arena_timeline, draw_graph

__all__ = ["draw_arena_timeline", "draw_graph", "data", "text"]
