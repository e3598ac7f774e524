"""The encoder against the definitions, on a model that is small enough to be computed number by number."""

import ctypes
import importlib.util
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from attest.errors import ConfigurationError
from rag_demo.enclave.embedding import TextEmbedder, load_embedder
from rag_demo.enclave.embedding.blas import MAPS, single_threaded
from rag_demo.enclave.embedding.configuration import parse_config
from rag_demo.enclave.embedding.embedder import WINDOW_TEXTS
from rag_demo.enclave.embedding.encoder import BATCH_TOKENS, NumpyEncoder
from rag_demo.enclave.embedding.tokenizer import parse_tokenizer
from rag_demo.enclave.embedding.weights import Floats, take_weights
from tests.rag_demo.embedding.small import CONFIG, TOKENIZER, arrays, raw, reference, small_model

TEXTS = {
    "": [2, 3],
    "a": [2, 4, 3],
    "d c": [2, 8, 7, 3],
    "abb, x": [2, 4, 6, 6, 9, 1, 3],
    "a b a b c d": [2, 4, 5, 4, 5, 7, 3],
}


def test_a_vector_is_what_the_definitions_say() -> None:
    with load_embedder(small_model()) as embedder:
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


def test_weights_that_are_refused_are_overwritten_too() -> None:
    given = arrays()
    given["encoder.layer.1.output.dense.bias"][3] = np.nan
    with pytest.raises(ConfigurationError):
        take_weights(given, parse_config(raw(CONFIG)))
    assert not any(array.any() for array in given.values())


class _Slow(NumpyEncoder):
    """Computes when it is allowed to."""

    def wait(self) -> tuple[threading.Event, threading.Event]:
        self.begun, self.go_on = threading.Event(), threading.Event()
        return self.begun, self.go_on

    def encode(self, batch: Sequence[Sequence[int]]) -> Floats:
        self.begun.set()
        assert self.go_on.wait(60)
        return super().encode(batch)


class _Watched(NumpyEncoder):
    """Notes how long the texts of each batch are."""

    batches: list[list[int]]

    def encode(self, batch: Sequence[Sequence[int]]) -> Floats:
        self.batches.append([len(one) for one in batch])
        return super().encode(batch)


def test_batches_are_sorted_and_bounded_as_if_they_were_padded() -> None:
    config = parse_config(raw({**CONFIG, "max_position_embeddings": 600}))
    tensors = arrays()
    tensors["embeddings.position_embeddings.weight"] = np.zeros((600, 8), np.float32)
    encoder = _Watched(take_weights(tensors, config), config)
    encoder.batches = []
    tokens = parse_tokenizer(raw(TOKENIZER), vocabulary=config.vocabulary)
    lengths = [at * 37 % 300 for at in range(200)] + [560]
    with TextEmbedder(tokens, encoder, max_tokens=600, threads=1) as embedder:
        embedder.embed(["a " * length for length in lengths])
    assert [length for one in encoder.batches for length in one] == sorted(length + 2 for length in lengths)
    assert max(len(one) * max(one) for one in encoder.batches if len(one) > 1) <= BATCH_TOKENS
    # And no smaller than they have to be: with the next text each would have been too large.
    after = [one[0] for one in encoder.batches[1:]]
    assert all((len(one) + 1) * more > BATCH_TOKENS for one, more in zip(encoder.batches, after, strict=False))


def test_closing_waits_for_what_is_being_computed() -> None:
    config = parse_config(raw(CONFIG))
    encoder = _Slow(take_weights(arrays(), config), config)
    begun, go_on = encoder.wait()
    tokens = parse_tokenizer(raw(TOKENIZER), vocabulary=config.vocabulary)
    embedder = TextEmbedder(tokens, encoder, max_tokens=7, threads=1)
    found: list[Floats] = []
    asking = threading.Thread(target=lambda: found.append(embedder.embed(["a"])), daemon=True)
    asking.start()
    assert begun.wait(60)
    closing = threading.Thread(target=embedder.close, daemon=True)
    closing.start()
    closing.join(0.05)
    assert closing.is_alive()
    with pytest.raises(ValueError, match="closed"):
        embedder.embed(["b"])
    go_on.set()
    asking.join(10)
    closing.join(10)
    assert not closing.is_alive()
    # Computed with the weights, and not with the zeros that they are now.
    assert np.abs(found[0][0] - reference([2, 4, 3])).max() < 2e-6


def test_the_library_of_products_is_told_to_use_one_thread() -> None:
    # NumPy's own wheels, which the lock files pin, bring an OpenBLAS that can be told, and asked.
    (path,) = {line.split()[-1] for line in MAPS.read_text().splitlines() if "libscipy_openblas64_" in line}
    library = ctypes.CDLL(path)
    for ask in (lambda: load_embedder(small_model()).close(), lambda: single_threaded() or pytest.fail("not told")):
        library.scipy_openblas_set_num_threads64_(2)
        assert library.scipy_openblas_get_num_threads64_() == 2
        ask()
        assert library.scipy_openblas_get_num_threads64_() == 1


@pytest.mark.parametrize("kind", ["nothing is loaded", "it is gone", "it has no such function", "no list"])
def test_a_library_of_products_that_cannot_be_told_is_no_failure(kind: str, tmp_path: Path) -> None:
    maps, library = tmp_path / "maps", tmp_path / "libopenblas.so"
    if kind == "it has no such function":
        library.write_bytes(Path(find_library_file("_ctypes")).read_bytes())
    if kind != "no list":
        maps.write_text(f"7f00-7f01 r-xp 00000000 00:00 1    {library if kind.startswith('it ') else ''}\n")
    assert not single_threaded(maps)


def find_library_file(name: str) -> str:
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return spec.origin


def test_many_texts_are_taken_some_at_a_time() -> None:
    texts = [" ".join("abcd"[(at * step) % 4] for step in range(at % 6)) for at in range(WINDOW_TEXTS + 30)]
    with load_embedder(small_model()) as embedder:
        together = embedder.embed(texts)
        alone = np.concatenate([embedder.embed([text]) for text in texts[-40:]])
    assert np.abs(together[-40:] - alone).max() < 1e-6
