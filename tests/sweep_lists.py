"""What the operator sweep knows beforehand: operators that gradino does not have, and differences that are meant."""

from __future__ import annotations

# Operators that gradino does not have: (names as a regular expression, reason). What is here and yet there is swept all the same.
ABSENT: tuple[tuple[str, str], ...] = (
    (r"fft\..*|stft|istft|signal\.windows\..*", "no Fourier transforms and windows: outside of what gradino is for"),
    (
        r"linalg\.(cholesky|cholesky_ex|cond|det|eig.*|householder_product|inv|inv_ex|ldl_.*|lstsq|lu.*|matrix_power|matrix_rank|pinv|qr"
        r"|slogdet|solve.*|svd.*|tensorinv|tensorsolve|vander)|cholesky.*|geqrf|logdet|lu.*|matrix_exp|ormqr|pca_lowrank|pinverse|qr"
        r"|svd.*|triangular_solve",
        "no decompositions and solvers: NumPy and SciPy have them",
    ),
    (r"angle|cdouble|cfloat|chalf|complex|imag|polar|view_as_complex|view_as_real|H|mH", "no complex numbers"),
    (r"sparse\..*|to_sparse", "no sparse tensors"),
    (r"byte|char|short", "no int8, int16 and uint8"),
    (
        r"special\.(airy_ai|bessel.*|chebyshev.*|erfcx|hermite.*|i0e|i1|i1e|laguerre.*|legendre.*|log_ndtr|modified_bessel.*|ndtri"
        r"|scaled_modified.*|shifted_chebyshev.*|spherical_bessel.*|zeta)|i0|igamma|igammac",
        "no orthogonal polynomials, Bessel and other rare special functions: SciPy has them",
    ),
    (r"masked\..*", "no masked tensors"),
    (r"jiterator.*", "compiles CUDA code"),
    (r"as_strided.*|(empty|new_empty)_strided|empty_permuted|resize_.*|sum_to_size", "no free choice of strides and sizes over a memory"),
    (
        r"(alias|diagonal|expand|narrow|permute|slice|split_with_sizes|squeeze|t|transpose|unbind|unfold|unsqueeze|view)_copy",
        "PyTorch's own means of compiling: a view followed by clone() is the same",
    ),
    (
        r"_.*|native_.*|max_pool2d_with_indices_backward|grid_sampler_.*|torch\._scaled_mm.*|torch\.ops\..*|hash_tensor|slice|split_with_sizes"
        r"|unsafe_chunk|unsafe_split|constant_pad_nd|nn\.functional\.(upsample_.*|linear_cross_entropy)",
        "internal, deprecated or not documented: the public function beside it is there",
    ),
    (r"nn\.functional\.(.*3d|fractional_max_pool2d)", "no volumes (five dimensions) and random pooling"),
    (
        r"nn\.functional\.(bilinear|ctc_loss|embedding_bag|grid_sample|multi_head_attention_forward|pdist|alpha_dropout"
        r"|feature_alpha_dropout|rrelu)",
        "left out: rare layers and losses",
    ),
    (r"__rdiv__|combinations|frexp|gradient|histogram|histogramdd|nonzero_static|reshape_as|unravel_index", "left out: rarely asked for"),
)

TIES = "of equal elements gradino names the first, PyTorch any"
FLOATS_ONLY = "layers are for floating point tensors; PyTorch also takes integers"
SINGULAR = "needs singular values, and there are no decompositions"

# Differences that are meant: (operators, regular expression on what is different, reason).
DELIBERATE: tuple[tuple[str, str, str], ...] = (
    (r"topk|kthvalue|mode|sort|argsort|median|nanmedian|msort", r"^(result 1: )?value: np\.int64", TIES),
    (r"nn\.functional\..*", r"^raises DTypeError: .*must be floating point", FLOATS_ONLY),
    (r"norm\.nuc|linalg\..*norm.*", r"singular values", SINGULAR),
    (r"nn\.functional\.interpolate\.bicubic", r"bicubic", "bicubic interpolation is left out"),
    (r"nn\.functional\.batch_norm", r"at least two dimensions", "a batch has at least two dimensions: (N, C)"),
    (r"nn\.functional\.embedding.*", r"sparse=True is not supported", "gradients are dense"),
    (r"nn\.functional\.feature_alpha_dropout.*", r"at least two dimensions", "a feature is a whole channel: (N, C, ...)"),
    (r"nn\.functional\.pairwise_distance", r"must be at least 0", "a norm has an order of at least 0"),
    (r"normal.*", r"argument 'layout'", "factories have no layout=, tensors being strided"),
    (r"fill|zero_", r"a write in place is not recorded", "a write in place into what is recorded is refused"),
    (r"__rpow__|pow", r"negative integer powers", "PyTorch gives 0 for a negative power of an integer tensor"),
    (
        r"(special\.)?polygamma.*|digamma|mvlgamma.*|lgamma",
        r"^(gradient \d: |method |in place )?value",
        "near poles PyTorch's digamma and polygamma have few right digits; gradino's are compared with SciPy's",
    ),
    (r"cov|corrcoef", r"value", "PyTorch sums float32 weights in float32, and a small divisor makes the rest large"),
    (r"fmod|remainder.*|__rmod__", r"instead of np\.float\d+\(nan\)", "PyTorch gives NaN where the quotient overflows"),
)

# Operators whose results are allowed a larger error: factor on the tolerances.
LOOSE: dict[str, float] = {"cdist": 50.0}  # a square root of differences

# Error inputs that gradino accepts, which is meant: (operators, regular expression on the input, reason).
EITHER_SIDE = "a number may stand on either side, where PyTorch wants a tensor"
WIDER: tuple[tuple[str, str, str], ...] = (
    (r".*", r"^int64\(3,\), 2 \(PyTorch: \)|^2, int64\(3,\) \(PyTorch: \)", EITHER_SIDE),
    (r"__r.*__", r"^2, 3 \(PyTorch: \)", EITHER_SIDE),
    (r".*", r"Expected out tensor to have dtype", "out= may have any dtype that holds the result"),
    (r"narrow", r"bool\(\), 3", "a bool tensor is a number where an integer is asked for"),
    (r"nn\.functional\.embedding", r"'weight' must be 2-D", "a table of more dimensions gives rows of more dimensions"),
)
