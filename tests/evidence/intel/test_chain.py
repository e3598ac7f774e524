"""From the PCK certificate to the pinned root: names, keys, flags, dates, and whose root it is."""

from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from attest.endorsements.anchors import TrustAnchors, intel_name
from attest.endorsements.x509 import Extension, parse_certificate
from attest.errors import (
    ChainError,
    EndorsementError,
    EvidenceError,
)
from attest.evidence.intel.chain import MAX_CHAIN_CERTIFICATES, find_intel_root
from attest_simulator import der
from attest_simulator.intel.keys import IntelAuthority, authority_key
from tests.evidence.intel import made_quotes as made
from tests.evidence.intel.judged import authentic, chained, pool, refused
from tests.evidence.intel.made_quotes import ANCHORS, AT, CA, CHAIN, HELD, PCK, PINNED, ROOT, MadeQuote, pem

SECOND = timedelta(seconds=1)


# -- T02: certificates


@pytest.mark.parametrize(
    "chain",
    [
        b"",
        b"\0",
        b"no certificate",
        CHAIN.replace(b"CERTIFICATE", b"PRIVATE KEY"),
        CHAIN.replace(b"MII", b"*II", 1),
        CHAIN.replace(b"-----END CERTIFICATE-----", b"", 1),
        pem(PCK[:-1], CA, ROOT),
        pem(PCK, CA, b"\x30\x00"),
        pem(PCK, *[CA] * MAX_CHAIN_CERTIFICATES),
        pem(PCK) + b"-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n",
    ],
)
def test_a_chain_that_cannot_be_read_is_malformed_evidence(chain: bytes) -> None:
    error = refused(MadeQuote(certification_data=chain, signature=bytes(64)))
    assert isinstance(error, EvidenceError)
    assert error.code in {"certificate-malformed", "base64-invalid"}
    assert error.check == "tdx.pck_certificate"


def test_as_many_certificates_as_the_limit_are_read() -> None:
    assert authentic(chained(PCK, *[CA] * (MAX_CHAIN_CERTIFICATES - 1))).chain.issuer.der == CA


def _ca(*extensions: Extension, **changed: Any) -> bytes:  # noqa: ANN401  as certificate takes
    return made.certificate(extensions=extensions or made.AUTHORITY, **changed)


CHAINS = [
    # the leaf
    ((made.pck(signer=made.OTHER_KEY), CA), "certificate-signature-invalid"),
    ((made.pck(algorithm=made.SHA384), CA), "certificate-algorithm-unexpected"),
    ((made.pck(issuer=intel_name("Intel SGX Root CA")), CA), "pck-name-unexpected"),
    ((CA, PCK), "pck-malformed"),
    # the intermediate
    ((PCK, _ca(made.AUTHORITY[0])), "ca-flags-missing"),
    ((PCK, _ca(made.AUTHORITY[1])), "ca-flags-missing"),
    ((PCK, _ca(signer=made.OTHER_KEY)), "certificate-signature-invalid"),
    ((PCK, _ca(algorithm=made.SHA384)), "certificate-algorithm-unexpected"),
    ((PCK, _ca(key=ec.derive_private_key(5, ec.SECP384R1()))), "public-key-invalid"),
    ((PCK, _ca(issuer=intel_name("Intel SGX Root"))), "pck-name-unexpected"),
    ((PCK, _ca(*made.AUTHORITY, Extension(oid="1.2.3", critical=True, value=b""))), "critical-extension-unknown"),
    ((PCK, _ca(ends=AT - SECOND)), "certificate-expired"),
    ((PCK, _ca(begins=AT + SECOND)), "certificate-not-yet-valid"),
    # a root that nobody pinned
    ((PCK, _ca(issuer=intel_name("Intel SGX Root CA", organisation="X"))), "root-not-trusted"),
]


@pytest.mark.parametrize(("chain", "code"), CHAINS)
def test_a_chain_that_breaks_is_refused(chain: tuple[bytes, ...], code: str) -> None:
    error = refused(chained(*chain))
    assert error.code == code
    assert error.exit_code == (3 if code == "pck-malformed" else 4)


@pytest.mark.parametrize("code", ["certificate-expired", "certificate-not-yet-valid"])
@pytest.mark.parametrize("which", ["leaf", "intermediate", "root", "held root"])
def test_both_bounds_of_every_certificate_are_included(which: str, code: str) -> None:
    begins, ends = AT - SECOND, AT + SECOND
    leaf = made.pck(begins=begins, ends=ends) if which == "leaf" else PCK
    issuer = made.certificate(begins=begins, ends=ends) if which == "intermediate" else CA
    root = made.certificate(subject=made.ROOT_NAME, key=made.ROOT_KEY, begins=begins, ends=ends)
    root = root if which == "root" else ROOT
    held = replace(HELD, not_before=begins, not_after=ends)
    anchors = {"root": [PINNED], "held root": [held]}.get(which, [HELD])
    chain = chained(leaf, issuer) if which == "held root" else chained(leaf, issuer, root)
    for at in (begins, AT, ends):
        authentic(chain, anchors=anchors, at=at)
    outside = begins - SECOND if code == "certificate-not-yet-valid" else ends + SECOND
    assert refused(chain, anchors=anchors, at=outside).code == code


def test_a_held_root_without_dates_is_always_valid() -> None:
    assert authentic(anchors=[replace(HELD, not_before=None, not_after=None)]).chain.anchor.not_before is None


@pytest.mark.parametrize(
    "root",
    [
        made.certificate(subject=made.ROOT_NAME, key=made.ROOT_KEY, extensions=made.AUTHORITY[:1]),
        made.certificate(subject=made.ROOT_NAME, key=made.ROOT_KEY, signer=made.OTHER_KEY),
    ],
)
def test_a_pinned_root_that_is_presented_must_be_a_root(root: bytes) -> None:
    assert isinstance(refused(chained(PCK, CA, root), anchors=[PINNED]), ChainError)
    assert authentic(chained(PCK, CA, root)).chain.anchor == HELD  # the held key suffices


# -- T02: anchors


def test_no_anchor_accepts_nobody() -> None:
    assert refused(anchors=()).code == "root-not-trusted"
    assert refused(chained(PCK, CA), anchors=()).code == "root-not-trusted"


def test_the_root_that_a_quote_brings_is_never_trusted_for_that() -> None:
    assert refused(anchors=TrustAnchors.vendors().anchors).code == "root-not-trusted"


def test_a_root_in_the_name_of_the_held_one_is_not_trusted() -> None:
    other = replace(HELD, spki=made.spki(made.OTHER_KEY), spki_sha256=sha256(made.spki(made.OTHER_KEY)).digest())
    assert refused(anchors=[other]).code == "root-not-trusted"
    assert refused(chained(PCK, CA), anchors=[other]).code == "certificate-signature-invalid"


def test_an_anchor_of_another_role_does_not_count() -> None:
    assert refused(anchors=[replace(HELD, role="amd-ark")]).code == "root-not-trusted"


def test_a_pinned_root_of_another_curve_is_refused() -> None:
    key = ec.derive_private_key(5, ec.SECP384R1())
    issuer = replace(HELD, spki=made.spki(key), spki_sha256=sha256(made.spki(key)).digest())
    assert refused(chained(PCK, CA), anchors=[issuer]).code == "public-key-invalid"


def test_a_pinned_root_that_is_not_at_hand_is_missing() -> None:
    error = refused(chained(PCK, CA), anchors=[PINNED])
    assert isinstance(error, EndorsementError)
    assert (error.code, error.check) == ("intel-root-missing", "tdx.pck_chain")


def test_a_root_of_the_simulation_is_refused_by_name() -> None:
    key = authority_key(IntelAuthority.ROOT)
    assert TrustAnchors.simulation().pinned(sha256(made.spki(key)).digest(), role="intel-sgx-root") is not None
    simulated = made.certificate(subject=made.ROOT_NAME, key=key, signer=key)
    chain = chained(PCK, made.certificate(signer=key), simulated)
    assert refused(chain, anchors=TrustAnchors.vendors().anchors).code == "simulated-root-refused"
    assert authentic(chain, anchors=TrustAnchors.simulation().anchors).chain.anchor.simulated


def test_an_issuer_that_is_nowhere_is_missing() -> None:
    given = MadeQuote(certification_type=4, certification_data=b"")
    error = refused(given, endorsements=pool(PCK, ROOT))
    assert isinstance(error, EndorsementError)
    assert (error.code, error.retryable, error.exit_code) == ("pck-issuer-missing", True, 5)


def test_the_root_of_another_chain_has_to_be_intels_by_name() -> None:
    child = parse_certificate(PCK)
    with pytest.raises(ChainError) as caught:
        find_intel_root(child, (), anchors=ANCHORS, at=AT)
    assert caught.value.code == "pck-name-unexpected"
    unnamed = parse_certificate(made.certificate(issuer=der.sequence()))
    with pytest.raises(ChainError) as caught:
        find_intel_root(unnamed, (), anchors=ANCHORS, at=AT)
    assert caught.value.got == "a name without one CN"
