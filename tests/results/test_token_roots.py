"""Tokens that bring a chain along: it counts up to a named root, and not a step further."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import timedelta
from hashlib import sha256

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from attest.errors import AttestError, ChainError, ConfigurationError, EndorsementError
from attest.results.service_token import VerifiedServiceToken, verify_service_token
from attest.results.token_roots import is_certificate, read_token_roots
from tests.results.services import AT, GOOGLE, NONCE, Service, google, maa_snp, rsa_key
from tests.results.token_chains import DAY, GOOD, LEAF_KEY, ROOTS, SIGNER, Node, chain, encoded, issuing, leaf, root

SECOND = timedelta(seconds=1)
AUDIENCE = "https://kms.example"
Roots = Mapping[str, tuple[x509.Certificate, ...]]


def verify(x5c: object, *, roots: Roots = ROOTS, kid: str | None = None) -> VerifiedServiceToken:
    token = SIGNER.sign(google(), kid=kid, x5c=x5c)
    return verify_service_token(token, trusted={}, roots=roots, at=AT, nonce=NONCE, audience=AUDIENCE)


def refusal(x5c: object, *, roots: Roots = ROOTS) -> AttestError:
    with pytest.raises(AttestError) as outcome:
        verify(x5c, roots=roots)
    return outcome.value


def test_a_chain_up_to_a_named_root_signs() -> None:
    spki = LEAF_KEY.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    for sent in (GOOD, GOOD[:2]):
        assert verify(encoded(sent)).key_id == sha256(spki).hexdigest()
    assert verify(encoded(GOOD), kid="anything").algorithm == "RS256"
    without_extensions = chain(leaf(ca=None, usage=None), issuing(), root())
    assert verify(encoded(without_extensions)).key_id


def test_a_root_is_its_key_and_may_have_been_renewed() -> None:
    renewed = chain(leaf(), issuing(), root(ends=10 * DAY))
    assert verify(encoded(renewed)).key_id
    assert verify(encoded(chain(leaf(), root()))).key_id


def test_a_chain_counts_only_where_a_root_was_named() -> None:
    error = refusal(encoded(GOOD), roots={})
    assert (error.code, error.check) == ("token-issuer-untrusted", "token.signature")
    token = SIGNER.sign(google(), kid=None, x5c=encoded(GOOD))
    with pytest.raises(AttestError) as outcome:
        verify_service_token(token, trusted={GOOGLE: SIGNER.keys()}, at=AT, audience=AUDIENCE)
    assert outcome.value.code == "token-malformed"
    other = {"https://other.example": ROOTS[GOOGLE]}
    assert isinstance(refusal(encoded(GOOD), roots=other), EndorsementError)


def test_a_token_without_chain_needs_a_key() -> None:
    token = SIGNER.sign(google())
    with pytest.raises(EndorsementError) as outcome:
        verify_service_token(token, trusted={}, roots=ROOTS, at=AT, audience=AUDIENCE)
    assert outcome.value.code == "token-key-unknown"
    trusted = {GOOGLE: SIGNER.keys()}
    assert verify_service_token(token, trusted=trusted, roots=ROOTS, at=AT, audience=AUDIENCE).key_id == SIGNER.kid


def test_the_leaf_has_to_have_signed() -> None:
    token = Service(number=1).sign(google(), kid=None, x5c=encoded(GOOD))
    with pytest.raises(AttestError) as outcome:
        verify_service_token(token, trusted={}, roots=ROOTS, at=AT, audience=AUDIENCE)
    assert outcome.value.code == "token-signature-invalid"


OTHER = rsa_key(13)
EC = ec.derive_private_key(7, ec.SECP256R1())


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ((leaf(), issuing(), root(key=OTHER)), "does not end at a root"),
        ((leaf(), issuing(key=OTHER, name="Test Root")), "does not end at a root"),
        ((leaf(ends=-SECOND), issuing(), root()), "not valid now"),
        ((leaf(begins=SECOND), issuing(), root()), "not valid now"),
        ((leaf(), issuing(ends=-SECOND), root()), "not valid now"),
        ((leaf(), issuing(ca=False, path_length=None), root()), "may not issue"),
        ((leaf(), issuing(ca=None), root()), "may not issue"),
        ((leaf(), issuing(usage="digital_signature"), root()), "may not issue"),
        ((leaf(), issuing(usage=None), root()), "may not issue"),
        ((leaf(), issuing(), issuing(name="Another", key=OTHER), root()), "may not issue"),
        ((leaf(ca=True), issuing(), root()), "not for signatures"),
        ((leaf(usage="key_encipherment"), issuing(), root()), "not for signatures"),
        ((leaf(critical=True), issuing(), root()), "critical"),
        ((leaf(), issuing(critical=True), root()), "critical"),
        ((leaf(key=EC), issuing(), root()), "no RSA key"),
        ((leaf(digest=hashes.SHA224()), issuing(), root()), "not issued"),
    ],
)
def test_a_chain_with_a_defect_is_refused(nodes: tuple[Node, ...], words: str) -> None:
    error = refusal(encoded(chain(*nodes)))
    assert isinstance(error, ChainError)
    assert (error.code, error.check) == ("token-chain-invalid", "token.signature")
    assert words in error.message


def test_the_bounds_of_validity_are_included() -> None:
    for edge in (leaf(begins=timedelta(0)), leaf(ends=timedelta(0)), leaf(begins=timedelta(0), ends=timedelta(0))):
        assert verify(encoded(chain(edge, issuing(), root()))).key_id


def test_a_named_root_has_its_own_time() -> None:
    old = chain(leaf(), issuing(), root(begins=-10 * DAY, ends=-DAY))
    assert refusal(encoded(old), roots={GOOGLE: (old[-1],)}).code == "token-chain-invalid"
    renewed = chain(leaf(), issuing(), root())
    assert refusal(encoded(renewed), roots={GOOGLE: (old[-1],)}).code == "token-chain-invalid"


def test_links_of_a_chain_are_not_exchangeable() -> None:
    swapped = [GOOD[0], chain(issuing(key=OTHER), root())[0], GOOD[2]]
    assert "not issued" in refusal(encoded(swapped)).message
    assert "not issued" in refusal(encoded([GOOD[0], GOOD[2]])).message
    self_made = chain(leaf())[0]
    assert refusal(encoded([self_made, GOOD[1], GOOD[2]])).code == "token-chain-invalid"
    assert refusal(encoded([GOOD[2], GOOD[2]])).code == "token-chain-invalid"


def test_a_certificate_below_an_elliptic_root_is_read_too() -> None:
    found = chain(leaf(), issuing(key=EC), root())
    assert verify(encoded(found)).key_id


@pytest.mark.parametrize(
    ("x5c", "code"),
    [
        ("text", "token-malformed"),
        ([], "token-malformed"),
        (encoded(GOOD[:1]), "token-malformed"),
        (encoded(GOOD) * 2, "token-malformed"),
        ([5, 5], "token-malformed"),
        (["%", "%"], "base64-invalid"),
        (["AAAA", "AAAA"], "token-chain-invalid"),
        ([base64.b64encode(bytes(17 * 1024)).decode()] * 2, "token-chain-invalid"),
    ],
)
def test_what_is_no_chain_is_refused(x5c: object, code: str) -> None:
    assert refusal(x5c).code == code


def test_a_short_key_in_a_chain_is_refused() -> None:
    short = rsa_key(14, 1024)
    assert "no RSA key" in refusal(encoded(chain(leaf(key=short), issuing(), root()))).message


def test_the_algorithm_is_still_that_of_the_service() -> None:
    token = SIGNER.sign(google(), alg="PS384", kid=None, x5c=encoded(GOOD))
    with pytest.raises(AttestError) as outcome:
        verify_service_token(token, trusted={}, roots=ROOTS, at=AT, audience=AUDIENCE)
    assert outcome.value.code == "token-algorithm-refused"


def test_a_chain_without_a_readable_header_is_refused() -> None:
    words = SIGNER.sign(google()).decode().split(".")
    for head in ("W10", "e30", "!"):
        token = ".".join([head, *words[1:]]).encode()
        with pytest.raises(AttestError):
            verify_service_token(token, trusted={}, roots=ROOTS, at=AT, audience=AUDIENCE)
    assert maa_snp()["iss"] not in ROOTS


# -- files


def test_roots_are_read_from_pem_and_der() -> None:
    pem = GOOD[2].public_bytes(Encoding.PEM)
    der = GOOD[2].public_bytes(Encoding.DER)
    assert is_certificate(pem)
    assert is_certificate(der)
    assert not is_certificate(SIGNER.jwks())
    assert read_token_roots(pem) == read_token_roots(der) == (GOOD[2],)
    assert len(read_token_roots(b"about\n" + pem + GOOD[1].public_bytes(Encoding.PEM))) == 2


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        b"-----BEGIN CERTIFICATE-----\nA\n-----END CERTIFICATE-----\n",
        b"\x30\x00",
        GOOD[2].public_bytes(Encoding.DER).replace(bytes.fromhex("a003020102"), bytes.fromhex("a00302015b")),
        b"\x30" * (20 * 1024),
        GOOD[0].public_bytes(Encoding.PEM),
        GOOD[2].public_bytes(Encoding.PEM) * 9,
        json.dumps({"keys": []}).encode(),
    ],
    ids=["empty", "no certificate", "no base64", "no der", "no version", "too long", "a leaf", "too many", "a key set"],
)
def test_what_is_no_root_is_refused(data: bytes) -> None:
    with pytest.raises(ConfigurationError) as outcome:
        read_token_roots(data)
    assert outcome.value.code == "token-root-invalid"
