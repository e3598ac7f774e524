"""Samples of the model's weights, for the search in places where they must not be."""

from __future__ import annotations

import json
from functools import cache
from typing import Final

from rag_demo.demo.owner import model_folder
from rag_demo.demo.secret_forms import Needle, bytes_needles, weight_windows

TENSORS: Final = (
    "embeddings.word_embeddings.weight",
    "embeddings.position_embeddings.weight",
    "encoder.layer.0.attention.self.query.weight",
    "encoder.layer.3.intermediate.dense.weight",
    "encoder.layer.5.output.dense.weight",
    "encoder.layer.5.output.LayerNorm.weight",
)
SAMPLES: Final = 8
_HEADER_LENGTH: Final = 8


@cache
def weight_needles() -> tuple[Needle, ...]:
    """Return every form of windows of several tensors, as they lie in the file and in memory.

    Raises:
        ConfigurationError: ``demo-model-missing``.
        ValueError: a tensor is missing, or has no recognisable window.
    """
    found: list[Needle] = []
    with (model_folder() / "model.safetensors").open("rb") as file:
        length = int.from_bytes(file.read(_HEADER_LENGTH), "little")
        header = json.loads(file.read(length))
        for name in TENSORS:
            if name not in header:
                raise ValueError(f"the model has no tensor {name}")
            begin, end = header[name]["data_offsets"]
            file.seek(_HEADER_LENGTH + length + begin)
            windows = weight_windows(file.read(end - begin), count=SAMPLES)
            if not windows:
                raise ValueError(f"{name} has no window that could be found")
            for window in windows:
                found += bytes_needles(f"weights of {name}", window)
    return tuple(found)
