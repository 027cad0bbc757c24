"""Nothing is missing for any op: row, spec, Python function, line in the docs; and what is missing is named."""

from __future__ import annotations

from dataclasses import replace

import pytest
from completeness import DOCUMENT, Row, document, missing, names_in_file, resolve, table
from composed import COMPOSED
from specs import LIST, SPECS

import gradino as gd
from gradino import factories, functions

# Functions that are no op and no composition of ops that a spec could describe; where they are tested instead.
ELSEWHERE = {
    "tests/test_composed.py": "allclose empty empty_like equal from_numpy is_tensor numel rand rand_like randn randn_like tensor",
    "tests/test_conv.py": "conv1d conv3d conv_transpose1d conv_transpose3d",
    "tests/test_contract.py": "as_tensor concatenate isclose randperm tril triu",
    "tests/test_pointwise.py": "absolute negative sgn multiply divide true_divide subtract greater greater_equal less less_equal not_equal"
    " fix arcsin arccos arctan arcsinh arccosh arctanh arctan2 asarray clone conj conj_physical finfo iinfo is_complex is_conj"
    " is_floating_point is_neg is_nonzero is_same_size is_signed real resolve_conj resolve_neg result_type scalar_tensor typename",
    "tests/test_activations_torch.py": "celu_ elu_ hardtanh_ leaky_relu_ relu_ rrelu_ selu_ threshold_ "
    "alpha_dropout celu dropout1d dropout2d feature_alpha_dropout glu gumbel_softmax hardshrink "
    "hardsigmoid prelu relu6 relu_squared rrelu selu softcap softmax2d softmin softshrink softsign swiglu tanhshrink threshold",
    "tests/test_losses_more_torch.py": "cosine_embedding_loss cosine_similarity gaussian_nll_loss hinge_embedding_loss huber_loss kl_div "
    "l1_loss margin_ranking_loss multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss pairwise_distance poisson_nll_loss "
    "soft_margin_loss triplet_margin_loss triplet_margin_with_distance_loss",
    "tests/test_embeddings_torch.py": "embedding_bag",
    "tests/test_random.py": "bernoulli logspace multinomial randint_like",
    "tests/test_einsum.py": "einsum",
    "tests/test_arranging.py": "broadcast_shapes tril_indices triu_indices",
    "tests/test_ops.py": "get_rng_state manual_seed set_rng_state",
}


def test_every_op_is_complete():
    assert missing(table(), SPECS, DOCUMENT.read_text()) == []


def test_no_spec_stands_twice():
    names = [spec.name for spec in LIST + COMPOSED]
    assert len(names) == len(set(names)), sorted(n for n in names if names.count(n) > 1)


def test_the_library_is_built_from_the_table():
    assert [row.name for row in table()] == names_in_file()


def test_the_document_is_up_to_date():
    assert DOCUMENT.read_text() == document(table(), SPECS), "run `python docs/op_support.py`"


def test_every_function_is_tested():
    tested = {spec.python.split(".")[-1] or spec.name for spec in LIST + COMPOSED} | {spec.name for spec in LIST + COMPOSED}
    tested |= {name for names in ELSEWHERE.values() for name in names.split()}
    public = {*functions.__all__, *factories.__all__, *gd.nn.functional.__all__}
    assert sorted(public - tested) == [], "these have no spec in tests/specs/ or tests/composed.py"


# ---- Planted faults: a copy of the lists with something missing -----------------------------------------------------


def test_an_op_with_nothing_but_a_row_is_named():
    rows = [*table(), Row("swish", "swish", internal=False, elementwise=True, view=False, avx512=False)]
    assert missing(rows, SPECS, DOCUMENT.read_text()) == [
        "swish: no spec in tests/specs/",
        "swish: no Python function gradino.swish",
        "swish: no line in docs/op-support.md; write it with `python docs/op_support.py`",
    ]


def test_an_internal_op_needs_no_python_function_but_a_spec():
    rows = [*table(), Row("swish_bwd", "none", internal=True, elementwise=True, view=False, avx512=False)]
    found = missing(rows, SPECS, DOCUMENT.read_text())
    assert found[0] == "swish_bwd: no spec in tests/specs/" and len(found) == 2, found


@pytest.mark.parametrize(
    "change, words",
    [
        ({"cases": ()}, "its spec has no cases"),
        ({"order": 0}, "the table says vjp `exp`, the spec says order 0"),
        ({"elementwise": False, "rows": lambda n: ()}, "elementwise"),
        ({"python": "exponential"}, "no Python function gradino.exponential"),
        ({"python": "nn.functional.exp"}, "no Python function gradino.nn.functional.exp"),
    ],
)
def test_an_incomplete_spec_is_named(change, words):
    found = missing(table(), SPECS | {"exp": replace(SPECS["exp"], **change)}, DOCUMENT.read_text())
    assert len(found) == 1 and found[0].startswith("exp: ") and words in found[0], found


def test_a_function_without_docstring_is_named(monkeypatch):
    monkeypatch.setattr(gd, "exp", lambda x: x.exp())
    assert missing(table(), SPECS, DOCUMENT.read_text()) == ["exp: gradino.exp has no docstring"]


def test_a_spec_without_row_is_named():
    rows = [row for row in table() if row.name != "exp"]
    found = missing(rows, SPECS, DOCUMENT.read_text())
    assert found == [
        "exp: has a spec in tests/specs/, but no row in native/ops.def",
        "exp: stands in docs/op-support.md, but not in native/ops.def",
    ]


def test_a_missing_line_of_the_document_is_named():
    text = "\n".join(line for line in DOCUMENT.read_text().splitlines() if not line.startswith("| `exp` |"))
    assert missing(table(), SPECS, text) == ["exp: no line in docs/op-support.md; write it with `python docs/op_support.py`"]


def test_a_spec_without_lengths_is_named():
    found = missing(table(), SPECS | {"sum": replace(SPECS["sum"], rows=None)}, DOCUMENT.read_text())
    assert found == ["sum: its spec has no `rows`, which check all short lengths"]


def test_resolve():
    assert resolve("nn.functional.linear") is gd.nn.functional.linear
    assert resolve("Tensor.exp") is gd.Tensor.exp
    assert resolve("no.such.thing") is None
