"""Keys come from labels, are public by design, and sign the same bytes alike each time."""

from hashlib import sha1

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from attest_simulator.nvidia.keys import derived_bytes, key_id, p384_key, public_point, sign_der, sign_raw, spki_of


def test_a_label_always_stands_for_the_same_key_and_another_label_for_another() -> None:
    assert spki_of(p384_key("a", "b")) == spki_of(p384_key("a", "b"))
    assert len({spki_of(p384_key(*labels)) for labels in (("a", "b"), ("ab",), ("b", "a"), ())}) == 4
    assert p384_key("a").curve.name == "secp384r1"


def test_bytes_are_derived_from_all_labels() -> None:
    assert derived_bytes(16, "a") == derived_bytes(32, "a")[:16]
    assert derived_bytes(16, "a", "b") != derived_bytes(16, "b", "a")


def test_signatures_are_deterministic_and_hold() -> None:
    key = p384_key("a")
    raw, der = sign_raw(key, b"message"), sign_der(key, b"message")
    assert (raw, der) == (sign_raw(key, b"message"), sign_der(key, b"message"))
    assert len(raw) == 96
    assert der == encode_dss_signature(*(int.from_bytes(half, "big") for half in (raw[:48], raw[48:])))
    key.public_key().verify(der, b"message", ec.ECDSA(hashes.SHA384()))


@pytest.mark.parametrize("label", ["a", "b"])
def test_a_key_identifier_is_the_digest_of_the_point(label: str) -> None:
    key = p384_key(label)
    assert spki_of(key).endswith(public_point(key))
    assert key_id(key) == sha1(public_point(key), usedforsecurity=False).digest()
