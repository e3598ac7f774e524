"""The same model by ONNX Runtime: another program's products, activation and normalisation, from the same weights."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rag_demo.enclave.embedding import PlainFolder, TextEmbedder, load_embedder

TEXTS = (
    "How long is the lease?",
    "The tenant shall give notice in writing three months before the end of a quarter.",
    "",
    "x",
    "été, naïve, 東京, 🔑, don't, [SEP], 3.14",
    "lease " * 300,
    "Whales are mammals. " * 25,
)


@pytest.fixture(scope="session")
def onnx(model_folder: Path) -> Iterator[TextEmbedder]:
    with load_embedder(PlainFolder(model_folder), backend="onnx") as opened:
        yield opened


def test_both_compute_the_same_vectors(onnx: TextEmbedder, embedder: TextEmbedder) -> None:
    assert (onnx.dimensions, onnx.max_tokens) == (embedder.dimensions, embedder.max_tokens)
    assert np.abs(onnx.embed(TEXTS) - embedder.embed(TEXTS)).max() < 1e-5


def test_padding_changes_no_vector(onnx: TextEmbedder) -> None:
    alone = np.concatenate([onnx.embed([text]) for text in TEXTS])
    assert np.abs(onnx.embed(TEXTS) - alone).max() < 1e-6
