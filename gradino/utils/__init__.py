"""Helpers around training: data loading, text, checkpointing."""

from gradino.utils import checkpoint as checkpoint
from gradino.utils import data as data
from gradino.utils import hooks as hooks
from gradino.utils import text as text
from gradino.utils.pictures import draw_arena_timeline, draw_graph

__all__ = ["checkpoint", "data", "draw_arena_timeline", "draw_graph", "hooks", "text"]
