"""``sealed.json``: one spelling of each manifest, every broken member refused, and names that no disk mistakes."""

import json
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import AttestError, ConfigurationError, SealedFileError, SealedTamperError
from attest.release.names import KeyReference
from attest.release.notes import VerifierKey
from attest.sealed import SealedEntry, SealedManifest
from attest.sealed.data_key import unwrap_data_key, wrap_data_key
from attest.sealed.manifest import associated_data
from attest.sealed.names import MAX_NAME_BYTES, MAX_PART_BYTES, name_problem, names_problem
from tests.sealed.made import KEY, OTHER_KEY, stream
from tests.sealed.test_oms import broken

SERVICE = VerifierKey(name="kms.example/prod", public=bytes(range(32)))
REFERENCE = KeyReference.parse("acme/model@3")
MODEL = bytes(range(16))
DATA_KEY = bytes(range(100, 132))
Json = Any  # JSON, to be broken


def entry(path: str, *, size: int, sha256: bytes | None = None) -> SealedEntry:
    return SealedEntry.of(path, size=size, header=bytes((40,)) + path.encode()[:1] * 39, sha256=sha256)


def manifest(**changes: Any) -> SealedManifest:  # noqa: ANN401  any member
    whole = SealedManifest(
        model=MODEL,
        key=REFERENCE,
        wrapped_key=wrap_data_key(
            DATA_KEY, key=KEY, model=MODEL, reference=REFERENCE, service=SERVICE, random=stream()
        ),
        files=(entry("a", size=0, sha256=bytes(32)), entry("b/c", size=1 << 20)),
        service=SERVICE,
        service_url="https://kms.example",
        policy_digest=bytes(32),
        creator="Alice",
        created_at=datetime(2026, 6, 1, tzinfo=UTC),
    )
    return replace(whole, **changes)


def code(raw: bytes) -> str:
    with pytest.raises(SealedFileError) as refused:
        SealedManifest.parse(raw)
    return refused.value.code


def test_a_manifest_is_read_as_it_was_written() -> None:
    for one in (
        manifest(),
        manifest(files=()),
        manifest(service=None, service_url=None, policy_digest=None, creator=None, created_at=None),
        manifest(service_url=None),
    ):
        assert SealedManifest.parse(one.to_bytes()) == one


def test_another_spelling_of_a_manifest_is_refused() -> None:
    raw = manifest().to_bytes()
    document = json.loads(raw)
    others = [
        json.dumps(document).encode(),
        json.dumps(dict(reversed(document.items())), separators=(",", ":")).encode(),
        raw + b"\n",
        raw.replace(b"Alice", b"\\u0041lice"),
        raw.replace(b'"size":0', b'"size":-0'),
        raw.replace(b"2026-06-01T00:00:00Z", b"2026-06-01T00:00:00+00:00"),
        raw.replace(document["model"].encode(), document["model"].upper().encode()),
    ]
    assert [code(one) for one in others] == ["sealed-manifest-malformed"] * len(others)


def test_every_broken_member_is_refused() -> None:
    accepted = set()
    for what, document in broken(json.loads(manifest().to_bytes())):
        try:
            SealedManifest.parse(rfc8785.dumps(document))
        except SealedFileError:
            continue
        accepted.add(what)
    optional = {f"('{name}',) dropped" for name in ("kms", "policy_sha256", "creator", "created_at", "files")}
    assert accepted <= optional | {
        "('kms', 'url') dropped",
        "('kms', 'url') text",
        "('creator',) text",
        "('files',) list",
        "('files', 0) dropped",
        "('files', 1) dropped",
        "('files', 0, 'sha256') dropped",
        "('files', 0, 'path') text",
        "('key', 'version') number",
    }


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda d: d.update(schema="attest.sealed/2"), "sealed-manifest-unsupported"),
        (lambda d: d.update(cipher="AES128_GCM_HKDF_1MB"), "sealed-manifest-malformed"),
        (lambda d: d.update(more=1), "sealed-manifest-malformed"),
        (lambda d: d["key"].update(version=0), "sealed-manifest-malformed"),
        (lambda d: d["key"].update(version=True), "sealed-manifest-malformed"),
        (lambda d: d["key"].update(version=1.5), "sealed-manifest-malformed"),
        (lambda d: d["key"].update(tenant="../x"), "sealed-manifest-malformed"),
        (lambda d: d["kms"].update(origin="kms.example/test"), "sealed-manifest-malformed"),
        (lambda d: d["kms"].update(vkey="x"), "sealed-manifest-malformed"),
        (lambda d: d["kms"].update(url="https://a\nb"), "sealed-manifest-malformed"),
        (lambda d: d["files"].reverse(), "sealed-manifest-malformed"),
        (lambda d: d["files"][0].update(size=1), "sealed-manifest-malformed"),
        (lambda d: d["files"][0].update(sealed_size=57), "sealed-manifest-malformed"),
        (lambda d: d["files"][0].update(size=-1), "sealed-manifest-malformed"),
        (lambda d: d["files"][0].update(header=""), "sealed-manifest-malformed"),
        (lambda d: d["files"][0].update(header="AA" * 27), "sealed-manifest-malformed"),
        (lambda d: d["files"][0].update(header=d["files"][0]["header"] + "AAAA"), "sealed-manifest-malformed"),
        (lambda d: d["files"][0].update(size=2**53), "sealed-manifest-malformed"),
        (lambda d: d["files"][0].update(sealed="sealed.json"), "sealed-manifest-malformed"),
        (lambda d: d["files"][0].update(sealed="b/c.sealed"), "sealed-name-unsafe"),
        (lambda d: d["files"][0].update(path="../a"), "sealed-name-unsafe"),
        (lambda d: d["files"][0].update(sealed="/etc/x.sealed"), "sealed-name-unsafe"),
        (lambda d: d["files"][0].update(path="B/C"), "sealed-name-unsafe"),
        (lambda d: d["files"][0].update(path="b"), "sealed-name-unsafe"),
        (lambda d: d["files"].append(d["files"][1]), "sealed-name-unsafe"),
    ],
)
def test_what_does_not_fit_together_is_refused(change: Callable[[Json], object], expected: str) -> None:
    document = json.loads(manifest().to_bytes())
    change(document)
    if document["files"][0]["size"] == 2**53:
        raw = manifest().to_bytes().replace(b'"size":0', b'"size":9007199254740992')
    else:
        raw = rfc8785.dumps(document)
    assert code(raw) == expected


def test_a_member_that_stands_twice_is_refused() -> None:
    assert code(manifest().to_bytes()[:-1] + b',"schema":"attest.sealed/1"}') == "sealed-manifest-malformed"


@given(st.binary(max_size=100) | st.text().map(str.encode))
def test_any_bytes_at_all_are_refused_as_documented(data: bytes) -> None:
    with pytest.raises(SealedFileError):
        SealedManifest.parse(data)


@given(
    sizes=st.dictionaries(st.from_regex(r"[a-z]{1,8}\.[a-z]{1,4}", fullmatch=True), st.integers(0, 2**50), max_size=8),
    version=st.integers(1, 999_999_999),
    creator=st.none() | st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=50),
)
def test_whatever_can_be_written_is_read_again(sizes: dict[str, int], version: int, creator: str | None) -> None:
    files = tuple(entry(path, size=size) for path, size in sorted(sizes.items()))
    one = manifest(files=files, creator=creator, key=replace(REFERENCE, version=version))
    assert SealedManifest.parse(one.to_bytes()) == one


# -- the data key


def test_the_data_key_opens_under_its_key_version_service_and_model_and_nothing_else() -> None:
    one = manifest()
    assert unwrap_data_key(one, key=KEY) == DATA_KEY
    others = [
        replace(one, key=KeyReference.parse("acme/model@4")),
        replace(one, key=KeyReference.parse("acme/models@3")),
        replace(one, key=KeyReference.parse("model@3")),
        replace(one, model=bytes(16)),
        replace(one, service=None, service_url=None),
        replace(one, service=VerifierKey(name="kms.example/prod", public=bytes(32))),
        replace(one, service=VerifierKey(name="kms.example/test", public=SERVICE.public)),
    ]
    for other in others:
        with pytest.raises(SealedTamperError) as refused:
            unwrap_data_key(other, key=KEY)
        assert refused.value.code == "sealed-key-mismatch"
    with pytest.raises(SealedTamperError):
        unwrap_data_key(one, key=OTHER_KEY)
    assert unwrap_data_key(replace(one, service_url=None, creator=None, policy_digest=None), key=KEY) == DATA_KEY


def test_every_flipped_bit_of_a_wrapped_key_is_refused() -> None:
    one = manifest()
    for bit in range(len(one.wrapped_key) * 8):
        changed = bytearray(one.wrapped_key)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(SealedTamperError):
            unwrap_data_key(replace(one, wrapped_key=bytes(changed)), key=KEY)


@pytest.mark.parametrize("length", [0, 16, 31, 33, 64])
def test_a_key_of_another_length_wraps_nothing(length: int) -> None:
    for key, data_key in ((bytes(length), DATA_KEY), (KEY, bytes(length))):
        with pytest.raises(ConfigurationError) as refused:
            wrap_data_key(data_key, key=key, model=MODEL, reference=REFERENCE, service=None, random=stream())
        assert refused.value.code == "sealed-key-length"


def test_the_wrapping_is_the_documented_one() -> None:
    import cbor2
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    context = cbor2.dumps(
        {
            "kms": SERVICE.text,
            "key_id": "model",
            "tenant": "acme",
            "context": "attest-sealed-key/v1",
            "version": 3,
        },
        canonical=True,
    )
    key = HKDF(algorithm=SHA256(), length=32, salt=MODEL, info=context).derive(KEY)
    wrapped = manifest().wrapped_key
    assert AESGCM(key).decrypt(wrapped[:12], wrapped[12:], None) == DATA_KEY


def test_a_key_is_not_shown() -> None:
    assert manifest().wrapped_key.hex() not in repr(manifest())
    assert "wrapped" not in repr(manifest())


def test_the_associated_data_names_one_file_of_one_model() -> None:
    assert associated_data(MODEL, "b/ü") == b"attest sealed v1\0" + MODEL + b"\0b/\xc3\xbc"


# -- names


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/",
        "/a",
        "a/",
        "a//b",
        ".",
        "..",
        "../a",
        "a/../b",
        "a/./b",
        "a\\b",
        "a\0b",
        "a\nb",
        "a\x7fb",
        "a\u202eb",
        "a\u200bb",
        "a\ufeff",
        "\udc80",
        "e\u0301",
        "x" * (MAX_PART_BYTES + 1),
        "/".join(["x" * 200] * 6),
        "/".join("x" * 33),
    ],
)
def test_an_unsafe_name_is_refused(name: str) -> None:
    assert name_problem(name) is not None


@pytest.mark.parametrize("name", ["a", "a.b", ".a", "..a", "a b", "a:b", "Größe/日本語.bin", "x" * MAX_PART_BYTES])
def test_a_harmless_name_is_taken(name: str) -> None:
    assert name_problem(name) is None
    assert names_problem([name]) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a", "a"),
        ("a", "A"),
        ("straße", "STRASSE"),
        ("\u00e9", "\u00c9"),
        ("ﬁle", "file"),
        ("K", "\u212a"),
        ("a", "a."),
        ("a", "a "),
        ("Dir/x", "dir/x"),
        ("a", "a/b"),
        ("A", "a/b"),
        ("a/b", "a/b/c/d"),
    ],
)
def test_names_that_some_disk_takes_for_one_are_refused(one: str, other: str) -> None:
    # A text is made anew: two names are compared by what they say.
    assert names_problem([one, "".join(other)]) is not None
    assert names_problem([other, one]) is not None


@given(st.lists(st.text(max_size=20), max_size=6))
def test_names_that_are_taken_are_distinct_in_every_folding(names: list[str]) -> None:
    if names_problem(names) is None:
        for fold in (str.casefold, str.lower, lambda name: unicodedata.normalize("NFD", name)):
            assert len({fold(name) for name in names}) == len(names)
        assert all(len(name.encode()) <= MAX_NAME_BYTES for name in names)


def test_an_error_names_its_code_and_field() -> None:
    with pytest.raises(AttestError) as refused:
        SealedManifest.parse(rfc8785.dumps({**json.loads(manifest().to_bytes()), "model": "00"}))
    assert (refused.value.code, refused.value.field, refused.value.exit_code) == (
        "sealed-manifest-malformed",
        "model",
        3,
    )
