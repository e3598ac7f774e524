"""From a sealed folder to a model that computes, and back."""

import os
from pathlib import Path

import numpy as np
import pytest

from attest.errors import ConfigurationError, SealedTamperError, SignatureError
from attest.sealed import SealedManifest
from rag_demo.enclave.embedding import TextEmbedder, open_sealed_embedder, seal_model
from tests.sealed.made import KEY, NAMES, OTHER_KEY, OWNER, STRANGER, stream

TEXTS = ["How long is the lease?", "Five years."]


@pytest.fixture(scope="session")
def sealed_model(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("sealed") / "model.sealed"
    seal_model(model_folder, target, key=KEY, names=NAMES, signer=OWNER, random=stream(), at=None)
    return target


def test_a_sealed_model_gives_the_vectors_of_the_plain_one(sealed_model: Path, embedder: TextEmbedder) -> None:
    asked: list[SealedManifest] = []

    def released(manifest: SealedManifest) -> bytes:
        asked.append(manifest)
        return KEY

    with open_sealed_embedder(sealed_model, key=released, trusted=(OWNER.public_key(),)) as opened:
        assert opened.embed(TEXTS).tobytes() == embedder.embed(TEXTS).tobytes()
    assert [str(one.key) for one in asked] == [str(NAMES.key)]
    with pytest.raises(ValueError, match="closed"):
        opened.embed(TEXTS)
    with pytest.raises(ValueError, match="closed"):
        opened.embed([])
    opened.close()


def test_another_key_opens_nothing(sealed_model: Path) -> None:
    with pytest.raises(SealedTamperError) as caught:
        open_sealed_embedder(sealed_model, key=OTHER_KEY, trusted=(OWNER.public_key(),))
    assert caught.value.code == "sealed-key-mismatch"


@pytest.mark.parametrize("trusted", [(), (STRANGER.public_key(),)])
def test_a_model_that_nobody_trusted_signed_asks_for_no_key(sealed_model: Path, trusted: tuple[()]) -> None:
    def never(manifest: SealedManifest) -> bytes:
        pytest.fail(f"a key was asked for: {manifest.key}")

    with pytest.raises(SignatureError):
        open_sealed_embedder(sealed_model, key=never, trusted=trusted)


def test_an_older_model_is_refused_where_one_is_named(sealed_model: Path) -> None:
    with pytest.raises(SealedTamperError) as caught:
        open_sealed_embedder(sealed_model, key=KEY, trusted=(OWNER.public_key(),), model=bytes(16))
    assert caught.value.code == "sealed-model-mismatch"


def test_what_the_enclave_could_not_compute_is_not_sealed(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_bytes(b"{}")
    with pytest.raises(ConfigurationError) as caught:
        seal_model(
            tmp_path / "model", tmp_path / "sealed", key=KEY, names=NAMES, signer=OWNER, random=os.urandom, at=None
        )
    assert caught.value.code == "embedding-config-unsupported"
    assert not (tmp_path / "sealed").exists()
    assert np.array_equal(sorted(one.name for one in tmp_path.iterdir()), ["model"])
