"""Who may say that a certificate is good, about which one, for how long, and what outweighs it."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509 import load_der_x509_certificate, ocsp
from hypothesis import given
from hypothesis import strategies as st

from attest.endorsements.ocsp import require_not_revoked
from attest.endorsements.ocsp_answers import (
    MAX_AGE,
    MAX_CERTIFICATES,
    MAX_OCSP_BYTES,
    OcspAnswer,
    OcspStatus,
    cert_id,
    looks_like_ocsp,
    parse_ocsp,
    refusal_of,
)
from attest.endorsements.x509 import Crl, Extension, Issuer, parse_crl
from attest.errors import AttestError, ChainError, EndorsementError, EvidenceError, RevokedError
from attest_simulator import der
from tests.endorsements import made
from tests.endorsements.made_ocsp import (
    AT,
    DAY,
    HOLD,
    ISSUER,
    OCSP_SIGNING,
    RESPONDER_KEY,
    SECOND,
    SUBJECT,
    Made,
    nonce_extension,
    refusal,
    responder,
    response,
)

GOOD = Made()
OTHER = Issuer(name="Made Other", subject=made.OTHER_NAME, spki=made.spki(made.OTHER_KEY))
PURPOSE = OCSP_SIGNING.oid


def judged(*answers: Made, crls: tuple[Crl, ...] = (), at: datetime = AT, hold: str | None = None) -> OcspAnswer | Crl:
    return require_not_revoked(
        SUBJECT,
        ISSUER,
        answers=tuple(parse_ocsp(answer.der()) for answer in answers),
        crls=crls,
        at=at,
        hold=hold,
    )


def refused(
    *answers: Made, crls: tuple[Crl, ...] = (), at: datetime = AT, hold: str | None = None
) -> tuple[str, int, str]:
    with pytest.raises(AttestError) as raised:
        judged(*answers, crls=crls, at=at, hold=hold)
    error = raised.value
    assert error.expected
    assert error.got
    return error.code, error.exit_code, error.message


def accepted(*answers: Made, crls: tuple[Crl, ...] = (), at: datetime = AT) -> bool:
    return judged(*answers, crls=crls, at=at) is not None


def code(*answers: Made, crls: tuple[Crl, ...] = (), at: datetime = AT, hold: str | None = None) -> str:
    return refused(*answers, crls=crls, at=at, hold=hold)[0]


def crl(**arguments: object) -> Crl:
    return parse_crl(made.crl(**arguments))  # type: ignore[arg-type]  # the test's keywords


# -- reading


@pytest.mark.parametrize("name", ["sha1", "sha256", "sha384"])
def test_an_answer_is_read_with_all_that_it_says(name: str) -> None:
    whole = replace(GOOD, hash_algorithm=name, nonce=b"n" * 32).der()
    read = parse_ocsp(whole)
    assert (read.der, read.serial, read.status, read.hash_algorithm) == (whole, 77, OcspStatus.GOOD, name)
    assert (read.issuer_name_hash, read.issuer_key_hash) == cert_id(ISSUER, name)
    assert (read.this_update, read.next_update, read.ends) == (AT - DAY, AT + DAY, AT + DAY)
    assert (read.revocation_reason, read.revocation_time, read.nonce) == (None, None, b"n" * 32)
    assert [certificate.der for certificate in read.certificates] == [responder()]
    assert parse_ocsp(whole) is read


def test_a_revoked_one_says_why_and_since_when() -> None:
    read = parse_ocsp(replace(GOOD, status="revoked", reason=HOLD).der())
    assert (read.status, read.revocation_reason, read.is_on_hold) == (OcspStatus.REVOKED, "certificateHold", True)
    assert read.revocation_time == AT - 30 * DAY
    without = parse_ocsp(replace(GOOD, status="revoked").der())
    assert (without.revocation_reason, without.is_on_hold, without.nonce) == (None, False, None)
    assert parse_ocsp(replace(GOOD, status="unknown").der()).status is OcspStatus.UNKNOWN


def test_an_answer_of_another_implementation_reads_the_same() -> None:
    root = load_der_x509_certificate(made.certificate(subject=made.ROOT_NAME, key=made.ROOT_KEY, serial=1))
    leaf = load_der_x509_certificate(SUBJECT.der)
    signer = load_der_x509_certificate(responder())
    whole = (
        ocsp.OCSPResponseBuilder()
        .add_response(
            leaf,
            root,
            hashes.SHA384(),
            ocsp.OCSPCertStatus.GOOD,
            AT - DAY,
            AT + DAY,
            revocation_time=None,
            revocation_reason=None,
        )
        .responder_id(ocsp.OCSPResponderEncoding.HASH, signer)
        .certificates([signer])
        .sign(RESPONDER_KEY, hashes.SHA384())
        .public_bytes(serialization.Encoding.DER)
    )
    answer = parse_ocsp(whole)
    assert require_not_revoked(SUBJECT, ISSUER, answers=(answer,), crls=(), at=AT) is answer


CRITICAL = made.extension(Extension(oid="1.2.3.4", critical=True, value=b"\x05\x00"))
PLAIN = made.extension(Extension(oid="1.2.3.4", critical=False, value=b"\x05\x00"))
WHOLE = GOOD.der()


def test_extensions_that_are_not_critical_change_nothing() -> None:
    assert parse_ocsp(replace(GOOD, extensions=(PLAIN,), single_extensions=(PLAIN,)).der()).nonce is None
    critical_nonce = replace(GOOD, extensions=(nonce_extension(b"n" * 32, critical=True),))
    assert parse_ocsp(critical_nonce.der()).nonce == b"n" * 32


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "parsing"),
        (b"garbage", "parsing"),
        (SUBJECT.der, "parsing"),
        (made.crl(), "parsing"),
        (WHOLE[:-1], "parsing"),
        (WHOLE + b"\0", "parsing"),
        (bytes(MAX_OCSP_BYTES + 1), f"more than {MAX_OCSP_BYTES}"),
        (refusal(1), "the responder refused: malformedRequest"),
        (refusal(3), "the responder refused: tryLater"),
        (refusal(6), "the responder refused: unauthorized"),
        (refusal(4), "status"),
        (refusal(0), ""),
        (response(GOOD.basic(), status=6), "status UNAUTHORIZED"),
        (response(b"\x30\x00", kind="1.2.3.4"), "parsing"),
        (replace(GOOD, copies=2).der(), "is about 2 certificates"),
        (replace(GOOD, copies=0).der(), "is about 0 certificates"),
        (replace(GOOD, hash_algorithm="sha512").der(), "sha512"),
        (replace(GOOD, extensions=(CRITICAL,)).der(), "critical extension 1.2.3.4"),
        (replace(GOOD, single_extensions=(CRITICAL,)).der(), "critical extension 1.2.3.4"),
        (replace(GOOD, extensions=(PLAIN, PLAIN)).der(), "uplicate"),
        (replace(GOOD, status="revoked", reason=7).der(), "reason"),
        (replace(GOOD, certificates=(responder(),) * (MAX_CERTIFICATES + 1)).der(), "certificates, more than"),
        (replace(GOOD, certificates=(responder(unused_bits=1),)).der(), "certificate cannot be read"),
        (replace(GOOD, unused_bits=1).der(), ""),
        (replace(GOOD, algorithm=der.sequence(der.object_identifier("1.2.840.10045.4.3.4"))).der(), "plain basic"),
        (
            replace(GOOD, algorithm=der.sequence(der.object_identifier("1.2.840.10045.4.3.3"), b"\x05\x00")).der(),
            "",
        ),
    ],
    ids=made.label,
)
def test_what_is_no_answer_about_one_certificate_is_malformed(data: bytes, problem: str) -> None:
    with pytest.raises(EvidenceError) as raised:
        parse_ocsp(data)
    assert (raised.value.code, raised.value.exit_code) == ("ocsp-malformed", 3)
    assert problem in raised.value.message


def test_an_answer_may_be_as_long_as_the_limit_and_not_longer() -> None:
    assert MAX_OCSP_BYTES == 16384
    whole = of_length(MAX_OCSP_BYTES)
    assert parse_ocsp(whole).der == whole
    with pytest.raises(EvidenceError) as raised:
        parse_ocsp(of_length(MAX_OCSP_BYTES + 1))
    assert raised.value.code == "ocsp-malformed"
    assert "more than" in raised.value.message  # and not for another reason


def of_length(length: int) -> bytes:
    """An answer of so many bytes; signatures differ in length by a byte or two."""
    size, whole = length, b""
    while len(whole) != length:
        size += length - len(whole) if whole else -1000
        extension = Extension(oid="1.2.3.4", critical=False, value=der.octet_string(bytes(size)))
        whole = replace(GOOD, extensions=(made.extension(extension),)).der()
    return whole


def test_as_many_certificates_as_are_allowed_are_read() -> None:
    assert len(parse_ocsp(replace(GOOD, certificates=(responder(),) * MAX_CERTIFICATES).der()).certificates) == 4


@given(st.binary(max_size=200))
def test_any_bytes_at_all_are_an_answer_or_malformed(data: bytes) -> None:
    looks_like_ocsp(data)
    refusal_of(data)
    for attempt in (data, WHOLE[:60] + data):
        with pytest.raises(EvidenceError) as raised:
            parse_ocsp(attempt)
        assert raised.value.code == "ocsp-malformed"


@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_no_damaged_answer_shows_that_a_certificate_is_good(at: int, flip: int) -> None:
    damaged = WHOLE[:at] + bytes([WHOLE[at] ^ flip]) + WHOLE[at + 1 :]
    with pytest.raises(AttestError):
        require_not_revoked(SUBJECT, ISSUER, answers=(parse_ocsp(damaged),), crls=(), at=AT)


def test_answers_and_refusals_are_known_by_their_first_bytes() -> None:
    assert looks_like_ocsp(WHOLE)
    assert looks_like_ocsp(refusal(6))
    assert looks_like_ocsp(b"\x30\x7f\x0a\x01")
    assert looks_like_ocsp(b"\x30\x81\x80\x0a\x01")
    assert looks_like_ocsp(b"\x30\x82\x01\x00\x0a\x01")
    others = (b"", b"0", b"0\x80", SUBJECT.der, made.crl(), b"{}", bytes(100))
    assert not any(map(looks_like_ocsp, others))
    assert not looks_like_ocsp(b"\x31" + WHOLE[1:])
    assert not looks_like_ocsp(b"\x30\x03\x0a\x02\x01")
    assert refusal_of(refusal(6)) == "unauthorized"
    assert refusal_of(refusal(4)) is None
    assert refusal_of(WHOLE) is None
    assert refusal_of(b"30030") is None


def test_an_issuer_whose_key_cannot_be_read_has_no_name_in_ocsp() -> None:
    with pytest.raises(ChainError) as raised:
        cert_id(ISSUER._replace(spki=b"\x30\x00"), "sha1")
    assert raised.value.code == "public-key-invalid"


# -- who may answer


def test_a_good_answer_of_the_issuers_responder_is_returned() -> None:
    found = judged(GOOD)
    assert isinstance(found, OcspAnswer)
    assert found.status is OcspStatus.GOOD


def test_the_issuer_may_answer_itself_with_or_without_its_certificate() -> None:
    own = made.certificate(subject=made.ROOT_NAME, key=made.ROOT_KEY)
    for certificates in ((), (own,), (responder(),)):
        assert accepted(replace(GOOD, key=made.ROOT_KEY, certificates=certificates))


@pytest.mark.parametrize("algorithm", [made.ECDSA_SHA256, made.ECDSA_SHA384], ids=["sha256", "sha384"])
def test_both_hashes_may_be_signed_with(algorithm: bytes) -> None:
    assert accepted(replace(GOOD, algorithm=algorithm))


@pytest.mark.parametrize(
    "certificates",
    [
        (made.certificate(key=RESPONDER_KEY), responder()),
        (responder(), made.certificate(subject=made.ROOT_NAME, key=made.ROOT_KEY)),
        (responder(extensions=(replace(OCSP_SIGNING, critical=False),)),),
        (responder(extensions=(OCSP_SIGNING, Extension(oid="2.5.29.15", critical=True, value=b"\x03\x02\x07\x80"))),),
        (responder(extensions=(OCSP_SIGNING, Extension(oid="1.2.3.4", critical=False, value=b""))),),
    ],
    ids=["behind another", "before another", "purpose not critical", "with keyUsage", "with another extension"],
)
def test_the_responder_may_stand_anywhere_among_the_certificates(certificates: tuple[bytes, ...]) -> None:
    assert accepted(replace(GOOD, certificates=certificates))


@pytest.mark.parametrize(
    "certificates",
    [
        (),
        (responder(extensions=()),),
        (responder(extensions=(Extension(oid=PURPOSE, critical=True, value=b"\x30\x00"),)),),
        (
            responder(
                extensions=(
                    Extension(
                        oid=PURPOSE, critical=True, value=der.sequence(der.object_identifier("1.3.6.1.5.5.7.3.1"))
                    ),
                )
            ),
        ),
        (responder(extensions=(Extension(oid=PURPOSE, critical=True, value=b"garbage"),)),),
        (responder(extensions=(OCSP_SIGNING, Extension(oid="2.5.29.15", critical=True, value=b"\x03\x02\x01\x06"))),),
        (responder(extensions=(OCSP_SIGNING, Extension(oid="2.5.29.15", critical=True, value=b"\x03\x01\x00"))),),
        (responder(extensions=(OCSP_SIGNING, Extension(oid="2.5.29.15", critical=True, value=b"?"))),),
        (responder(extensions=(OCSP_SIGNING, Extension(oid="1.2.3.4", critical=True, value=b""))),),
        (responder(issuer=made.OTHER_NAME),),
        (responder(signer=made.OTHER_KEY),),
        (responder(issuer=made.OTHER_NAME, signer=made.OTHER_KEY),),
        (responder(key=made.OTHER_KEY),),
        (responder(inner=der.sequence(der.object_identifier("1.2.840.10045.4.3.4")),
                   outer=der.sequence(der.object_identifier("1.2.840.10045.4.3.4"))),),
    ],
    ids=[
        "none", "no purpose", "no purpose in the list", "another purpose", "a purpose that is none",
        "may sign certificates only", "may sign nothing", "keyUsage that is none", "unknown critical extension",
        "names another issuer", "forged by another", "issued by another", "of another key", "unknown algorithm",
    ],
)  # fmt: skip
@pytest.mark.parametrize("status", ["good", "revoked", "unknown"])
def test_nobody_else_may_answer(certificates: tuple[bytes, ...], status: str) -> None:
    assert refused(replace(GOOD, certificates=certificates, status=status))[:2] == ("ocsp-signature-invalid", 4)


def test_a_responder_of_another_ca_does_not_speak_for_this_one() -> None:
    sibling = responder(issuer=made.OTHER_NAME, signer=made.OTHER_KEY)
    answer = parse_ocsp(replace(GOOD, issuer=OTHER, certificates=(sibling,)).der())
    assert require_not_revoked(SUBJECT, OTHER, answers=(answer,), crls=(), at=AT) is answer
    assert code(replace(GOOD, issuer=OTHER, certificates=(sibling,))) == "ocsp-missing"
    assert code(replace(GOOD, certificates=(sibling,))) == "ocsp-signature-invalid"


def test_a_forged_answer_neither_helps_nor_harms_beside_a_genuine_one() -> None:
    forged = replace(GOOD, status="revoked", key=made.OTHER_KEY)
    assert accepted(forged, GOOD, forged)


# -- about which certificate


@pytest.mark.parametrize(
    "answer",
    [
        replace(GOOD, serial=78),
        replace(GOOD, name_hash=bytes(48)),
        replace(GOOD, key_hash=bytes(48)),
        replace(GOOD, issuer=OTHER),
        replace(GOOD, issuer=ISSUER._replace(subject=made.OTHER_NAME)),
        replace(GOOD, issuer=ISSUER._replace(spki=made.spki(made.OTHER_KEY))),
        replace(GOOD, hash_algorithm="sha1", name_hash=b""),
    ],
    ids=["serial", "name hash", "key hash", "issuer", "issuer's name", "issuer's key", "empty hash"],
)
@pytest.mark.parametrize("status", ["good", "revoked"])
def test_an_answer_about_another_certificate_counts_for_nothing(answer: Made, status: str) -> None:
    assert refused(replace(answer, status=status))[:2] == ("ocsp-missing", 5)
    assert accepted(replace(answer, status=status), GOOD)


def test_without_any_answer_it_is_missing_and_may_be_fetched() -> None:
    with pytest.raises(EndorsementError) as raised:
        judged()
    assert (raised.value.code, raised.value.retryable) == ("ocsp-missing", True)
    assert "serial 77" in raised.value.message
    assert raised.value.hint


# -- when


@pytest.mark.parametrize("at", [AT - DAY, AT, AT + DAY - SECOND])
def test_mc_9_an_answer_counts_from_this_update_up_to_next_update(at: datetime) -> None:
    assert accepted(GOOD, at=at)
    assert parse_ocsp(GOOD.der()).is_current(at)


@pytest.mark.parametrize(
    ("at", "expected"),
    [(AT - DAY - SECOND, "ocsp-not-yet-valid"), (AT + DAY, "ocsp-expired"), (AT + 9 * DAY, "ocsp-expired")],
)
def test_mc_9_outside_it_is_stale(at: datetime, expected: str) -> None:
    assert refused(GOOD, at=at)[:2] == (expected, 5)
    assert not parse_ocsp(GOOD.der()).is_current(at)


@pytest.mark.parametrize(
    ("age", "fresh"), [(timedelta(0), True), (MAX_AGE - SECOND, True), (MAX_AGE, False), (-SECOND, False)]
)
def test_an_answer_without_next_update_has_a_greatest_age(age: timedelta, fresh: bool) -> None:
    answer = replace(GOOD, next_update=None, this_update=AT - age)
    if fresh:
        assert accepted(answer)
    else:
        assert code(answer) == ("ocsp-expired" if age > timedelta(0) else "ocsp-not-yet-valid")


def test_an_answer_that_ends_before_it_begins_is_never_current() -> None:
    assert code(replace(GOOD, next_update=AT - 2 * DAY)) == "ocsp-expired"


@pytest.mark.parametrize(
    ("begins", "ends", "expected"),
    [
        (made.BEGINS, AT, None),
        (AT, made.ENDS, None),
        (made.BEGINS, AT - SECOND, "ocsp-expired"),
        (AT + SECOND, made.ENDS, "ocsp-not-yet-valid"),
    ],
)
def test_mc_9_the_responder_must_be_valid_at_that_moment(
    begins: datetime, ends: datetime, expected: str | None
) -> None:
    answer = replace(GOOD, certificates=(responder(begins=begins, ends=ends),))
    if expected is None:
        assert accepted(answer)
    else:
        found, exit_code, message = refused(answer)
        assert (found, exit_code) == (expected, 5)
        assert ("certificate of the responder" in message) == (expected == "ocsp-expired")


def test_the_newest_of_several_stale_answers_is_named() -> None:
    older, newer = (replace(GOOD, this_update=AT - n * DAY, next_update=AT - n * DAY + SECOND) for n in (9, 3))
    with pytest.raises(EndorsementError) as raised:
        judged(newer, older)
    assert raised.value.got == "2026-06-28T00:00:00Z to 2026-06-28T00:00:01Z"


def test_one_current_answer_among_stale_ones_suffices() -> None:
    assert accepted(replace(GOOD, next_update=AT), GOOD, replace(GOOD, this_update=AT + SECOND))


# -- negatives

REVOKED = replace(GOOD, status="revoked", reason=1)
HELD = replace(GOOD, status="revoked", reason=HOLD)
NEWER_GOOD = replace(GOOD, this_update=AT - SECOND)
STALE = {"this_update": AT - 90 * DAY, "next_update": AT - 80 * DAY}
FUTURE = {"this_update": AT + 80 * DAY, "next_update": AT + 90 * DAY}
EXPIRED_RESPONDER = (responder(begins=made.BEGINS, ends=made.BEGINS + DAY),)


@pytest.mark.parametrize(
    "negative",
    [
        REVOKED,
        replace(REVOKED, reason=None),
        replace(REVOKED, reason=8),
        replace(REVOKED, **STALE),  # type: ignore[arg-type]  # two moments
        replace(REVOKED, **FUTURE),  # type: ignore[arg-type]  # likewise
        replace(REVOKED, certificates=EXPIRED_RESPONDER),
        replace(REVOKED, key=made.ROOT_KEY, certificates=()),
        HELD,
        replace(HELD, **FUTURE),  # type: ignore[arg-type]  # likewise
    ],
    ids=["now", "no reason", "taken off a list", "stale", "future", "old responder", "issuer", "hold", "future hold"],
)
@pytest.mark.parametrize("others", [(), (GOOD,), (replace(GOOD, next_update=None, this_update=AT - DAY + SECOND),)])
def test_a_genuine_negative_of_any_date_refuses(negative: Made, others: tuple[Made, ...]) -> None:
    if negative is HELD and others not in {(), (GOOD,)}:
        return  # a newer good answer takes a hold back: below
    for answers in ((negative, *others), (*others, negative)):
        assert refused(*answers, crls=(crl(),))[:2] == ("certificate-revoked", 4)


def test_only_a_hold_may_be_tolerated_and_it_is_returned() -> None:
    for others in ((), (GOOD,), (replace(GOOD, **STALE),)):  # type: ignore[arg-type]  # two moments
        found = judged(HELD, *others, hold="old driver, on purpose")
        assert isinstance(found, OcspAnswer)
        assert found.is_on_hold
    assert code(REVOKED, hold="old driver, on purpose") == "certificate-revoked"
    assert code(HELD, REVOKED, hold="old driver, on purpose") == "certificate-revoked"


def test_a_tolerated_hold_still_needs_something_current() -> None:
    stale = replace(HELD, **STALE)  # type: ignore[arg-type]  # two moments
    assert code(stale, hold="known") == "ocsp-expired"
    for found in (judged(stale, crls=(crl(),), hold="known"), judged(HELD, crls=(crl(),), hold="known")):
        assert isinstance(found, OcspAnswer)
        assert found.is_on_hold


@pytest.mark.parametrize("hold", [None, "known"])
def test_a_hold_is_taken_back_by_a_newer_good_answer_that_is_current(hold: str | None) -> None:
    old = replace(HELD, **STALE)  # type: ignore[arg-type]  # two moments
    for answers in ((old, GOOD), (HELD, NEWER_GOOD), (NEWER_GOOD, HELD)):
        found = judged(*answers, hold=hold)
        assert isinstance(found, OcspAnswer)
        assert found.status is OcspStatus.GOOD


@pytest.mark.parametrize(
    "good",
    [
        GOOD,
        replace(NEWER_GOOD, next_update=AT),
        replace(NEWER_GOOD, this_update=AT + SECOND),
        replace(NEWER_GOOD, certificates=EXPIRED_RESPONDER),
        replace(NEWER_GOOD, key=made.OTHER_KEY),
        replace(NEWER_GOOD, serial=78),
        replace(NEWER_GOOD, status="unknown"),
    ],
    ids=["no newer", "stale", "future", "old responder", "forged", "about another", "unknown"],
)
def test_nothing_else_takes_a_hold_back(good: Made) -> None:
    assert code(HELD, good) == "certificate-revoked"


# -- unknown


def test_unknown_is_not_good() -> None:
    unknown = replace(GOOD, status="unknown")
    for answers in ((unknown,), (unknown, replace(GOOD, this_update=AT - 2 * DAY)), (GOOD, unknown)):
        assert refused(*answers)[:2] == ("certificate-status-unknown", 4)
    assert code(unknown, crls=(crl(),)) == "certificate-status-unknown"
    newer = replace(unknown, this_update=AT - SECOND)
    assert code(HELD, newer, hold="known") == "certificate-status-unknown"


def test_unknown_is_outweighed_by_a_newer_good_answer_and_forgotten_when_stale() -> None:
    unknown = replace(GOOD, status="unknown")
    assert accepted(unknown, NEWER_GOOD)
    assert code(replace(unknown, next_update=AT)) == "ocsp-expired"


# -- lists


def test_a_current_list_of_the_issuer_suffices_without_an_answer() -> None:
    current = crl(revoked=(5,))
    for answers in ((), (replace(GOOD, next_update=AT),), (replace(GOOD, key=made.OTHER_KEY),)):
        assert judged(*answers, crls=(current,)) is current
    assert isinstance(judged(GOOD, crls=(current,)), OcspAnswer)


def test_a_genuine_list_of_any_date_that_lists_it_refuses() -> None:
    for listed in (
        crl(revoked=(77,)),
        crl(revoked=(77,), ends=made.BEGINS + DAY),
        crl(revoked=(77,), begins=made.ENDS),
    ):
        assert refused(GOOD, crls=(listed,), hold="known")[:2] == ("certificate-revoked", 4)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (crl(ends=AT), "crl-expired"),
        (crl(begins=AT + SECOND), "crl-not-yet-valid"),
        (crl(signer=made.OTHER_KEY), "crl-signature-invalid"),
        (crl(issuer=made.OTHER_NAME), "ocsp-missing"),
    ],
    ids=["expired", "future", "forged", "of another"],
)
def test_a_list_that_shows_nothing_is_refused_as_such_and_harms_no_good_answer(found: Crl, expected: str) -> None:
    assert code(crls=(found,)) == expected
    assert accepted(GOOD, crls=(found,))
    assert code(replace(GOOD, next_update=AT), crls=(found,)) == "ocsp-expired"
    assert code(replace(GOOD, key=made.OTHER_KEY), crls=(found,)) == "ocsp-signature-invalid"


def test_revoked_errors_say_who_why_and_since_when() -> None:
    with pytest.raises(RevokedError) as raised:
        judged(REVOKED)
    assert "Made Root revoked Made Other since 2026-06-01T00:00:00Z (keyCompromise)" in raised.value.message
    with pytest.raises(RevokedError, match="no reason stated"):
        judged(replace(REVOKED, reason=None))
