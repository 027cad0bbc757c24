"""Reshaping and comparing as modules."""

from __future__ import annotations

from collections.abc import Sequence

from gradino.nn import functional as F
from gradino.nn.module import Module
from gradino.tensor import Tensor

__all__ = ["CosineSimilarity", "Flatten", "Fold", "PairwiseDistance", "Unflatten", "Unfold"]


class Flatten(Module):
    """Dimensions ``start_dim`` to ``end_dim`` as one: (N, C, H, W) -> (N, C H W)."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        """The same elements."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """The dimensions."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """One dimension as several: (N, C H W) -> (N, C, H, W) for ``Unflatten(1, (C, H, W))``; one size may be -1.

    Dimensions have no names here, so ``dim`` is a number.
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        if isinstance(dim, bool) or not isinstance(dim, int):
            raise TypeError(f"Unflatten: dim must be an int, got {type(dim).__name__}: named dimensions are not supported")
        if not isinstance(unflattened_size, (tuple, list)) or not all(isinstance(n, int) for n in unflattened_size):
            raise TypeError("Unflatten: unflattened_size must be a tuple of ints")
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        """The same elements."""
        shape = list(input.shape)
        at = self.dim % len(shape) if -len(shape) <= self.dim < len(shape) else self.dim
        size = shape[at]  # an IndexError names no module, but the dimension is plain to see
        sizes = list(self.unflattened_size)
        if -1 in sizes:
            known = 1
            for n in sizes:
                known *= n if n != -1 else 1
            sizes[sizes.index(-1)] = size // known if known else 0
        return input.reshape(*shape[:at], *sizes, *shape[at + 1 :])

    def extra_repr(self) -> str:
        """The dimension and its sizes."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class CosineSimilarity(Module):
    """``x1 . x2 / (max(|x1|, eps) max(|x2|, eps))`` along ``dim``."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """The dimension vanishes."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The p-norm of ``x1 - x2 + eps`` over the last dimension: (N, D), (N, D) -> (N)."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """The last dimension vanishes, or is 1 with keepdim."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class Unfold(Module):
    """The patches that a convolution would see: (N, C, H, W) -> (N, C KH KW, L); see :func:`gradino.nn.functional.unfold`."""

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        dilation: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        stride: int | Sequence[int] = 1,
    ) -> None:
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        """Patches as columns."""
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """The arguments."""
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class Fold(Module):
    """Patches added up where they overlap: (N, C KH KW, L) -> (N, C, *output_size); see :func:`gradino.nn.functional.fold`."""

    def __init__(
        self,
        output_size: int | Sequence[int],
        kernel_size: int | Sequence[int],
        dilation: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        stride: int | Sequence[int] = 1,
    ) -> None:
        super().__init__()
        self.output_size, self.kernel_size, self.dilation, self.padding, self.stride = output_size, kernel_size, dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        """Images."""
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """The arguments."""
        sizes = f"output_size={self.output_size}, kernel_size={self.kernel_size}"
        return f"{sizes}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"
