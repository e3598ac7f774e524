"""What is sealed, unsealed and rewrapped, and what is refused on the way."""

import io
import json
import os
import socket
import stat
from pathlib import Path

import pytest

from attest.errors import AttestError, ConfigurationError, SealedSourceError, SealedTamperError
from attest.release.names import KeyReference
from attest.release.notes import VerifierKey
from attest.sealed import (
    ModelResource,
    SealingNames,
    ciphertext_size,
    model_unsealer,
    rewrap,
    seal_directory,
    sign_model,
    tink_keyset,
    unseal_directory,
    verify_plaintext,
)
from attest.sealed.manifest import associated_data
from attest.sealed.staging import is_memory, require_room
from tests.sealed.made import FILES, KEY, NAMES, OTHER_KEY, OWNER, STRANGER, Place, read_files, stream

TRUSTED = (OWNER.public_key(),)
MEMORY = Path("/dev/shm")  # noqa: S108  the memory file system itself is what is tested
needs_memory = pytest.mark.skipif(
    not (MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and is_memory(MEMORY)), reason="no tmpfs at /dev/shm here"
)


def refused_sealing(place: Place) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as refused:
        place.seal()
    assert not place.sealed.exists()
    assert not (place.folder / ".sealed.sealing").exists()
    return refused.value


# -- what may be sealed


def test_a_link_is_refused_and_sealed_only_when_that_is_asked_for(tmp_path: Path) -> None:
    place = Place(tmp_path)
    (tmp_path / "secret").write_bytes(b"outside")
    (place.model / "link").symlink_to(tmp_path / "secret")
    error = refused_sealing(place)
    assert (error.code, "is a link" in error.message, "--follow-symlinks" in str(error.hint)) == (
        "model-unsealable",
        True,
        True,
    )
    seal_directory(
        place.model,
        place.sealed,
        key=KEY,
        names=NAMES,
        signer=OWNER,
        random=stream(),
        at=None,
        follow_symlinks=True,
    )
    with place.open() as model:
        assert model.read("link") == b"outside"


def test_a_link_to_a_folder_or_to_nothing_is_refused_always(tmp_path: Path) -> None:
    place = Place(tmp_path)
    for target in (place.model / "tokenizer", tmp_path / "nothing"):
        (place.model / "link").symlink_to(target)
        with pytest.raises(ConfigurationError) as refused:
            seal_directory(
                place.model,
                place.sealed,
                key=KEY,
                names=NAMES,
                signer=OWNER,
                random=stream(),
                at=None,
                follow_symlinks=True,
            )
        assert refused.value.code in {"model-unsealable", "file-unreadable"}
        (place.model / "link").unlink()


def test_a_file_that_becomes_a_link_while_others_are_sealed_is_not_followed(tmp_path: Path) -> None:
    place = Place(tmp_path, files={"a": b"a", "b": b"b"})

    def progress(name: str, count: int) -> None:
        (place.model / "b").unlink(missing_ok=True)
        (place.model / "b").symlink_to("/etc/passwd")

    with pytest.raises(SealedSourceError):
        seal_directory(
            place.model,
            place.sealed,
            key=KEY,
            names=NAMES,
            signer=OWNER,
            random=stream(),
            at=None,
            threads=1,
            progress=progress,
        )
    assert not place.sealed.exists()


def test_a_pipe_and_a_socket_are_refused(tmp_path: Path) -> None:
    place = Place(tmp_path)
    os.mkfifo(place.model / "pipe")
    assert refused_sealing(place).code == "model-unsealable"
    (place.model / "pipe").unlink()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place.model / "s"))
        assert refused_sealing(place).code == "model-unsealable"


@pytest.mark.parametrize("name", ["a\nb", "a\\b", "A\u200bB", "e\u0301", "x" * 250])
def test_a_name_that_no_reader_would_take_is_refused(tmp_path: Path, name: str) -> None:
    place = Place(tmp_path)
    (place.model / name).write_bytes(b"")
    assert refused_sealing(place).code == "model-unsealable"


def test_names_that_differ_only_in_case_are_refused(tmp_path: Path) -> None:
    place = Place(tmp_path)
    (place.model / "CONFIG.json").write_bytes(b"")
    assert "the same name" in refused_sealing(place).message


def test_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    place = Place(tmp_path)
    Path(os.fsdecode(os.fsencode(place.model) + b"/\xff")).write_bytes(b"")
    assert refused_sealing(place).code == "model-unsealable"


def test_a_folder_without_files_and_no_folder_are_refused(tmp_path: Path) -> None:
    place = Place(tmp_path, files={})
    assert refused_sealing(place).code == "file-unreadable"
    (place.model / "below").mkdir(parents=True)
    assert refused_sealing(place).code == "model-unsealable"


def test_what_git_keeps_is_left_out_and_named(tmp_path: Path) -> None:
    place = Place(tmp_path)
    (place.model / ".git").mkdir()
    (place.model / ".git" / "config").write_text("x")
    (place.model / ".gitattributes").write_text("*.bin lfs")
    made = place.seal()
    assert made.left_out == (".git",)
    assert [one.path for one in made.manifest.files][:1] == [".gitattributes"]


def test_a_target_that_is_there_is_not_touched(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.sealed.mkdir()
    with pytest.raises(ConfigurationError) as refused:
        place.seal()
    assert refused.value.code == "output-exists"
    assert list(place.sealed.iterdir()) == []


def test_a_target_inside_the_model_and_one_in_no_folder_are_refused(tmp_path: Path) -> None:
    place = Place(tmp_path)
    for target in (place.model / "sealed", tmp_path / "none" / "sealed"):
        with pytest.raises(ConfigurationError) as refused:
            seal_directory(place.model, target, key=KEY, names=NAMES, signer=OWNER, random=stream(), at=None)
        assert refused.value.code == "output-unwritable"


def test_room_is_asked_for_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as refused:
        require_room(tmp_path, 1 << 60)
    assert refused.value.code == "output-no-room"
    with pytest.raises(ConfigurationError):
        require_room(tmp_path / "none", 0)


def test_a_key_of_another_length_seals_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with pytest.raises(ConfigurationError) as refused:
        place.seal(key=KEY[:16])
    assert refused.value.code == "sealed-key-length"
    place.seal()


def test_what_is_told_of_progress_adds_up(tmp_path: Path) -> None:
    place = Place(tmp_path)
    told: dict[str, int] = {}

    def progress(name: str, count: int) -> None:
        told[name] = told.get(name, 0) + count

    seal_directory(
        place.model,
        place.sealed,
        key=KEY,
        names=NAMES,
        signer=OWNER,
        random=stream(),
        at=None,
        progress=progress,
    )
    assert {name: count for name, count in told.items() if count} == {n: len(d) for n, d in FILES.items() if d}
    told.clear()
    with place.open() as model:
        unseal_directory(model, tmp_path / "plain", random=os.urandom, allow_disk=True, progress=progress)
    assert {name: count for name, count in told.items() if count} == {n: len(d) for n, d in FILES.items() if d}


# -- unsealing


@needs_memory
def test_plaintext_goes_to_memory_for_its_owner_alone(tmp_path: Path) -> None:
    import shutil
    import tempfile

    place = Place(tmp_path)
    place.seal()
    folder = Path(tempfile.mkdtemp(dir=MEMORY))
    try:
        with place.open() as model:
            made = unseal_directory(model, folder / "plain", random=os.urandom, verify_digests=True)
        assert made.in_memory
        assert read_files(folder / "plain") == FILES
        modes = {stat.S_IMODE(one.stat().st_mode) for one in (folder / "plain").rglob("*") if one.is_file()}
        assert modes == {0o600}
        assert stat.S_IMODE((folder / "plain").stat().st_mode) == 0o700
    finally:
        shutil.rmtree(folder)


def test_a_disk_is_refused_unless_it_is_allowed(tmp_path: Path) -> None:
    if is_memory(tmp_path):
        pytest.skip("temporary files are kept in memory here")
    place = Place(tmp_path)
    place.seal()
    with place.open() as model:
        with pytest.raises(ConfigurationError) as refused:
            unseal_directory(model, tmp_path / "plain", random=os.urandom)
        assert refused.value.code == "target-not-memory"
        assert sorted(one.name for one in tmp_path.iterdir()) == ["model", "sealed"]
        assert not unseal_directory(model, tmp_path / "plain", random=os.urandom, allow_disk=True).in_memory
    assert read_files(tmp_path / "plain") == FILES


def test_a_disk_that_is_mounted_where_the_plaintext_is_made_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path)
    place.seal()
    asked: list[Path] = []

    def only_the_parent(folder: Path) -> bool:
        asked.append(folder)
        return folder.name != "model"

    monkeypatch.setattr(model_unsealer, "is_memory", only_the_parent)
    with place.open() as model, pytest.raises(ConfigurationError) as refused:
        unseal_directory(model, tmp_path / "plain", random=os.urandom)
    assert refused.value.code == "target-not-memory"
    assert asked == [tmp_path, tmp_path / ".plain.unsealing" / "model"]
    assert not list((tmp_path / ".plain.unsealing" / "model").iterdir())


def test_what_cannot_be_asked_is_no_memory(tmp_path: Path) -> None:
    assert not is_memory(tmp_path / "none")


def test_a_target_that_is_there_is_not_unsealed_into(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.seal()
    with place.open() as model, pytest.raises(ConfigurationError) as refused:
        unseal_directory(model, place.model, random=os.urandom, allow_disk=True)
    assert refused.value.code == "output-exists"


def test_a_damaged_file_leaves_no_target_and_no_part_of_itself(tmp_path: Path) -> None:
    place = Place(tmp_path, files={"a": b"a", "b": bytes(3_000_000)})
    place.seal()
    path = place.sealed / "b.sealed"
    data = bytearray(path.read_bytes())
    data[100] ^= 1  # the first segment: the last one is verified when it is opened
    path.write_bytes(data)
    with place.open() as model, pytest.raises(SealedTamperError) as refused:
        unseal_directory(model, tmp_path / "plain", random=os.urandom, allow_disk=True)
    assert refused.value.code == "sealed-segment-invalid"
    assert not (tmp_path / "plain").exists()
    assert set(read_files(tmp_path / ".plain.unsealing" / "model")) == {"a"}


def test_plaintexts_are_compared_with_their_digests_where_the_model_states_them(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.seal(fingerprints=False)
    with place.open() as model:
        assert all(one.sha256 is None for one in model.entries.values())
        with pytest.raises(ConfigurationError) as refused:
            unseal_directory(model, tmp_path / "plain", random=os.urandom, allow_disk=True, verify_digests=True)
        assert refused.value.code == "sealed-no-digests"
        unseal_directory(model, tmp_path / "plain", random=os.urandom, allow_disk=True)


# -- a signature over the plaintext


def with_signature(tmp_path: Path, *, signer: object = STRANGER) -> Place:
    from hashlib import sha256

    place = Place(tmp_path)
    resources = [ModelResource(name=name, digest=sha256(data).digest()) for name, data in FILES.items()]
    (place.model / "model.sig").write_bytes(sign_model(resources, name="original", signer=STRANGER))
    place.seal()
    return place


def test_a_signature_over_the_plaintext_survives_sealing(tmp_path: Path) -> None:
    place = with_signature(tmp_path)
    with place.open() as model:
        made = unseal_directory(
            model,
            tmp_path / "plain",
            random=os.urandom,
            allow_disk=True,
            plaintext_trusted=(STRANGER.public_key(),),
        )
    assert made.plaintext_key is not None
    assert verify_plaintext(tmp_path / "plain", trusted=(STRANGER.public_key(),)).name == "original"


@pytest.mark.parametrize("trusted", [(), TRUSTED])
def test_a_signature_over_the_plaintext_by_another_key_leaves_no_target(
    tmp_path: Path, trusted: tuple[object, ...]
) -> None:
    place = with_signature(tmp_path)
    with place.open() as model, pytest.raises(AttestError) as refused:
        unseal_directory(
            model,
            tmp_path / "plain",
            random=os.urandom,
            allow_disk=True,
            plaintext_trusted=trusted,  # type: ignore[arg-type]  # keys
        )
    assert refused.value.code == "model-signature-untrusted"
    assert not (tmp_path / "plain").exists()


def test_a_model_without_a_signature_over_its_plaintext_does_not_pass_for_one(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.seal()
    with place.open() as model, pytest.raises(SealedSourceError):
        unseal_directory(model, tmp_path / "plain", random=os.urandom, allow_disk=True, plaintext_trusted=TRUSTED)
    assert not (tmp_path / "plain").exists()


def test_a_plaintext_that_was_changed_after_it_was_signed_is_refused(tmp_path: Path) -> None:
    place = with_signature(tmp_path)
    for change, code in (
        (lambda: (place.model / "empty").write_bytes(b"x"), "sealed-digest-mismatch"),
        ((place.model / "empty").unlink, "sealed-files-mismatch"),
    ):
        change()
        with pytest.raises(AttestError) as refused:
            verify_plaintext(place.model, trusted=(STRANGER.public_key(),))
        assert refused.value.code == code


# -- another key


def put_under(place: Place, names: SealingNames, *, key: bytes = KEY, new_key: bytes = OTHER_KEY) -> None:
    rewrap(place.sealed, key=key, new_key=new_key, names=names, signer=OWNER, trusted=TRUSTED, random=stream("rewrap"))


def test_rewrapping_changes_the_manifest_and_the_signature_and_no_byte_of_data(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.seal()
    before = read_files(place.sealed)
    service = VerifierKey(name="kms.example/prod", public=bytes(range(32)))
    put_under(place, SealingNames(key=KeyReference.parse("model@2"), service=service))
    after = read_files(place.sealed)
    assert {name for name in before if before[name] != after[name]} == {"sealed.json", "model.sig"}
    with pytest.raises(SealedTamperError) as refused:
        place.open()
    assert refused.value.code == "sealed-key-mismatch"
    with place.open(key=OTHER_KEY, digests=True) as model:
        assert {path: bytes(model.read(path)) for path in model.entries} == FILES
        assert (str(model.manifest.key), model.manifest.service) == ("model@2", service)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["model", "sealed"]


def test_a_key_that_does_not_open_the_model_rewraps_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.seal()
    before = read_files(tmp_path)
    for key, new_key in ((OTHER_KEY, KEY), (KEY, KEY[:-1])):
        with pytest.raises(AttestError):
            put_under(place, NAMES, key=key, new_key=new_key)
    assert read_files(tmp_path) == before


def test_the_two_small_files_are_enough_to_rewrap(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.seal()
    small = tmp_path / "small"
    small.mkdir()
    for name in ("sealed.json", "model.sig"):
        (small / name).write_bytes((place.sealed / name).read_bytes())
    rewrap(
        small,
        key=KEY,
        new_key=OTHER_KEY,
        names=SealingNames(key=KeyReference.parse("model@2")),
        signer=OWNER,
        trusted=TRUSTED,
        random=os.urandom,
    )
    for name in ("sealed.json", "model.sig"):
        (place.sealed / name).write_bytes((small / name).read_bytes())
    place.open(key=OTHER_KEY, digests=True).close()


def test_an_altered_model_is_not_rewrapped(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.seal()
    path = place.sealed / "sealed.json"
    path.write_bytes(path.read_bytes().replace(b'"version":1', b'"version":2'))
    with pytest.raises(AttestError) as refused:
        put_under(place, NAMES)
    assert refused.value.code == "sealed-digest-mismatch"


# -- Tink's own library


def test_tink_opens_every_file_with_the_keyset_and_the_associated_data(tmp_path: Path) -> None:
    import tink
    from tink import json_proto_keyset_format, secret_key_access, streaming_aead

    place = Place(tmp_path, files=FILES | {"big": os.urandom(2 * ciphertext_size(0) + (1 << 21))})
    place.seal()
    streaming_aead.register()
    with place.open() as model:
        handle = json_proto_keyset_format.parse(tink_keyset(model.data_key()), secret_key_access.TOKEN)
        assert isinstance(handle, tink.KeysetHandle)
        primitive = handle.primitive(streaming_aead.StreamingAead)
        for entry in model.entries.values():
            aad = associated_data(model.manifest.model, entry.path)
            sealed = io.BytesIO((place.sealed / entry.sealed).read_bytes())
            with primitive.new_decrypting_stream(sealed, aad) as opened:
                assert opened.read() == place.files[entry.path]
    assert json.loads((place.sealed / "sealed.json").read_bytes())["cipher"] == "AES256_GCM_HKDF_1MB"
