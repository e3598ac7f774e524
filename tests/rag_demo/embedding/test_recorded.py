"""The same texts as other programs made vectors of them; where those come from is said in recorded_vectors.json."""

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_demo.enclave.embedding import TextEmbedder
from rag_demo.enclave.embedding.weights import Floats

RECORDED = json.loads((Path(__file__).parent / "recorded_vectors.json").read_text(encoding="utf-8"))


def recorded(name: str) -> tuple[list[str], Floats]:
    vectors: dict[str, Any] = RECORDED[name]["vectors"]
    return list(vectors), np.array([np.frombuffer(b64decode(one, validate=True), "<f4") for one in vectors.values()])


def test_onnx_runtime_made_the_same_vectors_from_the_same_weights(embedder: TextEmbedder) -> None:
    texts, theirs = recorded("onnx_runtime")
    assert len(texts) == 7
    assert np.abs(embedder.embed(texts) - theirs).max() < 1e-5


def test_each_recorded_vector_is_found_alone_as_well(embedder: TextEmbedder) -> None:
    texts, theirs = recorded("onnx_runtime")
    alone = np.concatenate([embedder.embed([text]) for text in texts])
    assert np.abs(alone - theirs).max() < 1e-5


def test_the_model_that_others_exported_and_quantised_agrees(embedder: TextEmbedder) -> None:
    texts, theirs = recorded("eight_bits")
    assert len(texts) == 6
    assert (embedder.embed(texts) * theirs).sum(axis=1).min() > 0.99


@pytest.mark.parametrize("name", ["onnx_runtime", "eight_bits"])
def test_the_origin_of_the_recorded_vectors_is_stated(name: str) -> None:
    assert "by ONNX Runtime 1.32.0" in RECORDED[name]["origin"]
    assert np.abs(np.linalg.norm(recorded(name)[1], axis=1) - 1).max() < 1e-6
