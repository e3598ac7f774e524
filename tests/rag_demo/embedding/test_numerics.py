"""The functions of a vector, against the ones of the standard library."""

import math

import numpy as np
import pytest

from rag_demo.enclave.embedding.numerics import BLOCK_NUMBERS, erf, exponentials, gelu, layer_norm
from rag_demo.enclave.embedding.weights import Floats, Norm

EVERYWHERE: Floats = np.concatenate(
    [np.linspace(-6, 6, 24_001), np.geomspace(1e-38, 1e38, 999), -np.geomspace(1e-38, 1e38, 999)]
).astype(np.float32)


def test_erf_is_as_near_as_it_says() -> None:
    exact = np.array([math.erf(one) for one in EVERYWHERE.tolist()])
    assert np.abs(erf(EVERYWHERE) - exact).max() < 1.2e-7


def test_erf_is_odd_and_ends_at_one() -> None:
    assert np.array_equal(erf(-EVERYWHERE), -erf(EVERYWHERE))
    ends = erf(np.array([np.inf, -np.inf, 0, np.nan], dtype=np.float32))
    assert np.abs(ends[:3] - [1, -1, 0]).max() < 1e-7
    assert math.isnan(ends[3])


def test_erf_leaves_what_it_is_given() -> None:
    given = np.array([0.5], dtype=np.float32)
    erf(given)
    assert given.tolist() == [0.5]


def test_the_activation_is_the_exact_one() -> None:
    # Several blocks, the last one short.
    values = np.resize(EVERYWHERE[:24_001], (97, 1536)).astype(np.float32)
    assert values.size > 2 * BLOCK_NUMBERS
    exact = np.array([one * (1 + math.erf(one / math.sqrt(2))) / 2 for one in values.ravel().tolist()])
    gelu(values)
    assert np.abs(values.ravel() - exact).max() < 5e-7


def test_it_is_not_the_widespread_approximation() -> None:
    values = np.linspace(-4, 4, 801, dtype=np.float32)[None]
    approximated = values / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (values + 0.044715 * values**3)))
    gelu(values)
    assert np.abs(values - approximated).max() > 4e-4


@pytest.mark.parametrize("rows", [0, 1, 300])
def test_a_row_is_brought_to_the_norm(rows: int) -> None:
    random = np.random.default_rng(1)
    values = (random.standard_normal((rows, 384)) * 3 + 7).astype(np.float32)
    norm = Norm(
        weight=random.standard_normal(384).astype(np.float32), bias=random.standard_normal(384).astype(np.float32)
    )
    wide = values.astype(np.float64)
    deviation = np.sqrt(((wide - wide.mean(1, keepdims=True)) ** 2).mean(1, keepdims=True) + 0.5)
    expected = (wide - wide.mean(1, keepdims=True)) / deviation * norm.weight + norm.bias
    layer_norm(values, norm, 0.5)
    assert np.abs(values - expected).max(initial=0) < 1e-5


def test_a_row_without_variance_is_the_bias() -> None:
    values = np.full((1, 4), 3, dtype=np.float32)
    layer_norm(values, Norm(weight=np.ones(4, np.float32), bias=np.arange(4, dtype=np.float32)), 1e-12)
    assert values.tolist() == [[0, 1, 2, 3]]


def test_great_scores_do_not_overflow() -> None:
    scores = np.array([[1000.0, 999.0, -1000.0]], dtype=np.float32)
    sums = exponentials(scores)
    assert np.allclose(scores / sums, [[1 / (1 + math.exp(-1)), 1 / (1 + math.e), 0]])
