"""The sample's embedding model: a question, and passages beside the bare products of matrices that they take."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from benchmarks.measure import Figure, interleaved_ratio, median_seconds
from rag_demo.enclave.embedding import PlainFolder, TextEmbedder, installed_model, load_embedder

__all__ = ["passages", "query"]

QUESTION = "how much notice does the tenant have to give before the end of the year when the lease was renewed"
PASSAGE_TOKENS = 200
WORDS = ("time", "person", "year", "way", "day", "thing", "man", "world", "life", "hand")
WIDE, BETWEEN, LAYERS, HEADS = 384, 1536, 6, 12
SIDE_BY_SIDE = 2
"""Passages of a batch, as the encoder takes them."""


def query(*, rounds: int = 41) -> Figure:
    """Measure one question of twenty words. There is no bar."""
    folder = PlainFolder(installed_model())
    with load_embedder(folder) as model:
        tokens = model.count_tokens(QUESTION)
        ours = median_seconds(lambda: model.embed([QUESTION]), rounds=rounds, times=1)
    detail = f"20 words, {tokens} tokens: {ours * 1e3:.1f} ms"
    return Figure(id="rag-embed-query-ms", value=ours * 1e3, bar=None, better="lower", detail=detail)


def passages(*, count: int = 32, rounds: int = 11) -> Figure:
    """Measure how many passages of 200 tokens a second have their vectors. There is no bar."""
    folder = PlainFolder(installed_model())
    texts = _texts(count)
    with load_embedder(folder) as model, _pool() as pool:
        assert {model.count_tokens(text) + 2 for text in texts} == {PASSAGE_TOKENS}
        ratio, ours, _ = interleaved_ratio(
            _embedding(model, texts), partial(_bare, pool, count), rounds=rounds, times=1
        )
    detail = (
        f"{count} passages of {PASSAGE_TOKENS} tokens, {_threads()} threads: {count / ours:.1f} a second "
        f"({ratio:.2f} times the bare products)"
    )
    return Figure(id="rag-embed-passages", value=count / ours, bar=None, better="higher", detail=detail)


def _texts(count: int) -> list[str]:
    random = np.random.default_rng(1)
    return [" ".join(random.choice(WORDS, PASSAGE_TOKENS - 2)) for _ in range(count)]


def _embedding(model: TextEmbedder, texts: list[str]) -> Callable[[], object]:
    return lambda: model.embed(texts)


def _threads() -> int:
    return len(os.sched_getaffinity(0))


def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_threads())


def _bare(pool: ThreadPoolExecutor, count: int) -> None:
    """Multiply as an encoder does, and do nothing else."""
    list(pool.map(_products, [SIDE_BY_SIDE] * (count // SIDE_BY_SIDE) + [1] * (count % SIDE_BY_SIDE)))


def _products(together: int) -> None:
    rows = together * PASSAGE_TOKENS
    states, between = _ones(rows, WIDE), _ones(rows, BETWEEN)
    heads = _ones(together, HEADS, PASSAGE_TOKENS, WIDE // HEADS)
    shares = _ones(together, HEADS, PASSAGE_TOKENS, PASSAGE_TOKENS)
    matrices = [_ones(3 * WIDE, WIDE), _ones(WIDE, WIDE), _ones(BETWEEN, WIDE)]
    last = _ones(WIDE, BETWEEN)
    for _ in range(LAYERS):
        for one in matrices:
            np.matmul(states, one.T)
        np.matmul(between, last.T)
        np.matmul(heads, heads.transpose(0, 1, 3, 2))
        np.matmul(shares, heads)


def _ones(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.ones(shape, dtype=np.float32)
