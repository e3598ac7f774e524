"""A sealed model opens as what was sealed; whatever is changed in its folder is refused before the first byte."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
import rfc8785
from cryptography.hazmat.primitives.asymmetric import ec

from attest.errors import AttestError, SealedFileError, SealedSourceError, SealedTamperError
from attest.release.names import KeyReference
from attest.release.notes import VerifierKey
from attest.sealed import (
    FileStore,
    FolderStore,
    ModelResource,
    SealedDirectory,
    SealedManifest,
    SealingNames,
    Source,
    open_directory,
    sign_model,
    verify_directory,
    verify_model,
)
from tests.sealed.made import FILES, KEY, OTHER_KEY, OWNER, STRANGER, Place, stream

TRUSTED = (OWNER.public_key(),)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    found = Place(tmp_path)
    found.seal()
    return found


def refusal(place: Place, *, key: bytes = KEY, digests: bool = False) -> str:
    with pytest.raises(AttestError) as refused:
        place.open(key=key, digests=digests)
    return refused.value.code


def signed_again(place: Place, signer: ec.EllipticCurvePrivateKey = OWNER) -> None:
    """Sign whatever lies in the folder now."""
    resources = [
        ModelResource(name=str(one.relative_to(place.sealed)), digest=sha256(one.read_bytes()).digest())
        for one in place.sealed.rglob("*")
        if one.is_file() and one.name != "model.sig"
    ]
    (place.sealed / "model.sig").write_bytes(sign_model(resources, name="sealed", signer=signer))


def test_what_is_opened_is_what_was_sealed(place: Place) -> None:
    with place.open(digests=True) as model:
        assert {path: bytes(model.read(path)) for path in model.entries} == FILES
        assert model.verified.digests_verified
        assert model.manifest.key == KeyReference.parse("model@1")


def test_the_folder_holds_ciphertext_the_manifest_and_the_signature_and_nothing_else(place: Place) -> None:
    names = {str(one.relative_to(place.sealed)) for one in place.sealed.rglob("*") if one.is_file()}
    assert names == {"sealed.json", "model.sig", *(f"{path}.sealed" for path in FILES)}
    assert {one.name for one in place.folder.iterdir()} == {"model", "sealed"}
    data = b"".join((place.sealed / name).read_bytes() for name in names)
    assert b"weights" not in data
    assert KEY not in data


def test_the_manifest_names_key_service_policy_creator_and_time_only_where_there_are_any(tmp_path: Path) -> None:
    service = VerifierKey(name="kms.example/prod", public=bytes(range(32)))
    names = SealingNames(
        key=KeyReference.parse("acme/model@7"),
        service=service,
        service_url="https://kms.example",
        policy_digest=bytes(32),
        creator="Alice of Acme",
    )
    place = Place(tmp_path)
    place.seal(names=names, fingerprints=False)
    document = json.loads((place.sealed / "sealed.json").read_bytes())
    assert document["kms"] == {"origin": "kms.example/prod", "vkey": service.text, "url": "https://kms.example"}
    assert (document["creator"], document["policy_sha256"]) == ("Alice of Acme", "00" * 32)
    assert all("sha256" not in one for one in document["files"])
    assert place.open().manifest.service == service


def test_two_sealings_of_one_model_share_no_identity_and_no_key(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    a, b = Place(tmp_path / "a"), Place(tmp_path / "b")
    one, other = a.seal(seed=1), b.seal(seed=2)
    assert one.manifest.model != other.manifest.model
    with a.open() as first, b.open() as second:
        assert first.data_key() != second.data_key()
    shutil.copy(b.sealed / "config.json.sealed", a.sealed / "config.json.sealed")
    with a.open() as model, pytest.raises(SealedTamperError) as refused:
        model.open("config.json")
    assert refused.value.code == "sealed-header-mismatch"


@pytest.mark.parametrize("name", ["sealed.json", "model.sig"])
@pytest.mark.parametrize("flip", [0x01, 0x20])
def test_every_flipped_byte_of_what_is_signed_is_refused(place: Place, name: str, flip: int) -> None:
    path = place.sealed / name
    good = path.read_bytes()
    accepted = []
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes((good[at] ^ flip,)) + good[at + 1 :])
        try:
            verify_directory(place.sealed, trusted=TRUSTED)
        except AttestError:
            continue
        accepted.append(at)
    assert accepted == []
    path.write_bytes(good)
    verify_directory(place.sealed, trusted=TRUSTED)


@pytest.mark.parametrize("name", ["sealed.json", "model.sig"])
def test_every_truncation_and_extension_of_what_is_signed_is_refused(place: Place, name: str) -> None:
    path = place.sealed / name
    good = path.read_bytes()
    for bad in (*(good[:length] for length in range(len(good))), good + b" ", good + b"\n", b" " + good):
        path.write_bytes(bad)
        if name == "model.sig" and bad.strip() == good:
            continue  # White space around the bundle changes nothing that is signed.
        with pytest.raises(AttestError):
            verify_directory(place.sealed, trusted=TRUSTED)


def test_another_owners_signature_is_refused_and_none_is_trusted_by_default(place: Place) -> None:
    for trusted in ((), (STRANGER.public_key(),)):
        with pytest.raises(AttestError) as refused:
            verify_directory(place.sealed, trusted=trusted)
        assert refused.value.code == "model-signature-untrusted"
    signed_again(place, STRANGER)
    assert refusal(place) == "model-signature-untrusted"


def test_an_older_model_of_the_same_owner_is_refused_where_one_is_pinned(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    old, new = Place(tmp_path / "old"), Place(tmp_path / "new")
    old.seal(seed="old")
    pinned = new.seal(seed="new").manifest.model
    open_directory(new.sealed, key=KEY, trusted=TRUSTED, model=pinned).close()
    open_directory(old.sealed, key=KEY, trusted=TRUSTED).close()
    with pytest.raises(SealedTamperError) as refused:
        open_directory(old.sealed, key=lambda _: pytest.fail("asked for a key"), trusted=TRUSTED, model=pinned)
    assert refused.value.code == "sealed-model-mismatch"


def test_a_key_is_not_asked_for_before_everything_else_holds(place: Place) -> None:
    (place.sealed / "more").write_bytes(b"")
    asked: list[SealedManifest] = []

    def key(manifest: SealedManifest) -> bytes:
        asked.append(manifest)
        return KEY

    with pytest.raises(SealedTamperError):
        open_directory(place.sealed, key=key, trusted=TRUSTED)
    assert asked == []
    (place.sealed / "more").unlink()
    open_directory(place.sealed, key=key, trusted=TRUSTED)
    assert [str(one.key) for one in asked] == ["model@1"]


def missing(place: Place) -> None:
    (place.sealed / "config.json.sealed").unlink()


def added(place: Place) -> None:
    (place.sealed / "extra.bin").write_bytes(b"x")


def added_below(place: Place) -> None:
    (place.sealed / "tokenizer" / ".hidden").write_bytes(b"x")


def renamed(place: Place) -> None:
    (place.sealed / "config.json.sealed").rename(place.sealed / "config.sealed")


def cut(place: Place) -> None:
    path = place.sealed / "model.safetensors.sealed"
    path.write_bytes(path.read_bytes()[:-1])


def extended(place: Place) -> None:
    with (place.sealed / "model.safetensors.sealed").open("ab") as file:
        file.write(b"\0")


def linked(place: Place) -> None:
    (place.sealed / "config.json.sealed").rename(place.folder / "moved")
    (place.sealed / "config.json.sealed").symlink_to(place.folder / "moved")


def piped(place: Place) -> None:
    os.mkfifo(place.sealed / "pipe")


def unsigned(place: Place) -> None:
    (place.sealed / "model.sig").unlink()


def without_manifest(place: Place) -> None:
    (place.sealed / "sealed.json").unlink()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (missing, "sealed-files-mismatch"),
        (added, "sealed-files-mismatch"),
        (added_below, "sealed-files-mismatch"),
        (renamed, "sealed-files-mismatch"),
        (cut, "sealed-size-mismatch"),
        (extended, "sealed-size-mismatch"),
        (linked, "sealed-folder-unsafe"),
        (piped, "sealed-folder-unsafe"),
        (unsigned, "sealed-file-missing"),
        (without_manifest, "sealed-source-unreadable"),
    ],
)
def test_a_changed_folder_is_refused_before_the_key_is_used(
    place: Place, change: Callable[[Place], None], code: str
) -> None:
    change(place)
    assert refusal(place) == code


def test_files_that_are_exchanged_are_refused_before_their_first_byte(tmp_path: Path) -> None:
    place = Place(tmp_path, files={"a": b"A" * 100, "b": b"B" * 100})
    place.seal()
    a, b = place.sealed / "a.sealed", place.sealed / "b.sealed"
    one, other = a.read_bytes(), b.read_bytes()
    a.write_bytes(other)
    b.write_bytes(one)
    with place.open() as model:
        for path in ("a", "b"):
            with pytest.raises(SealedTamperError) as refused:
                model.open(path)
            assert refused.value.code == "sealed-header-mismatch"
    assert refusal(place, digests=True) == "sealed-digest-mismatch"


def test_every_flipped_byte_of_a_small_file_is_refused_when_it_is_opened(place: Place) -> None:
    path = place.sealed / "config.json.sealed"
    good = path.read_bytes()
    with place.open() as model:
        for at in range(len(good)):
            path.write_bytes(good[:at] + bytes((good[at] ^ 1,)) + good[at + 1 :])
            with pytest.raises(SealedFileError):
                model.open("config.json")


def test_what_git_keeps_beside_a_model_is_passed_over(place: Place) -> None:
    (place.sealed / ".git").mkdir()
    (place.sealed / ".git" / "config").write_text("x")
    (place.sealed / ".gitattributes").write_text("x")
    place.open(digests=True)


def test_another_key_or_another_version_of_it_does_not_open_the_model(place: Place) -> None:
    assert refusal(place, key=OTHER_KEY) == "sealed-key-mismatch"
    assert refusal(place, key=KEY[:-1]) == "sealed-key-length"
    raw = json.loads((place.sealed / "sealed.json").read_bytes())
    for change in ({"version": 2}, {"key_id": "models"}, {"tenant": "acme"}):
        document = {**raw, "key": {**raw["key"], **change}}
        (place.sealed / "sealed.json").write_bytes(rfc8785.dumps(document))
        signed_again(place)
        assert refusal(place) == "sealed-key-mismatch"
    (place.sealed / "sealed.json").write_bytes(rfc8785.dumps({**raw, "model": "00" * 16}))
    signed_again(place)
    assert refusal(place) == "sealed-key-mismatch"


def test_a_signed_model_that_is_not_sealed_is_no_sealed_model(place: Place) -> None:
    shutil.rmtree(place.sealed)
    place.sealed.mkdir()
    (place.sealed / "weights").write_bytes(b"x")
    signed_again(place)
    assert refusal(place) == "sealed-manifest-malformed"


def test_a_manifest_must_speak_of_exactly_the_files_that_were_signed(place: Place) -> None:
    (place.sealed / "extra.sealed").write_bytes(b"x" * 56)
    signed_again(place)
    assert refusal(place) == "sealed-files-mismatch"


def test_a_file_that_the_model_does_not_have_is_named(place: Place) -> None:
    with place.open() as model, pytest.raises(SealedSourceError) as refused:
        model.open("config.json.sealed")
    assert refused.value.code == "sealed-file-missing"


def test_a_closed_model_gives_nothing(place: Place) -> None:
    model = place.open()
    model.close()
    model.close()
    for ask in (lambda: model.open("empty"), model.data_key):
        with pytest.raises(ValueError, match="closed"):
            ask()


def test_the_key_of_a_model_is_not_shown_and_does_not_leave_the_process(place: Place) -> None:
    import pickle

    model = place.open()
    assert model.data_key().hex() not in repr(model)
    with pytest.raises(TypeError):
        pickle.dumps(model)


class Remote:
    """A store that cannot list."""

    name = "remote"

    def __init__(self, folder: Path) -> None:
        self._folder = FolderStore(folder)

    def sizes(self) -> None:
        return None

    def read_small(self, name: str, limit: int) -> bytes:
        return self._folder.read_small(name, limit)

    def open(self, name: str) -> Source:
        return self._folder.open(name)


def remote(place: Place) -> SealedDirectory:
    store: FileStore = Remote(place.sealed)
    return open_directory(store, key=KEY, trusted=TRUSTED)


def test_a_store_that_lists_nothing_has_each_size_compared_when_a_file_is_opened(place: Place) -> None:
    cut(place)
    missing(place)
    with remote(place) as model:
        assert model.read("tokenizer/vocab.txt") == FILES["tokenizer/vocab.txt"]
        with pytest.raises(SealedTamperError) as refused:
            model.open("model.safetensors")
        assert refused.value.code == "sealed-size-mismatch"
        with pytest.raises(SealedSourceError):
            model.open("config.json")


def test_a_store_that_says_that_a_file_is_endless_is_not_read_to_its_end(place: Place) -> None:
    class Endless:
        name, size = "endless", 1 << 52

        def read_into(self, offset: int, buffer: memoryview) -> None:
            pytest.fail("read")

        def close(self) -> None:
            pass

    class Lying(Remote):
        def open(self, name: str) -> Source:
            return Endless() if name == "config.json.sealed" else super().open(name)

    with pytest.raises(SealedTamperError) as refused:
        verify_directory(Lying(place.sealed), trusted=TRUSTED, digests=True)
    assert (refused.value.code, refused.value.field) == ("sealed-size-mismatch", "config.json.sealed")


def test_digests_are_compared_and_told_of_file_by_file(place: Place) -> None:
    told: dict[str, int] = {}

    def progress(name: str, count: int) -> None:
        told[name] = told.get(name, 0) + count

    verify_directory(place.sealed, trusted=TRUSTED, digests=True, progress=progress)
    model = verify_model((place.sealed / "model.sig").read_bytes(), trusted=TRUSTED)
    assert told == {one.name: (place.sealed / one.name).stat().st_size for one in model.resources}


def test_a_model_is_named_by_its_folder_and_nothing_depends_on_the_name(place: Place) -> None:
    moved = replace(place, folder=place.folder / "elsewhere", files={})
    place.sealed.rename(place.folder / "renamed")
    moved.folder.mkdir(exist_ok=True)
    (place.folder / "renamed").rename(moved.sealed)
    assert moved.open().verified.model.name == "sealed"


def test_sealing_is_the_same_for_the_same_random_bytes(tmp_path: Path) -> None:
    found = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        one = Place(tmp_path / name)
        one.seal(seed="same")
        found.append({path.name: path.read_bytes() for path in one.sealed.rglob("*") if path.is_file()})
    assert found[0] == found[1]
    assert stream(1)(4) != stream(2)(4)
