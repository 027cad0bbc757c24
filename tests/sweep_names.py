"""PyTorch's public names that gradino does not have, with the reason: (where, names as a regular expression, reason)."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator
from typing import Any

import gradino as gd

ABSENT_NAMES: tuple[tuple[str, str, str], ...] = (
    (
        r".*",
        r".*_copy|.*_backward.*|native_.*|.*sym_.*|.*_jit.*|slice_inverse|hash_tensor|unsafe_.*|constant_pad_nd",
        "PyTorch's own means of compiling",
    ),
    (
        r"torch",
        r"(cudnn|miopen|mkldnn|fbgemm|quantized|quantize|fake_quantize|q_per|q_)_?.*|.*_quantized|.*quant.*|int_repr|dequantize|fused_.*"
        r"|choose_qparams.*|profiler_.*|import_ir.*|parse_.*|merge_type.*|unify_type.*|compiled_with.*|batch_norm_.*|is_vulkan.*"
        r"|prepare_multiprocessing.*|get_file_path|thread_safe_generator|classproperty|init_num_threads|fork|wait|while_loop"
        r"|get_device_module|is_distributed|autocast_.*|.*autocast.*|.*_anomaly_.*|sym_.*|segment_reduce|norm_except_dim",
        "internal, quantised, other accelerators, or TorchScript",
    ),
    (r"torch", r"[a-z0-9_]+_", "in-place functions: the method of that name is there"),
    (
        r"torch",
        r"adaptive_.*|avg_pool1d|max_pool.*|(batch|group|instance|layer|rms)_norm|batch_norm|bilinear|binary_cross_entropy.*|celu|selu|rrelu"
        r"|prelu|hardshrink|threshold|channel_shuffle|pixel_.*|cosine_.*|pairwise_distance|pdist|ctc_loss|embedding.*|.*_loss|kl_div"
        r"|(gru|lstm|rnn_tanh|rnn_relu)(_cell)?|alpha_dropout|feature_.*|affine_grid.*|grid_sampler.*|conv_tbc|convolution|dropout"
        r"|poisson_nll_loss",
        "in nn.functional or nn, or left out there",
    ),
    (
        r".*",
        r"cholesky.*|det|eig|geqrf|inverse|lobpcg|logdet|lstsq|lu.*|matrix_exp|matrix_power|matrix_rank|nuclear_norm|frobenius_norm|orgqr"
        r"|ormqr|pca_.*|pinverse|qr|slogdet|solve|svd.*|symeig|triangular_solve|vander|cond",
        "no decompositions and solvers: NumPy and SciPy have them",
    ),
    (
        r".*",
        r"angle|complex|polar|imag|view_as_(complex|real)|cdouble|cfloat|chalf|stft|istft|.*_window",
        "no complex numbers and transforms",
    ),
    (
        r".*",
        r".*sparse.*|.*_indices|indices|values|coalesce|dense_dim|to_dense|is_coalesced|dsmm|hsmm|hspmm|saddmm|smm|spmm|sspaddmm|to_mkldnn"
        r"|to_padded.*|is_nested",
        "no sparse and nested tensors",
    ),
    (r".*", r"byte|char|short|q_.*|qscheme|int_repr|dequantize", "no int8, int16, uint8 and quantised tensors"),
    (r".*", r"i0_?|igammac?_?|frexp|binomial|poisson|digamma_", "rare special functions and distributions"),
    (
        r".*",
        r"as_strided.*|resize.*|empty_(permuted|strided)|new_empty_strided|sum_to_size|set_|storage.*|untyped_storage|is_storage|is_set_to"
        r"|const_data_ptr|from_file|frombuffer|to_dlpack|share_memory_|is_shared|dim_order|new",
        "no free choice of strides, sizes and storages: arenas own memory",
    ),
    (
        r"Tensor",
        r"is_(cpu|ipu|maia|mkldnn|mps|mtia|vulkan|xla|xpu|distributed|inference)|ipu|mtia|xpu|record_stream|module_load|name|volatile"
        r"|reinforce|as_subclass|grad_dtype|apply_|map2?_|index|histogram|nonzero_static|reshape_as|split_with_sizes|detach_|fill_diagonal_"
        r"|adjoint|m?H|prelu|hardshrink",
        "other devices, Python loops over elements, or rare",
    ),
    (
        r"torch",
        r"combinations|gradient|histogram.*|nonzero_static|range|split_with_sizes|unravel_index|vmap|compile|is_inference.*|is_warn.*"
        r"|set_warn.*|(get|set)_(deterministic|float32|default_device|num_interop|flush).*|.*deterministic.*|initial_seed|seed|get_device"
        r"|set_default_(device|tensor_type)|adjoint|detach|fill|masked_fill|from_dlpack",
        "rare, or a switch that gradino does not need: it is deterministic, and there is one device",
    ),
    (
        r"functional",
        r"Optional|assert_int.*|boolean_dispatch|.*has_torch_function.*|handle_torch_function|.*_with_indices|grouped_mm|scaled_.*"
        r"|linear_cross_entropy|.*3d.*|fractional_.*|upsample.*|conv_tbc|[a-z0-9_]+_|lp_pool3d",
        "internal, deprecated, in place, or five dimensions",
    ),
    (
        r"functional",
        r"affine_grid|grid_sample|alpha_dropout|feature_alpha_dropout|rrelu|bilinear|ctc_loss|embedding_bag|multi_head_attention_forward|pdist"
        r"|dropout1d|gumbel_softmax",
        "rare layers and losses",
    ),
)


def _public(m: Any) -> list[str]:
    return [n for n in dir(m) if not n.startswith("_")]


def names() -> Iterator[tuple[str, str, bool]]:
    """(where, name, whether gradino has it) of functions and methods."""
    import torch
    import torch.nn.functional as functional

    for n in _public(torch):
        found = getattr(torch, n)
        if callable(found) and not isinstance(found, (types.ModuleType, torch.dtype, type)):
            yield "torch", n, hasattr(gd, n)
    for n in _public(torch.Tensor):
        yield "Tensor", n, hasattr(gd.Tensor, n)
    for n in _public(functional):
        found = getattr(functional, n)
        if callable(found) and not isinstance(found, type):
            yield "functional", n, hasattr(gd.nn.functional, n)


def reason_of(where: str, name: str) -> str | None:
    """Why gradino does not have a name, if that is known."""
    return next((reason for places, pattern, reason in ABSENT_NAMES if re.fullmatch(places, where) and re.fullmatch(pattern, name)), None)
