"""Signatures over models: strict, by pinned keys alone, and the same that OpenSSF's own package makes and verifies."""

import base64
import copy
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import AttestError, ConfigurationError, EvidenceError
from attest.sealed import ModelResource, sign_model, verify_model, verify_plaintext
from attest.sealed.oms import MAX_BUNDLE_BYTES, MAX_SIGNATURES
from attest.sealed.signing_keys import key_hint, raw_signature, read_signing_key, read_trusted_key
from tests.sealed.made import FILES, OWNER, STRANGER, Place, private_pem, public_pem, write_files

PEER = os.environ.get("ATTEST_OMS_PYTHON")
needs_peer = pytest.mark.skipif(
    not PEER, reason="ATTEST_OMS_PYTHON names no interpreter that has model-signing and pyOpenSSL"
)
PEER_PROGRAM = Path(__file__).with_name("oms_peer.py")
TRUSTED = (OWNER.public_key(),)
P256 = ec.derive_private_key(77, ec.SECP256R1())
RESOURCES = tuple(ModelResource(name=name, digest=sha256(data).digest()) for name, data in FILES.items())
Json = Any  # JSON, to be broken


@pytest.fixture(scope="module")
def bundle() -> bytes:
    return sign_model(RESOURCES, name="model", signer=OWNER)


def pae(payload: bytes) -> bytes:
    kind = b"application/vnd.in-toto+json"
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def statement_of(bundle: bytes) -> Json:
    return json.loads(base64.b64decode(json.loads(bundle)["dsseEnvelope"]["payload"]))


def signed(statement: Json, signer: ec.EllipticCurvePrivateKey = OWNER) -> bytes:
    """Sign any statement at all."""
    payload = statement if isinstance(statement, bytes) else json.dumps(statement).encode()
    signature = base64.b64encode(raw_signature(signer, pae(payload))).decode()
    document = json.loads(sign_model((), name="x", signer=signer))
    document["dsseEnvelope"] |= {"payload": base64.b64encode(payload).decode(), "signatures": [{"sig": signature}]}
    return json.dumps(document).encode()


def code(bundle: bytes) -> str:
    with pytest.raises(AttestError) as refused:
        verify_model(bundle, trusted=TRUSTED)
    return refused.value.code


@pytest.mark.parametrize("signer", [OWNER, P256])
def test_what_is_signed_is_what_is_read(signer: ec.EllipticCurvePrivateKey) -> None:
    made = sign_model(reversed(RESOURCES), name="my model", signer=signer)
    model = verify_model(made, trusted=(STRANGER.public_key(), signer.public_key()))
    assert [one.name for one in model.resources] == sorted(FILES)
    assert set(model.resources) == set(RESOURCES)
    assert (model.name, model.key) == ("my model", key_hint(signer.public_key()))
    assert model.root == sha256(b"".join(one.digest for one in model.resources)).digest()
    assert made == sign_model(RESOURCES, name="my model", signer=signer)


def test_the_bundle_is_what_the_format_says(bundle: bytes) -> None:
    document = json.loads(bundle)
    assert document["mediaType"] == "application/vnd.dev.sigstore.bundle.v0.3+json"
    pem = public_pem(OWNER)
    hint = sha256(pem).hexdigest()
    assert document["verificationMaterial"] == {"publicKey": {"hint": hint}, "tlogEntries": []}
    envelope = document["dsseEnvelope"]
    signature = base64.b64decode(envelope["signatures"][0]["sig"])
    OWNER.public_key().verify(signature, pae(base64.b64decode(envelope["payload"])), ec.ECDSA(hashes.SHA384()))
    statement = statement_of(bundle)
    assert statement["predicateType"] == "https://model_signing/signature/v1.0"
    assert set(statement["predicate"]) == {"resources", "serialization"}
    assert set(statement["predicate"]["serialization"]) == {"method", "hash_type", "allow_symlinks", "ignore_paths"}


def test_no_trusted_key_accepts_nothing(bundle: bytes) -> None:
    with pytest.raises(AttestError) as refused:
        verify_model(bundle, trusted=())
    assert refused.value.code == "model-signature-untrusted"


def test_the_hint_only_chooses_among_trusted_keys(bundle: bytes) -> None:
    document = json.loads(bundle)
    document["verificationMaterial"]["publicKey"] = {}
    without = json.dumps(document).encode()
    assert verify_model(without, trusted=(STRANGER.public_key(), *TRUSTED)).key == key_hint(OWNER.public_key())
    with pytest.raises(AttestError) as refused:
        verify_model(without, trusted=(STRANGER.public_key(),))
    assert refused.value.code == "model-signature-invalid"
    document["verificationMaterial"]["publicKey"] = {"hint": key_hint(STRANGER.public_key())}
    assert code(json.dumps(document).encode()) == "model-signature-untrusted"
    with pytest.raises(AttestError) as refused:
        verify_model(json.dumps(document).encode(), trusted=(STRANGER.public_key(), *TRUSTED))
    assert refused.value.code == "model-signature-invalid"


def test_one_good_signature_among_several_is_enough_and_there_are_not_too_many(bundle: bytes) -> None:
    document = json.loads(bundle)
    good = document["dsseEnvelope"]["signatures"][0]
    bad = {"sig": base64.b64encode(b"0" * 100).decode(), "keyid": ""}
    document["dsseEnvelope"]["signatures"] = [bad, good]
    verify_model(json.dumps(document).encode(), trusted=TRUSTED)
    document["dsseEnvelope"]["signatures"] = [bad] * MAX_SIGNATURES
    assert code(json.dumps(document).encode()) == "model-signature-invalid"
    document["dsseEnvelope"]["signatures"] = [bad] * MAX_SIGNATURES + [good]
    assert code(json.dumps(document).encode()) == "model-signature-malformed"


def places(document: Json, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every member and element of a document."""
    for key in document if isinstance(document, dict) else range(len(document)):
        yield (*path, key)
        if isinstance(document[key], (dict, list)):
            yield from places(document[key], (*path, key))


def broken(document: Json) -> Iterator[tuple[str, Json]]:
    """Drop, empty and retype each member; add one to each object."""
    for path in places(document):
        for name, value in (("null", None), ("number", 7), ("text", "?"), ("list", []), ("object", {}), ("true", True)):
            changed = copy.deepcopy(document)
            holder = changed
            for step in path[:-1]:
                holder = holder[step]
            if holder[path[-1]] == value:
                continue
            holder[path[-1]] = value
            yield f"{path} {name}", changed
        changed = copy.deepcopy(document)
        holder = changed
        for step in path[:-1]:
            holder = holder[step]
        del holder[path[-1]]
        yield f"{path} dropped", changed


NOT_NEEDED = {
    "('verificationMaterial', 'tlogEntries') dropped",
    "('verificationMaterial', 'publicKey', 'hint') dropped",
    "('verificationMaterial', 'publicKey') object",
}
"""Of the bundle: what a verifier may do without."""


def test_every_broken_member_of_a_bundle_is_refused(bundle: bytes) -> None:
    accepted = []
    for what, document in broken(json.loads(bundle)):
        try:
            verify_model(json.dumps(document).encode(), trusted=TRUSTED)
        except AttestError:
            continue
        accepted.append(what)
    assert set(accepted) == NOT_NEEDED


FREE = {"('subject', 0, 'name') text", *(f"('predicate', 'resources', {at}, 'name') text" for at in range(len(FILES)))}
"""Of the statement: names are the signer's to choose. What is left out is a list that may be absent."""


def test_every_broken_member_of_a_statement_is_refused_also_when_it_is_signed(bundle: bytes) -> None:
    accepted = set()
    for what, document in broken(statement_of(bundle)):
        try:
            verify_model(signed(document), trusted=TRUSTED)
        except AttestError:
            continue
        accepted.add(what)
    ignored = {one for one in accepted if "ignore_paths" in one or "allow_symlinks" in one}
    assert accepted - ignored == FREE
    assert all(one.endswith(("dropped", "list", "text")) for one in ignored)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda s: s.update(predicateType="https://model_signing/Digests/v0.1"), "model-signature-unsupported"),
        (lambda s: s["predicate"]["serialization"].update(method="shards"), "model-signature-unsupported"),
        (lambda s: s["predicate"]["serialization"].update(hash_type="blake3"), "model-signature-unsupported"),
        (lambda s: s["predicate"]["serialization"].update(allow_symlinks=True), "model-signature-unsupported"),
        (lambda s: s["predicate"]["resources"][0].update(algorithm="blake2b"), "model-signature-unsupported"),
        (lambda s: s["predicate"]["resources"][0].update(name="../x"), "model-signature-malformed"),
        (lambda s: s["predicate"]["resources"][0].update(name="/etc/passwd"), "model-signature-malformed"),
        (lambda s: s["predicate"]["resources"][0].update(name="a\0b"), "model-signature-malformed"),
        (lambda s: s["predicate"]["resources"][0].update(name=".git/x"), "model-signature-malformed"),
        (lambda s: s["predicate"]["resources"].append(s["predicate"]["resources"][0]), "model-signature-malformed"),
        (lambda s: s["predicate"]["resources"].reverse(), "model-signature-malformed"),
        (lambda s: s["predicate"]["resources"].pop(), "model-signature-malformed"),
        (lambda s: s["subject"].append(s["subject"][0]), "model-signature-malformed"),
    ],
)
def test_what_a_key_signed_must_still_be_what_the_format_says(
    bundle: bytes, change: Callable[[Json], object], expected: str
) -> None:
    statement = statement_of(bundle)
    change(statement)
    assert code(signed(statement)) == expected


def test_members_of_later_versions_are_passed_over_where_the_format_asks_for_it(bundle: bytes) -> None:
    statement = statement_of(bundle)
    statement["predicate"]["card"] = {"x": 1}
    statement["predicate"]["resources"][0]["size"] = 5
    assert verify_model(signed(statement), trusted=TRUSTED).resources[0].name == "config.json"


def test_a_member_that_stands_twice_is_refused(bundle: bytes) -> None:
    assert code(bundle[:-1] + b',"mediaType":"x"}') == "json-invalid"
    payload = base64.b64decode(json.loads(bundle)["dsseEnvelope"]["payload"])
    assert code(signed(payload[:-1] + b',"subject":[]}')) == "json-invalid"


def test_certificates_and_sigstore_are_named_as_what_is_not_verified_here(bundle: bytes) -> None:
    document = json.loads(bundle)
    document["verificationMaterial"] = {"certificate": {"rawBytes": ""}, "tlogEntries": [{}]}
    assert code(json.dumps(document).encode()) == "model-signature-unsupported"


def test_a_bundle_beyond_the_limit_is_not_read(bundle: bytes) -> None:
    assert code(b" " * (MAX_BUNDLE_BYTES + 1)) == "model-signature-malformed"
    assert code(b"") == "json-invalid"


@given(st.binary(max_size=200) | st.text().map(str.encode))
def test_any_bytes_at_all_are_refused_as_documented(data: bytes) -> None:
    with pytest.raises(EvidenceError):
        verify_model(data, trusted=TRUSTED)


@pytest.mark.parametrize(
    "names", [("a", "a"), ("a", "A"), ("a", "a/b"), ("..",), ("/a",), ("a//b",), ("a/./b",), ("model.sig",), ("",)]
)
def test_names_that_no_model_may_have_are_not_signed(names: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"file|name|absolute|listed"):
        sign_model([ModelResource(name=one, digest=bytes(32)) for one in names], name="x", signer=OWNER)


@pytest.mark.parametrize(
    "pem",
    [
        b"",
        b"-----BEGIN PUBLIC KEY-----\n",
        private_pem(OWNER),
        public_pem(ec.derive_private_key(1, ec.SECP256K1())),
        public_pem(ec.derive_private_key(1, ec.SECP521R1())),
    ],
)
def test_a_key_that_cannot_be_trusted_is_refused(pem: bytes) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_trusted_key(pem)
    assert refused.value.code == "model-key-invalid"


@pytest.mark.parametrize("pem", [b"", public_pem(OWNER), private_pem(ec.derive_private_key(1, ec.SECP256K1()))])
def test_a_key_that_cannot_sign_is_refused(pem: bytes) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_signing_key(pem)
    assert refused.value.code == "model-key-invalid"


def test_keys_are_read_from_pem() -> None:
    assert read_signing_key(private_pem(OWNER)).private_numbers() == OWNER.private_numbers()
    assert read_trusted_key(public_pem(P256)) == P256.public_key()


# -- OpenSSF's own package


def peer(*arguments: object) -> str:
    ran = subprocess.run(
        [str(PEER), str(PEER_PROGRAM), *map(str, arguments)], capture_output=True, check=False, timeout=120
    )
    assert ran.returncode == 0, ran.stderr.decode()
    return ran.stdout.decode().strip()


@needs_peer
@pytest.mark.parametrize("signer", [OWNER, P256])
def test_openssfs_package_verifies_a_sealed_model_and_sees_every_change(
    tmp_path: Path, signer: ec.EllipticCurvePrivateKey
) -> None:
    place = Place(tmp_path, files=FILES | {"Größe/a b.txt": b"x", "Z": b"z", "a-b": b"1", "a.b": b"2", "a/b": b"3"})
    place.seal(signer=signer)
    (tmp_path / "owner.pub").write_bytes(public_pem(signer))
    arguments = ("verify", place.sealed, place.sealed / "model.sig", tmp_path / "owner.pub")
    assert peer(*arguments) == "ok"
    (place.sealed / "extra").write_bytes(b"x")
    assert "Extra files" in peer(*arguments)
    (place.sealed / "extra").unlink()
    (place.sealed / "empty.sealed").write_bytes(b"x" * 56)
    assert peer(*arguments).startswith("refused")


@needs_peer
@pytest.mark.parametrize("signer", [OWNER, P256])
def test_what_openssfs_package_signs_is_verified_here(tmp_path: Path, signer: ec.EllipticCurvePrivateKey) -> None:
    folder = write_files(tmp_path / "model", dict(FILES))
    (tmp_path / "owner.pem").write_bytes(private_pem(signer))
    assert peer("sign", folder, folder / "model.sig", tmp_path / "owner.pem") == "ok"
    model = verify_plaintext(folder, trusted=(signer.public_key(),))
    assert {one.name for one in model.resources} == set(FILES)
    assert model.is_ignored(".git/config")
    (folder / "empty").write_bytes(b"x")
    with pytest.raises(AttestError) as refused:
        verify_plaintext(folder, trusted=(signer.public_key(),))
    assert refused.value.code == "sealed-digest-mismatch"
