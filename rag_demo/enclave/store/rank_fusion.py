"""Two rankings → one, and which words of a question are worth a look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

RANK_CONSTANT = 60
"""k of reciprocal rank fusion, as its authors chose it (Cormack, Clarke, Büttcher, SIGIR 2009)."""
CANDIDATES = 64
"""Number of passages in each ranking."""
MAX_TELLING = 12
"""Number of words of a question that are looked up: the rarest."""
COMMON_SHARE = 8
"""A word in more than one passage of eight tells little and costs most; it is left out if there is another."""


def nearest(similarities: NDArray[np.float32], count: int = CANDIDATES) -> NDArray[np.intp]:
    """Return the places of the greatest, greatest first; of equal ones the earlier first."""
    if similarities.size > count:
        kept = np.argpartition(-similarities, count - 1)[:count]
    else:
        kept = np.arange(similarities.size)
    return kept[np.lexsort((kept, -similarities[kept]))]


def fuse(*rankings: Sequence[int]) -> dict[int, float]:
    """Return a score for everything that is ranked: the sum of 1 / (k + rank), ranks counted from 1."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, item in enumerate(ranking, start=1):
            scores[item] = scores.get(item, 0.0) + 1.0 / (RANK_CONSTANT + rank)
    return scores


def telling(counts: Mapping[str, int], passages: int) -> tuple[str, ...]:
    """Return the words to look up, the rarest first.

    Args:
        counts: word → how many passages of the collection have it.
        passages: number of passages of the collection.
    """
    there = sorted((word for word, count in counts.items() if count), key=lambda word: (counts[word], word))
    rare = [word for word in there if counts[word] * COMMON_SHARE <= passages]
    return tuple((rare or there[:1])[:MAX_TELLING])
