"""The encoder in NumPy. There is no padding: the tokens of a batch follow each other, across texts.

All but the attention works on each token by itself, so that one product of matrices serves the whole batch. The
attention works on texts of the same length at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rag_demo.enclave.embedding.blas import single_threaded
from rag_demo.enclave.embedding.configuration import EncoderConfig, Pooling
from rag_demo.enclave.embedding.numerics import exponentials, gelu, layer_norm
from rag_demo.enclave.embedding.weights import Floats, LayerWeights, Linear, Weights

BATCH_TOKENS: Final = 512
"""Tokens of a batch: as fast as more, and a few MiB of memory for any request."""
_GROUP_SCORES: Final = 1 << 20
"""Numbers of attention at a time: 4 MiB, and more only for a single text."""


class NumpyEncoder:
    """Encoder of texts that are token numbers already: one vector for each.

    Args:
        weights: overwritten when it is closed.
        pooling: what of the states of a text's tokens is its vector.
    """

    def __init__(self, weights: Weights, config: EncoderConfig, *, pooling: Pooling = Pooling.MEAN) -> None:
        single_threaded()  # Without this setting the result is the same, and slower.
        self.dimensions = config.hidden
        self._weights = weights
        self._config = config
        self._pooling = pooling

    def close(self) -> None:
        """Overwrite the weights."""
        self._weights.wipe()

    def encode(self, batch: Sequence[Sequence[int]]) -> Floats:
        """Return the sum of the states of each text's tokens, or the first of them.

        Only the direction is used later, and the mean has the direction of the sum.

        Args:
            batch: texts as numbers, sorted by their length, none empty; about ``BATCH_TOKENS`` in all.
        """
        if self._pooling is Pooling.FIRST:
            return self.first_states(batch)
        sums: Floats = np.add.reduceat(self._states(batch, ()), _starts(batch), axis=0)
        return sums

    def first_states(self, batch: Sequence[Sequence[int]], second: Sequence[int] = ()) -> Floats:
        """Return the state of each text's first token.

        Args:
            batch: as ``encode`` takes it.
            second: where in each text a second one begins.
        """
        first: Floats = self._states(batch, second)[_starts(batch)]
        return first

    def _states(self, batch: Sequence[Sequence[int]], second: Sequence[int]) -> Floats:
        runs = [(length, len(list(group))) for length, group in groupby(map(len, batch))]
        states = self._embeddings(batch, second)
        for layer in self._weights.layers:
            states = self._layer(states, layer, runs)
        return states

    def _embeddings(self, batch: Sequence[Sequence[int]], second: Sequence[int]) -> Floats:
        numbers = np.concatenate([np.asarray(one, dtype=np.intp) for one in batch])
        positions = np.concatenate([np.arange(len(one)) for one in batch]) + self._config.first_position
        states: Floats = self._weights.words[numbers]
        states += self._weights.positions[positions]
        for begin, start, text in zip(_starts(batch), second, batch, strict=False):
            states[begin + start : begin + len(text)] += self._weights.second
        layer_norm(states, self._weights.norm, self._config.epsilon)
        return states

    def _layer(self, states: Floats, layer: LayerWeights, runs: Sequence[tuple[int, int]]) -> Floats:
        mixed = _linear(self._attention(_linear(states, layer.attention), runs), layer.attention_output)
        mixed += states
        layer_norm(mixed, layer.attention_norm, self._config.epsilon)
        between = _linear(mixed, layer.intermediate)
        gelu(between)
        out = _linear(between, layer.output)
        out += mixed
        layer_norm(out, layer.output_norm, self._config.epsilon)
        return out

    def _attention(self, fused: Floats, runs: Sequence[tuple[int, int]]) -> Floats:
        """Return for each token what it takes from the tokens of its text, head beside head.

        Args:
            fused: queries, keys and values of each token in a row.
            runs: lengths of texts, and how many of each follow each other.
        """
        context = np.empty((len(fused), self._config.hidden), dtype=np.float32)
        start = 0
        for length, count in runs:
            most = max(1, _GROUP_SCORES // (self._config.heads * length * length))
            for first in range(0, count, most):
                texts = min(most, count - first)
                end = start + texts * length
                self._attend(fused[start:end], context[start:end], texts, length)
                start = end
        return context

    def _attend(self, fused: Floats, context: Floats, texts: int, length: int) -> None:
        heads, size = self._config.heads, self._config.hidden // self._config.heads
        parts = fused.reshape(texts, length, 3, heads, size)
        queries, keys, values = (parts[:, :, at].transpose(0, 2, 1, 3) for at in range(3))
        scores: Floats = queries @ keys.transpose(0, 1, 3, 2)
        sums = exponentials(scores)
        taken = scores @ values
        taken /= sums
        context.reshape(texts, length, heads, size)[:] = taken.transpose(0, 2, 1, 3)


def _starts(batch: Sequence[Sequence[int]]) -> NDArray[np.intp]:
    return np.cumsum([0, *map(len, batch)][:-1], dtype=np.intp)


def _linear(values: Floats, part: Linear) -> Floats:
    product: Floats = values @ part.weight.T
    product += part.bias
    return product
