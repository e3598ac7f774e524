"""A model in the form of ONNX, computed by ONNX Runtime, which gets its bytes from memory.

The runtime keeps copies of the weights in memory of its own. They are dropped when the model is closed, and not
overwritten. A model whose weights are in a second file is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import numpy as np

from attest.errors import ConfigurationError
from attest.sealed import ModelFiles
from rag_demo.enclave.embedding.configuration import EncoderConfig, Pooling
from rag_demo.enclave.embedding.files import ONNX_NAMES, read_whole
from rag_demo.enclave.embedding.refusals import WEIGHTS, brief, unsuitable
from rag_demo.enclave.embedding.weights import Floats

MAX_ONNX_BYTES: Final = 2 << 30
"""ONNX has no larger files."""
_INPUTS: Final = ("input_ids", "attention_mask", "token_type_ids")
_ENCODER_RANK, _CLASSIFIER_RANK = 3, 2


def onnx_name(model: ModelFiles) -> str | None:
    """Return the name of the ONNX file of a model; None without one."""
    return next((name for name in ONNX_NAMES if name in model.entries), None)


class OnnxSession:
    """A model that takes numbers of tokens, and gives one array.

    Args:
        model: its files.
        name: of the ONNX file.
        padding: number of the token that fills up shorter texts; it is masked.

    Raises:
        ConfigurationError: ``embedding-runtime-missing``; ``embedding-weights-unsuitable``: it cannot be loaded, or
            wants other inputs.
    """

    def __init__(self, model: ModelFiles, name: str, *, padding: int) -> None:
        content = read_whole(model, name, most=MAX_ONNX_BYTES)
        try:
            from onnxruntime import InferenceSession, SessionOptions  # noqa: PLC0415  a part of its own extra
        except ImportError as exc:
            raise ConfigurationError(
                f"{name} needs onnxruntime, which is not installed",
                code="embedding-runtime-missing",
                hint="pip install 'attest-kms[onnx]', or use a model with model.safetensors",
            ) from exc
        options = SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # batches are computed side by side
        options.log_severity_level = 4
        try:
            self._session: Any = InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except Exception as exc:
            raise unsuitable(WEIGHTS, name, expected="a model that loads", got=type(exc).__name__) from exc
        self._inputs = [one.name for one in self._session.get_inputs()]
        if not {"input_ids"} <= set(self._inputs) <= set(_INPUTS):
            raise unsuitable(WEIGHTS, f"{name}: inputs", expected=", ".join(_INPUTS), got=brief(self._inputs))
        self._name = name
        self._padding = padding

    def run(self, batch: Sequence[Sequence[int]], second: Sequence[int] = ()) -> tuple[Floats, Floats]:
        """Return the first output for a batch of texts, and the mask of their tokens."""
        longest = max(map(len, batch))
        given = {name: np.zeros((len(batch), longest), dtype=np.int64) for name in _INPUTS}
        given["input_ids"] += self._padding
        for at, text in enumerate(batch):
            given["input_ids"][at, : len(text)] = text
            given["attention_mask"][at, : len(text)] = 1
        for at, (begin, text) in enumerate(zip(second, batch, strict=False)):
            given["token_type_ids"][at, begin : len(text)] = 1
        output = self._run({name: given[name] for name in self._inputs})
        return output, given["attention_mask"].astype(np.float32)

    def _run(self, given: Mapping[str, object]) -> Floats:
        try:
            return cast("Floats", np.asarray(self._session.run(None, dict(given))[0], dtype=np.float32))
        except Exception as exc:
            raise unsuitable(WEIGHTS, self._name, expected="a model that computes", got=type(exc).__name__) from exc

    def close(self) -> None:
        """Drop the model."""
        self._session = None


class OnnxEncoder:
    """Encoder of texts that are token numbers already: one vector for each."""

    def __init__(self, session: OnnxSession, config: EncoderConfig, *, pooling: Pooling = Pooling.MEAN) -> None:
        self.dimensions = config.hidden
        self._session = session
        self._pooling = pooling

    def close(self) -> None:
        """Drop the weights."""
        self._session.close()

    def encode(self, batch: Sequence[Sequence[int]]) -> Floats:
        """Return what ``NumpyEncoder.encode`` does."""
        states, mask = self._session.run(batch)
        if states.ndim != _ENCODER_RANK or states.shape[::2] != (len(batch), self.dimensions):
            expected = f"states of {self.dimensions} numbers for each token"
            raise unsuitable(WEIGHTS, "output", expected=expected, got=brief(states.shape))
        if self._pooling is Pooling.FIRST:
            return states[:, 0]
        sums: Floats = np.einsum("ijk,ij->ik", states, mask)
        return sums


class OnnxClassifier:
    """Classifier of pairs of texts: one number for each."""

    def __init__(self, session: OnnxSession) -> None:
        self._session = session

    def close(self) -> None:
        """Drop the weights."""
        self._session.close()

    def logits(self, batch: Sequence[Sequence[int]], second: Sequence[int]) -> Floats:
        """Return the number of each pair."""
        numbers, _ = self._session.run(batch, second)
        if numbers.ndim != _CLASSIFIER_RANK or numbers.shape != (len(batch), 1):
            raise unsuitable(WEIGHTS, "output", expected="one number for each pair", got=brief(numbers.shape))
        return numbers[:, 0]
