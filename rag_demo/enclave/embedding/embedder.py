"""Texts to vectors: what is the same whichever library computes the encoder."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, Protocol

import numpy as np

from attest.context_managers import ClosedOnExit
from rag_demo.enclave.embedding.encoder import BATCH_TOKENS
from rag_demo.enclave.embedding.refusals import WEIGHTS, unsuitable
from rag_demo.enclave.embedding.tokens import TextTokens
from rag_demo.enclave.interfaces import Vectors

WINDOW_TEXTS: Final = 1024
"""Texts that are numbers at a time: some MiB."""

_SMALLEST_LENGTH: Final = np.float32(1e-12)


class Encoder(Protocol):
    """Maker of vectors from texts that are token numbers already."""

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        ...

    def encode(self, batch: Sequence[Sequence[int]]) -> Vectors:
        """Return a vector of any length for each text; the texts are sorted by their number of tokens."""
        ...

    def close(self) -> None:
        """Overwrite or drop the weights."""
        ...


class TextEmbedder(ClosedOnExit):
    """An ``Embedder``: a model that makes vectors of texts. Several threads may use it at once.

    The other texts of a call change a text's vector by rounding alone, less than 1e-6 in any of its numbers. Tokens
    beyond ``max_tokens`` are ignored.

    Args:
        encoder: makes vectors of those; closed with this object.
        threads: number of batches computed side by side, for all callers together.
        fingerprint: names the model; empty where it is not needed.
        languages: that it knows well, ISO 639-1; empty for a model of many languages.
    """

    def __init__(
        self,
        tokens: TextTokens,
        encoder: Encoder,
        *,
        max_tokens: int,
        threads: int,
        fingerprint: str = "",
        languages: tuple[str, ...] = (),
    ) -> None:
        self.fingerprint = fingerprint
        self.languages = languages
        self.dimensions = encoder.dimensions
        self.max_tokens = max_tokens
        self._workers = ThreadPoolExecutor(threads, thread_name_prefix="embedding")
        self._tokens = tokens
        self._encoder = encoder
        self._closed = False
        self._running = 0
        self._changed = threading.Condition()

    def count_tokens(self, text: str) -> int:
        """Return how many tokens a text is, all of it, the model's own marks not counted.

        Raises:
            TypeError: not a text.
        """
        return self._tokens.count(text)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return a vector of length 1 for each text, in order.

        Memory for computing does not grow with how many texts there are, or how long they are.

        Args:
            texts: any. An empty one has a vector too, without meaning.

        Returns:
            of shape ``(len(texts), dimensions)``, float32.

        Raises:
            TypeError: one text instead of several, or something else than texts.
            ValueError: the model is closed.
            ConfigurationError: ``embedding-weights-unsuitable``: a sum of the model is too great for its numbers.
        """
        if isinstance(texts, (str, bytes)):
            raise TypeError(f"texts must be a sequence of str, not {type(texts).__name__}")
        vectors = np.empty((len(texts), self.dimensions), dtype=np.float32)
        with self._in_use():
            for begin in range(0, len(texts), WINDOW_TEXTS):
                self._fill(vectors[begin : begin + WINDOW_TEXTS], texts[begin : begin + WINDOW_TEXTS])
        return vectors

    def _fill(self, vectors: Vectors, texts: Sequence[str]) -> None:
        numbers = [self._tokens.encode(text, most=self.max_tokens) for text in texts]
        order = sorted(range(len(texts)), key=lambda at: len(numbers[at]))
        batches = list(batches_of(order, [len(one) for one in numbers]))
        for batch, rows in zip(batches, self._run([[numbers[at] for at in one] for one in batches]), strict=True):
            vectors[batch] = rows

    def _run(self, batches: Sequence[Sequence[Sequence[int]]]) -> Iterator[Vectors]:
        """Give the vectors of batches in their order. One batch, a question's, is not worth the way to a thread."""
        return map(self._encode, batches) if len(batches) == 1 else self._workers.map(self._encode, batches)

    def _encode(self, batch: Sequence[Sequence[int]]) -> Vectors:
        # Normalisation removes the length, so the division of the mean is left out.
        with np.errstate(over="ignore", invalid="ignore"):  # The result is checked.
            states = self._encoder.encode(batch)
            lengths = np.sqrt(np.einsum("ij,ij->i", states, states))
        if not np.isfinite(lengths).all():
            raise unsuitable(WEIGHTS, "weights", expected="vectors of finite numbers", got="one that is not finite")
        unit: Vectors = states / np.maximum(lengths, _SMALLEST_LENGTH)[:, None]
        return unit

    def close(self) -> None:
        """Overwrite the weights after the running computation; no computation is possible afterwards."""
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: not self._running)
            # A second call is harmless, and completes an interrupted first one.
            self._workers.shutdown()
            self._encoder.close()

    @contextmanager
    def _in_use(self) -> Generator[None]:
        with self._changed:
            if self._closed:
                raise ValueError("the embedding model is closed")
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()


def batches_of(order: Sequence[int], lengths: Sequence[int]) -> Iterator[list[int]]:
    """Cut texts, one or more, sorted by their length into batches, counted as what pads would compute."""
    batch: list[int] = []
    for at in order:
        if batch and (len(batch) + 1) * lengths[at] > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(at)
    yield batch
