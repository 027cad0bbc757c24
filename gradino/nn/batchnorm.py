"""Layers that normalise channels: batch, group, instance and local response norm."""

from __future__ import annotations

import warnings
from typing import Any

from gradino.errors import InvalidValueError, ShapeError
from gradino.factories import ones, tensor, zeros
from gradino.nn import _channel_norms as F
from gradino.nn.linear import parameter_dtype
from gradino.nn.module import Module
from gradino.nn.parameter import Parameter
from gradino.tensor import Tensor

__all__ = ["BatchNorm1d", "BatchNorm2d", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d", "LocalResponseNorm"]


class _Tracking(Module):
    """What batch and instance norm share: weight and bias, and running statistics, per channel."""

    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None
    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        device: Any,
        dtype: Any,
        bias: bool,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        kind = parameter_dtype(dtype, device)
        self.register_parameter("weight", Parameter(ones(num_features, dtype=kind)) if affine else None)
        self.register_parameter("bias", Parameter(zeros(num_features, dtype=kind)) if affine and bias else None)
        self.register_buffer("running_mean", zeros(num_features, dtype=kind) if track_running_stats else None)
        self.register_buffer("running_var", ones(num_features, dtype=kind) if track_running_stats else None)
        self.register_buffer("num_batches_tracked", tensor(0) if track_running_stats else None)

    def reset_running_stats(self) -> None:
        """Forget all batches."""
        if self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Start anew: weight 1, bias 0, no batches."""
        self.reset_running_stats()
        if self.weight is not None:
            self.weight.detach().fill_(1)
        if self.bias is not None:
            self.bias.detach().zero_()

    def extra_repr(self) -> str:
        """The arguments, as in PyTorch."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _need_dims(self, input: Tensor, *dims: int) -> None:
        if input.ndim not in dims:
            wanted = " or ".join(f"{n}D" for n in dims)
            raise ShapeError(f"{type(self).__name__}: expected {wanted} input, got {input.ndim}D input of shape {input.shape}")


class _BatchNorm(_Tracking):
    _dims: tuple[int, ...]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, ...) -> the same; in training the running statistics are updated."""
        self._need_dims(input, *self._dims)
        own = self.training or (self.running_mean is None and self.running_var is None)
        mean, var, batches = self.running_mean, self.running_var, self.num_batches_tracked
        if self.training and not self.track_running_stats:
            mean = var = batches = None
        elif not self.training:
            batches = None
        return F.tracked_batch_norm(input, mean, var, batches, self.weight, self.bias, own, self.momentum, self.eps)


class BatchNorm1d(_BatchNorm):
    """Batch norm of (N, C) or (N, C, L); see :func:`gradino.nn.functional.batch_norm`.

    In training, ``running_mean`` and ``running_var`` follow the batches with ``momentum`` (None: the mean of all
    batches); in evaluation they are what is used. Without ``track_running_stats`` the batch's own always are.

    >>> import gradino as gd
    >>> layer = gd.nn.BatchNorm1d(2)
    >>> layer(gd.tensor([[1.0, 2.0], [3.0, 6.0]])).sum().item(), layer.num_batches_tracked.item()
    (0.0, 1)
    """

    _dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch norm of (N, C, H, W); see :class:`BatchNorm1d`."""

    _dims = (4,)


class _InstanceNorm(_Tracking):
    _dims: int  # without a batch

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, ...) or (C, ...) -> the same."""
        self._need_dims(input, self._dims, self._dims + 1)
        channels = input.shape[-self._dims]
        if channels != self.num_features:
            message = f"{type(self).__name__}: the input has shape {input.shape}: expected {self.num_features} channels, but got {channels}"
            if self.affine or self.track_running_stats:
                raise ShapeError(message)
            warnings.warn(f"{message}; without parameters and statistics this does not matter", stacklevel=3)
        alone = input.ndim == self._dims
        own = self.training or not self.track_running_stats
        momentum = 0.0 if self.momentum is None else self.momentum
        y = F.instance_norm(
            input.unsqueeze(0) if alone else input, self.running_mean, self.running_var, self.weight, self.bias, own, momentum, self.eps
        )
        return y.squeeze(0) if alone else y


class InstanceNorm1d(_InstanceNorm):
    """Instance norm of (N, C, L) or (C, L); see :func:`gradino.nn.functional.instance_norm`.

    Weight and bias are there with ``affine``, running statistics with ``track_running_stats``; in evaluation the latter
    are then used instead of the instance's own.
    """

    _dims = 2


class InstanceNorm2d(_InstanceNorm):
    """Instance norm of (N, C, H, W) or (C, H, W); see :class:`InstanceNorm1d`."""

    _dims = 3


class GroupNorm(Module):
    """Normalises groups of channels of each sample; see :func:`gradino.nn.functional.group_norm`.

    Shapes: input and output (N, C, ...) with C = num_channels; weight and bias (C,), starting as ones and zeros.
    """

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_groups < 1 or num_channels % num_groups:
            raise InvalidValueError(f"GroupNorm: num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        kind = parameter_dtype(dtype, device)
        self.register_parameter("weight", Parameter(ones(num_channels, dtype=kind)) if affine else None)
        self.register_parameter("bias", Parameter(zeros(num_channels, dtype=kind)) if affine and bias else None)

    def reset_parameters(self) -> None:
        """Start anew: weight 1, bias 0."""
        if self.weight is not None:
            self.weight.detach().fill_(1)
        if self.bias is not None:
            self.bias.detach().zero_()

    def extra_repr(self) -> str:
        """The arguments, as in PyTorch."""
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, bias={self.bias is not None}"

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, ...) -> the same."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)


class LocalResponseNorm(Module):
    """Divides by the neighbouring channels; see :func:`gradino.nn.functional.local_response_norm`."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def extra_repr(self) -> str:
        """The arguments, as in PyTorch."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, ...) -> the same."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)
