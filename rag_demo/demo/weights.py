"""Samples of the model's weights, for the search in places where they must not be."""

from __future__ import annotations

from functools import cache
from typing import Final

from attest.sealed import open_model
from rag_demo.demo.owner import model_folder
from rag_demo.demo.secret_forms import Needle, bytes_needles, weight_windows
from rag_demo.enclave.embedding import PlainFolder

TENSORS: Final = (
    "embeddings.word_embeddings.weight",
    "embeddings.position_embeddings.weight",
    "encoder.layer.0.attention.self.query.weight",
    "encoder.layer.3.intermediate.dense.weight",
    "encoder.layer.5.output.dense.weight",
    "encoder.layer.5.output.LayerNorm.weight",
)
SAMPLES: Final = 8


@cache
def weight_needles() -> tuple[Needle, ...]:
    """Return every form of windows of several tensors, as they lie in the file and in memory.

    Raises:
        ConfigurationError: ``demo-model-missing``.
        ValueError: a tensor has no recognisable window.
        AttestError: a tensor is missing or cannot be read.
    """
    found: list[Needle] = []
    with open_model(PlainFolder(model_folder())) as tensors:
        for name in TENSORS:
            windows = weight_windows(tensors.get_tensor(name).tobytes(), count=SAMPLES)
            if not windows:
                raise ValueError(f"{name} has no window that could be found")
            for window in windows:
                found += bytes_needles(f"weights of {name}", window)
    return tuple(found)
