"""Vectors of collections in memory: one contiguous matrix each, the least used let go first."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rag_demo.enclave.interfaces import Vectors


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Matrix:
    """The passages of a collection that can be found.

    Attributes:
        numbers: of passages, ascending; shape ``(n,)``.
        rows: their vectors, C-contiguous; shape ``(n, dimensions)``.
    """

    numbers: NDArray[np.int64]
    rows: Vectors

    def place(self, number: int) -> int | None:
        """Return the row of a passage, or None if it is not searchable (not yet, or no longer)."""
        at = int(np.searchsorted(self.numbers, number))
        return at if at < self.numbers.size and int(self.numbers[at]) == number else None

    def wipe(self) -> None:
        """Overwrite the vectors: texts can be guessed from them."""
        self.rows.fill(0)
        self.numbers.fill(0)


class Matrices:
    """Matrices by collection, within a bound. Its caller keeps threads apart."""

    def __init__(self, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[bytes, Matrix] = OrderedDict()

    @property
    def kept_bytes(self) -> int:
        """Size in bytes of the vectors in memory."""
        return sum(matrix.rows.nbytes for matrix in self._kept.values())

    def get(self, collection: bytes) -> Matrix | None:
        """Return a matrix, which is now the last used."""
        matrix = self._kept.get(collection)
        if matrix is not None:
            self._kept.move_to_end(collection)
        return matrix

    def put(self, collection: bytes, matrix: Matrix) -> None:
        """Keep a matrix; others go until all fit, this one stays."""
        self.drop(collection)
        self._kept[collection] = matrix
        while len(self._kept) > 1 and self.kept_bytes > self._max_bytes:
            self._kept.popitem(last=False)[1].wipe()

    def drop(self, collection: bytes) -> None:
        """Forget a matrix."""
        matrix = self._kept.pop(collection, None)
        if matrix is not None:
            matrix.wipe()

    def wipe(self) -> None:
        """Forget all."""
        for matrix in self._kept.values():
            matrix.wipe()
        self._kept.clear()
