"""The encoders against the definitions, on a model that is small enough to be computed number by number."""

import threading
from collections.abc import Sequence

import numpy as np
import pytest

from rag_demo.enclave.embedding import Backend, TextEmbedder, load_embedder
from rag_demo.enclave.embedding.blas import single_threaded
from rag_demo.enclave.embedding.configuration import parse_config
from rag_demo.enclave.embedding.encoder import NumpyEncoder
from rag_demo.enclave.embedding.weights import Floats, take_weights
from rag_demo.enclave.embedding.wordpiece import parse_tokenizer
from tests.rag_demo.embedding.small import CONFIG, TOKENIZER, arrays, raw, reference, small_model

TEXTS = {
    "": [2, 3],
    "a": [2, 4, 3],
    "d c": [2, 8, 7, 3],
    "abb, x": [2, 4, 6, 6, 9, 1, 3],
    "a b a b c d": [2, 4, 5, 4, 5, 7, 3],
}


@pytest.mark.parametrize("backend", ["numpy", "onnx"])
def test_a_vector_is_what_the_definitions_say(backend: Backend) -> None:
    with load_embedder(small_model(), backend=backend) as embedder:
        vectors = embedder.embed(tuple(TEXTS))
    expected = np.array([reference(numbers) for numbers in TEXTS.values()])
    assert np.abs(vectors - expected).max() < 2e-6


def test_the_weights_are_overwritten_when_the_model_is_closed() -> None:
    given = arrays()
    config = parse_config(raw(CONFIG))
    weights = take_weights(given, config)
    tokens = parse_tokenizer(raw(TOKENIZER), vocabulary=config.vocabulary)
    embedder = TextEmbedder(tokens, NumpyEncoder(weights, config), max_tokens=7, threads=1)
    assert np.isfinite(embedder.embed(["a"])).all()
    assert any(array.any() for array in given.values())
    embedder.close()
    held = [name for name, array in given.items() if array.any()]
    assert held == []
    assert not any(array.any() for array in weights.arrays())


class _Slow(NumpyEncoder):
    """Computes when it is allowed to."""

    def wait(self) -> tuple[threading.Event, threading.Event]:
        self.begun, self.go_on = threading.Event(), threading.Event()
        return self.begun, self.go_on

    def encode(self, batch: Sequence[Sequence[int]]) -> Floats:
        self.begun.set()
        assert self.go_on.wait(20)
        return super().encode(batch)


def test_closing_waits_for_what_is_being_computed() -> None:
    config = parse_config(raw(CONFIG))
    encoder = _Slow(take_weights(arrays(), config), config)
    begun, go_on = encoder.wait()
    tokens = parse_tokenizer(raw(TOKENIZER), vocabulary=config.vocabulary)
    embedder = TextEmbedder(tokens, encoder, max_tokens=7, threads=1)
    found: list[Floats] = []
    asking = threading.Thread(target=lambda: found.append(embedder.embed(["a"])))
    asking.start()
    assert begun.wait(20)
    closing = threading.Thread(target=embedder.close)
    closing.start()
    closing.join(0.05)
    assert closing.is_alive()
    with pytest.raises(ValueError, match="closed"):
        embedder.embed(["b"])
    go_on.set()
    asking.join(20)
    closing.join(20)
    # Computed with the weights, and not with the zeros that they are now.
    assert np.abs(found[0][0] - reference([2, 4, 3])).max() < 2e-6


def test_the_library_of_products_is_told_to_use_one_thread() -> None:
    # NumPy's own wheels, which the lock files pin, bring an OpenBLAS that can be told.
    assert single_threaded()


def test_an_unknown_backend_is_a_mistake_of_the_program() -> None:
    with pytest.raises(ValueError, match="'numpy' or 'onnx'"):
        load_embedder(small_model(), backend="torch")  # type: ignore[arg-type]  # The wrong use that is tested.
