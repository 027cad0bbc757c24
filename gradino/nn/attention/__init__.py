"""What belongs to attention beside the layer: masks without a matrix."""

from gradino.nn.attention import bias as bias

__all__ = ["bias"]
