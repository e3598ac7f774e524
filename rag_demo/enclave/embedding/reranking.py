"""A reranking model: it reads a question and a text together, and says how probable it is that the text answers."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import numpy as np

from attest.context_managers import ClosedOnExit
from attest.sealed import ModelFiles
from rag_demo.enclave.embedding.configuration import CONFIG_NAME, EncoderConfig, parse_config
from rag_demo.enclave.embedding.embedder import batches_of
from rag_demo.enclave.embedding.encoder import NumpyEncoder
from rag_demo.enclave.embedding.files import RERANKER_FOLDER, Subfolder, read_whole
from rag_demo.enclave.embedding.onnx_model import OnnxClassifier, OnnxSession, onnx_name
from rag_demo.enclave.embedding.refusals import WEIGHTS, unsuitable
from rag_demo.enclave.embedding.tokenizer import parse_tokenizer
from rag_demo.enclave.embedding.tokenizer_parts import TOKENIZER_NAME
from rag_demo.enclave.embedding.tokens import TextTokens
from rag_demo.enclave.embedding.weights import Floats, read_arrays, take_weights, tensor_shapes

_BERT_HEAD: Final = ("bert.pooler.dense", "classifier")
_ROBERTA_HEAD: Final = ("classifier.dense", "classifier.out_proj")
MAX_TOKENS: Final = 512
"""Of a question and a text together."""


class Classifier(Protocol):
    """Maker of one score from a pair of texts."""

    def logits(self, batch: Sequence[Sequence[int]], second: Sequence[int]) -> Floats:
        """Return the number of each pair; ``second`` is where its second text begins."""
        ...

    def close(self) -> None:
        """Drop the weights."""
        ...


class NumpyClassifier:
    """The encoder, and two layers above the state of the first token: a dense one with tanh, and the last one."""

    def __init__(self, encoder: NumpyEncoder, head: Mapping[str, Floats], names: tuple[str, str]) -> None:
        self._encoder = encoder
        self._head = head
        self._dense, self._last = names

    def logits(self, batch: Sequence[Sequence[int]], second: Sequence[int]) -> Floats:
        """Return the number of each pair."""
        states = self._encoder.first_states(batch, second)
        between = np.tanh(states @ self._head[f"{self._dense}.weight"].T + self._head[f"{self._dense}.bias"])
        numbers: Floats = between @ self._head[f"{self._last}.weight"].T + self._head[f"{self._last}.bias"]
        return numbers[:, 0]

    def close(self) -> None:
        """Overwrite the weights."""
        self._encoder.close()
        for array in self._head.values():
            array.fill(0)


class TextReranker(ClosedOnExit):
    """A ``Reranker``. Several threads may use it; they take turns."""

    def __init__(self, tokens: TextTokens, classifier: Classifier, *, max_tokens: int) -> None:
        self._tokens = tokens
        self._classifier = classifier
        self._max_tokens = max_tokens
        self._lock = threading.Lock()
        self._closed = False

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return for each text how probable it is that it answers the question, 0 to 1.

        Raises:
            ValueError: the model is closed.
            ConfigurationError: ``embedding-weights-unsuitable``: a sum of the model is too great for its numbers.
        """
        if not texts:
            return []
        pairs = [self._tokens.encode_pair(question, text, most=self._max_tokens) for text in texts]
        lengths = [len(numbers) for numbers, _ in pairs]
        found = np.zeros(len(texts), dtype=np.float32)
        with self._lock:
            if self._closed:
                raise ValueError("the reranking model is closed")
            for batch in batches_of(sorted(range(len(texts)), key=lambda at: lengths[at]), lengths):
                numbers, second = zip(*(pairs[at] for at in batch), strict=True)
                with np.errstate(over="ignore", invalid="ignore"):  # The result is checked.
                    found[batch] = self._classifier.logits(numbers, second)
        if not np.isfinite(found).all():
            raise unsuitable(WEIGHTS, "weights", expected="finite numbers", got="one that is not finite")
        return [float(one) for one in 1 / (1 + np.exp(-found.astype(np.float64)))]

    def close(self) -> None:
        """Overwrite or drop the weights; the model cannot be used afterwards."""
        with self._lock:
            self._closed = True
            self._classifier.close()


def load_reranker(model: ModelFiles) -> TextReranker | None:
    """Load the reranking model in the folder ``reranker`` of a model; None without one.

    Raises:
        ConfigurationError: as ``load_embedder``.
        AttestError: as reading raises.
    """
    folder = Subfolder(model, RERANKER_FOLDER)
    if not folder.entries:
        return None
    config = parse_config(read_whole(folder, CONFIG_NAME), classifies=True)
    tokens = parse_tokenizer(read_whole(folder, TOKENIZER_NAME), vocabulary=config.vocabulary)
    name = onnx_name(folder)
    classifier: Classifier = (
        OnnxClassifier(OnnxSession(folder, name, padding=config.padding)) if name else _classifier(folder, config)
    )
    return TextReranker(tokens, classifier, max_tokens=min(MAX_TOKENS, config.longest))


def _classifier(model: ModelFiles, config: EncoderConfig) -> NumpyClassifier:
    names = _ROBERTA_HEAD if config.first_position else _BERT_HEAD
    shapes = {
        f"{names[0]}.weight": (config.hidden, config.hidden),
        f"{names[0]}.bias": (config.hidden,),
        f"{names[1]}.weight": (1, config.hidden),
        f"{names[1]}.bias": (1,),
    }
    arrays = read_arrays(model, config, {**tensor_shapes(config), **shapes})
    head = {name: arrays[name] for name in shapes}
    return NumpyClassifier(NumpyEncoder(take_weights(arrays, config), config), head, names)
