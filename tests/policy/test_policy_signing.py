"""Signatures over policies and reference values: who signed what, and how many of them."""

import base64
import dataclasses
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import AttestError, ConfigurationError, SignatureError
from attest.policy import signatures
from attest.policy.loader import load_policy
from attest.policy.signatures import (
    DocumentIdentity,
    identity_of,
    read_signature,
    require_newer,
    sign_policy,
    signature_json,
    signed_bytes,
    verify_signatures,
)
from attest.policy.signing_keys import key_id, read_private_key, read_public_key
from tests.policy.documents import STRICT

AT = datetime(2026, 6, 1, tzinfo=UTC)
ALICE = Ed25519PrivateKey.from_private_bytes(b"a" * 32)
BOB = ec.derive_private_key(0xB0B, ec.SECP256R1())
CAROL = ec.derive_private_key(0xCA201, ec.SECP384R1())
EVERYBODY: tuple[Any, ...] = (ALICE, BOB, CAROL)
REFERENCES: dict[str, Any] = {
    "schema": "attest.references/1",
    "name": "images",
    "version": 2,
    "origin": "the build",
    "issued": "2026-05-01T00:00:00Z",
    "expires": "2026-12-01T00:00:00Z",
    "values": {"image": {"kind": "snp-measurement", "values": ["ab" * 48]}},
}


def signed(key: Any = ALICE, document: Any = STRICT) -> Any:  # noqa: ANN401  any key, any JSON
    return sign_policy(document, key=key, at=AT)


def refused(error: type[AttestError], **arguments: Any) -> AttestError:  # noqa: ANN401
    given_: dict[str, Any] = {"signatures": [signed()], "keys": [ALICE.public_key()], "threshold": 1} | arguments
    document = given_.pop("document", STRICT)
    with pytest.raises(error) as caught:
        verify_signatures(document, **given_)
    return caught.value


@pytest.mark.parametrize("key", EVERYBODY, ids=["Ed25519", "ES256", "ES384"])
def test_what_a_key_signed_verifies_with_it(key: Any) -> None:  # noqa: ANN401
    signature = signed(key)
    found = verify_signatures(STRICT, signatures=[signature], keys=[key.public_key()], threshold=1)
    assert found.signers == (key_id(key.public_key()),)
    assert found.document == DocumentIdentity(
        name="test", version=1, digest=load_policy(json.dumps(STRICT).encode()).digest
    )
    assert read_signature(json.dumps(signature_json(signature)).encode()) == signature
    assert signed(key) == signature  # nothing random


def test_the_domain_stands_before_the_canonical_document() -> None:
    message = signed_bytes({"b": 1, "schema": "attest.policy/1", "a": "é"})
    assert message == b'attest policy v1\0{"a":"\xc3\xa9","b":1,"schema":"attest.policy/1"}'
    ALICE.public_key().verify(signed().signature, signed_bytes(STRICT))
    assert signed_bytes(REFERENCES).startswith(b"attest references v1\0{")
    with pytest.raises(ConfigurationError, match=r"attest\.policy/1"):
        signed_bytes({"schema": "something"})
    with pytest.raises(ConfigurationError):
        signed_bytes([])


def test_yaml_and_json_of_one_content_have_one_signature() -> None:
    from io import BytesIO

    from ruamel.yaml import YAML

    from attest.policy.document import read_document

    text = BytesIO()
    YAML(typ="safe", pure=True).dump(dict(reversed(STRICT.items())), text)
    document = read_document(text.getvalue())
    assert verify_signatures(document, signatures=[signed()], keys=[ALICE.public_key()], threshold=1).signers


def test_reference_documents_are_signed_likewise() -> None:
    signature = signed(BOB, REFERENCES)
    assert (signature.document.name, signature.document.version) == ("images", 2)
    assert verify_signatures(REFERENCES, signatures=[signature], keys=[BOB.public_key()], threshold=1).signers
    assert refused(SignatureError, document=REFERENCES).code == "policy-signature-mismatch"


def test_what_does_not_load_is_not_signed() -> None:
    with pytest.raises(ConfigurationError, match="known key"):
        sign_policy({**STRICT, "typo": 1}, key=ALICE, at=AT)
    with pytest.raises(ConfigurationError):
        sign_policy({**REFERENCES, "typo": 1}, key=ALICE, at=AT)
    with pytest.raises(ConfigurationError, match="canonical"):
        signed_bytes({"schema": "attest.policy/1", "number": 2**60})


def test_m_of_n_keys_and_each_counts_once() -> None:
    keys = [key.public_key() for key in EVERYBODY]
    both = [signed(BOB), signed(ALICE)]
    found = verify_signatures(STRICT, signatures=both, keys=keys, threshold=2)
    assert found.signers == tuple(key_id(key.public_key()) for key in (ALICE, BOB))
    assert refused(SignatureError, signatures=both, keys=keys, threshold=3).code == "policy-signatures-missing"
    twice = [signed(), dataclasses.replace(signed(), signed_at=datetime(2026, 7, 1, tzinfo=UTC))]
    assert refused(SignatureError, signatures=twice, keys=keys, threshold=2).got == "1"
    assert refused(SignatureError, signatures=[]).got == "0"


def test_another_signature_of_the_same_ecdsa_key_is_valid_and_counts_once() -> None:
    signature = signed(BOB)
    r, s = decode_dss_signature(signature.signature)
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    other = dataclasses.replace(signature, signature=encode_dss_signature(r, order - s))
    keys: list[Any] = [BOB.public_key(), ALICE.public_key()]
    assert len(verify_signatures(STRICT, signatures=[other], keys=keys, threshold=1).signers) == 1
    assert refused(SignatureError, signatures=[signature, other], keys=keys, threshold=2).got == "1"


def test_unknown_keys_count_for_nothing_and_are_named() -> None:
    found = verify_signatures(STRICT, signatures=[signed(), signed(BOB)], keys=[ALICE.public_key()], threshold=1)
    assert found.ignored == (key_id(BOB.public_key()),)
    error = refused(SignatureError, signatures=[signed(BOB)])
    assert key_id(BOB.public_key()).hex() in error.message


@pytest.mark.parametrize("threshold", [0, -1, 2])
def test_a_threshold_is_from_1_to_the_number_of_different_keys(threshold: int) -> None:
    twice = [ALICE.public_key(), ALICE.public_key()]
    assert refused(ConfigurationError, keys=twice, threshold=threshold).code == "policy-threshold-invalid"


def test_the_number_of_keys_and_signatures_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused(ConfigurationError, signatures=[signed()] * 65).code == "policy-signature-unreadable"
    verify_signatures(STRICT, signatures=[signed()] * 64, keys=[ALICE.public_key()], threshold=1)
    monkeypatch.setattr(signatures, "MAX_KEYS", 1)
    keys = [ALICE.public_key(), BOB.public_key()]
    assert refused(ConfigurationError, keys=keys).code == "policy-threshold-invalid"


@pytest.mark.parametrize(
    "change", [{"name": "other"}, {"version": 2}, {"description": "changed"}], ids=["name", "version", "digest"]
)
def test_a_signature_over_another_document_refuses(change: dict[str, Any]) -> None:
    assert refused(SignatureError, document=STRICT | change).code == "policy-signature-mismatch"


def test_name_and_version_in_the_file_must_be_those_of_the_document() -> None:
    signature = signed()
    for change in ({"name": "other"}, {"version": 9}, {"digest": bytes(32)}):
        other = dataclasses.replace(signature, document=dataclasses.replace(signature.document, **change))
        assert refused(SignatureError, signatures=[other]).code == "policy-signature-mismatch"


@pytest.mark.parametrize("key", EVERYBODY, ids=["Ed25519", "ES256", "ES384"])
def test_every_flipped_byte_of_a_signature_refuses(key: Any) -> None:  # noqa: ANN401
    signature = signed(key)
    for index in range(len(signature.signature)):
        data = bytearray(signature.signature)
        data[index] ^= 1
        bad = dataclasses.replace(signature, signature=bytes(data))
        error = refused(SignatureError, signatures=[signed(key), bad], keys=[key.public_key()])
        assert error.code == "policy-signature-invalid"


def test_the_algorithm_is_that_of_the_key() -> None:
    bad = dataclasses.replace(signed(BOB), algorithm="ES384")
    assert refused(SignatureError, signatures=[bad], keys=[BOB.public_key()]).code == "policy-signature-invalid"


def test_mc_23_a_version_that_goes_back_is_refused() -> None:
    identity = identity_of(STRICT)
    newer = dataclasses.replace(identity, version=5)
    require_newer(newer, than=4)
    require_newer(newer, than=identity)
    for than in (5, 6, newer):
        with pytest.raises(SignatureError, match="above") as caught:
            require_newer(newer, than=than)
        assert caught.value.code == "policy-rolled-back"
    with pytest.raises(ConfigurationError) as other:
        require_newer(newer, than=dataclasses.replace(identity, name="other"))
    assert other.value.code == "policy-name-differs"


# -- keys and files


def pem(key: Any, protection: Any = None) -> bytes:  # noqa: ANN401
    data: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, protection or NoEncryption())
    return data


def public_pem(key: Any) -> bytes:  # noqa: ANN401
    data: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return data


@pytest.mark.parametrize("key", EVERYBODY, ids=["Ed25519", "ES256", "ES384"])
def test_keys_are_read_from_pem(key: Any) -> None:  # noqa: ANN401
    assert key_id(read_private_key(pem(key)).public_key()) == key_id(read_public_key(public_pem(key)))


def test_other_keys_are_refused() -> None:
    weak, curve = rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP521R1())
    bad = (b"", b"nothing", pem(ALICE, BestAvailableEncryption(b"secret")), public_pem(ALICE), pem(weak), pem(curve))
    for data in bad:
        with pytest.raises(ConfigurationError) as caught:
            read_private_key(data)
        assert caught.value.code == "policy-key-invalid"
    for data in (b"", b"nothing", pem(ALICE), public_pem(weak), public_pem(curve)):
        with pytest.raises(ConfigurationError) as caught:
            read_public_key(data)
        assert caught.value.code == "policy-key-invalid"
    with pytest.raises(ValueError, match="Ed25519"):
        sign_policy(STRICT, key=curve, at=AT)


def test_a_signature_file_is_closed() -> None:
    good = signature_json(signed())
    assert good["schema"] == "attest.policy-signature/1"
    for name in good:
        without = {key: value for key, value in good.items() if key != name}
        for bad in (without, good | {name: None}, good | {name: "x!"}):
            if bad == good | {"name": "x!"}:
                continue  # a name is text; that it is another's is found when it is verified
            with pytest.raises(ConfigurationError) as caught:
                read_signature(json.dumps(bad).encode())
            assert caught.value.code == "policy-signature-unreadable", (name, bad)
    signature = base64.b64decode(str(good["signature"]))
    for data in (b"", b"[]", b"x" * 16385, json.dumps(good | {"more": 1}).encode()):
        with pytest.raises(ConfigurationError):
            read_signature(data)
    assert len(signature) == 64


def test_a_signature_file_may_have_sixteen_kibibytes() -> None:
    written = json.dumps(signature_json(signed())).encode()
    assert read_signature(written.ljust(16384)) == signed()
    with pytest.raises(ConfigurationError):
        read_signature(written.ljust(16385))


@given(st.binary(max_size=300))
def test_any_bytes_are_a_signature_a_key_or_a_documented_error(data: bytes) -> None:
    for read in (read_signature, read_public_key, read_private_key):
        with pytest.raises(ConfigurationError):
            read(data)
