"""The encoder by ONNX Runtime, from the weights that the one in NumPy has."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

import numpy as np

from attest.errors import ConfigurationError
from rag_demo.enclave.embedding.configuration import EncoderConfig
from rag_demo.enclave.embedding.weights import Floats, Weights

try:
    # By its name: the package has no types.
    _runtime: Any = import_module("onnxruntime")
    from rag_demo.enclave.embedding.onnx_graph import IDS, MASK, POSITIONS, SUMS, encoder_graph
except ImportError as exc:
    raise ConfigurationError(
        "ONNX Runtime is not installed",
        code="embedding-backend-unavailable",
        got=exc.name,
        hint="install attest-kms[rag-onnx], or compute with NumPy (backend 'numpy')",
    ) from exc

__all__ = ["OnnxEncoder", "onnx_encoder"]

_ERRORS_ONLY: Final = 3


class OnnxEncoder:
    """See ``Encoder``. The weights stay in our arrays; ONNX Runtime keeps copies of some in an order of its own.

    Args:
        weights: overwritten when it is closed. The copies are let go of then, and not overwritten.
        config: of the model.
    """

    def __init__(self, weights: Weights, config: EncoderConfig) -> None:
        """Build the graph and a session over it."""
        self._weights = weights
        self._config = config
        graph, arrays = encoder_graph(weights, config)
        options = _runtime.SessionOptions()
        options.log_severity_level = _ERRORS_ONLY
        # Batches are computed side by side, each by one thread.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        values = [_runtime.OrtValue.ortvalue_from_numpy(array) for array in arrays.values()]
        options.add_external_initializers(list(arrays), values)
        self._session: Any = _runtime.InferenceSession(
            graph.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )

    @property
    def dimensions(self) -> int:
        """How long a vector is."""
        return self._config.hidden

    def close(self) -> None:
        """Let go of the session, and overwrite the weights."""
        self._session = None
        self._weights.wipe()

    def encode(self, batch: Sequence[Sequence[int]]) -> Floats:
        """Return the sum of the states of each text's tokens; see ``Encoder``."""
        length = max(map(len, batch))
        ids = np.zeros((len(batch), length), dtype=np.int64)
        mask = np.zeros((len(batch), length), dtype=np.float32)
        for at, one in enumerate(batch):
            ids[at, : len(one)] = one
            mask[at, : len(one)] = 1
        sums: Floats
        (sums,) = self._session.run([SUMS], {IDS: ids, MASK: mask, POSITIONS: np.arange(length, dtype=np.int64)})
        return sums


def onnx_encoder(weights: Weights, config: EncoderConfig) -> OnnxEncoder:
    """Return an encoder by ONNX Runtime; the weights are overwritten where it refuses the graph."""
    try:
        return OnnxEncoder(weights, config)
    except BaseException:
        weights.wipe()
        raise
