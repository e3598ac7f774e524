"""From a sealed folder to a model that computes, and back."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from attest.errors import ConfigurationError, SealedTamperError, SignatureError
from attest.sealed import SealedManifest
from rag_demo.enclave.embedding import PlainFolder, TextEmbedder, open_sealed_embedder, seal_model
from rag_demo.enclave.embedding.files import MODEL_FILES, fingerprint_of
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


def test_nothing_of_it_is_written_anywhere(sealed_model: Path) -> None:
    opened_for_writing: list[object] = []
    watching = True

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if watching and event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                opened_for_writing.append(path)

    sys.addaudithook(watch)  # It stays until the process ends, and does nothing then.
    before = written_bytes()
    try:
        with open_sealed_embedder(sealed_model, key=KEY, trusted=(OWNER.public_key(),)) as opened:
            opened.embed(TEXTS)
    finally:
        watching = False
    assert opened_for_writing == []
    # The audit hook sees Python alone, and the kernel's count everything: a copy would be 90 MB.
    assert written_bytes() - before < 1 << 20


def test_a_sealed_model_has_the_fingerprint_of_its_files_and_another_one_another(
    sealed_model: Path, model_folder: Path, tmp_path: Path
) -> None:
    with open_sealed_embedder(sealed_model, key=KEY, trusted=(OWNER.public_key(),)) as opened:
        assert opened.fingerprint == fingerprint_of(PlainFolder(model_folder))
    found = {opened.fingerprint}
    for path in MODEL_FILES:
        other = tmp_path / path.replace("/", "-")
        for name in MODEL_FILES:
            (other / name).parent.mkdir(parents=True, exist_ok=True)
            (other / name).write_bytes(name.encode() + b"!" * (name == path))
        found.add(fingerprint_of(PlainFolder(other)))
    assert len(found) == 1 + len(MODEL_FILES)


def written_bytes() -> int:
    """Return how many bytes this process has given to the system to write, to files of any kind."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return 0  # A sandbox that does not count; the audit hook is what is left.
    return int(next(line.split()[1] for line in lines if line.startswith("wchar:")))


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
