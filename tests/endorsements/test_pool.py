"""Certificates and lists at hand, sorted for lookup and trusted for nothing."""

from itertools import permutations

from attest.endorsements.intel import IntelDocument
from attest.endorsements.ocsp_answers import parse_ocsp
from attest.endorsements.pool import Endorsements
from attest.endorsements.rims import RimDocument
from attest.endorsements.x509 import parse_certificate, parse_crl
from tests.endorsements import made
from tests.endorsements.made_ocsp import Made

ROOT = parse_certificate(made.certificate(subject=made.ROOT_NAME, key=made.ROOT_KEY))
FIRST = parse_certificate(made.certificate(serial=1))
SECOND = parse_certificate(made.certificate(serial=2))
NAMELESS = parse_certificate(made.certificate(subject=b"\x30\x00"))
LIST = parse_crl(made.crl())
OTHER_LIST = parse_crl(made.crl(revoked=(5,)))


def test_certificates_are_found_by_subject_and_by_common_name_in_the_order_of_their_bytes() -> None:
    pool = Endorsements(certificates=(SECOND, ROOT, FIRST, NAMELESS), crls=(LIST,))
    assert FIRST.der < SECOND.der
    assert pool.named(made.OTHER_NAME) == pool.with_common_name("Made Other") == (FIRST, SECOND)
    assert pool.named(made.ROOT_NAME) == (ROOT,)
    assert pool.named(b"") == pool.with_common_name("nobody") == ()
    assert pool.with_common_name("") == (NAMELESS,)


def test_what_arrives_twice_is_kept_once() -> None:
    again = parse_certificate.__wrapped__(FIRST.der)
    pool = Endorsements(certificates=(FIRST, SECOND, again), crls=(LIST, parse_crl.__wrapped__(LIST.der)))
    assert [certificate.der for certificate in pool.certificates] == [FIRST.der, SECOND.der]
    assert len(pool.crls) == 1


def test_the_order_of_arrival_makes_no_difference() -> None:
    documents = (document(b"1"), document(b"2"), document(b"1", b"s" * 64))
    rims = (RimDocument(xml=b"<SoftwareIdentity/>"), RimDocument(xml=b"<SoftwareIdentity />"))
    answers = (parse_ocsp(Made().der()), parse_ocsp(Made(status="revoked").der()))
    kinds = {
        "certificates": (FIRST, SECOND, ROOT, NAMELESS),
        "crls": (LIST, OTHER_LIST),
        "documents": documents,
        "rims": rims,
        "ocsp": answers,
    }
    for name, entries in kinds.items():
        orders = [Endorsements(**{name: order}) for order in permutations(entries)]  # type: ignore[arg-type]  # by name
        assert {len(getattr(pool, name)) for pool in orders} == {len(entries)}
        assert len({getattr(pool, name) for pool in orders}) == 1


def test_more_certificates_are_added_and_nothing_more_changes_nothing() -> None:
    pool = Endorsements(certificates=(SECOND,), crls=(LIST,))
    more = pool.with_certificates(iter([FIRST]))
    assert more.named(made.OTHER_NAME) == (FIRST, SECOND)
    assert more.crls == (LIST,)
    assert pool.with_certificates(iter([])) is pool


def test_two_pools_together_hold_what_both_hold() -> None:
    merged = Endorsements(certificates=(FIRST,), crls=(LIST,)).merged(
        Endorsements(certificates=(SECOND, FIRST), crls=(OTHER_LIST,))
    )
    assert merged.certificates == (FIRST, SECOND)
    assert set(merged.crls) == {LIST, OTHER_LIST}
    empty = Endorsements()
    assert (empty.certificates, empty.crls) == ((), ())


def document(body: bytes, signature: bytes = bytes(64)) -> IntelDocument:
    return IntelDocument(kind="tcb-info", body=body, signature=signature)


def test_documents_are_kept_once_and_travel_with_the_pool() -> None:
    one, again, other, resigned = document(b"1"), document(b"1"), document(b"2"), document(b"1", b"s" * 64)
    pool = Endorsements(certificates=(FIRST,), documents=(one, again, other))
    assert [found.body for found in pool.documents] == [b"1", b"2"]
    assert pool.with_certificates([SECOND]).documents == pool.documents
    merged = Endorsements(documents=(resigned, one)).merged(pool)
    assert sorted(found.body for found in merged.documents) == [b"1", b"1", b"2"]
    assert Endorsements().documents == ()


def test_rims_and_ocsp_answers_are_kept_once_and_travel_with_the_pool() -> None:
    rim, other = RimDocument(xml=b"<SoftwareIdentity/>"), RimDocument(xml=b"<SoftwareIdentity />")
    good, revoked = parse_ocsp(Made().der()), parse_ocsp(Made(status="revoked").der())
    pool = Endorsements(
        rims=(rim, other, RimDocument(xml=rim.xml)), ocsp=(good, revoked, parse_ocsp.__wrapped__(good.der))
    )
    assert set(pool.rims) == {rim, other}
    assert rim.sha256 != other.sha256
    assert {answer.der for answer in pool.ocsp} == {good.der, revoked.der}
    assert pool.with_certificates([FIRST]).ocsp == pool.ocsp
    merged = Endorsements(rims=(other,), ocsp=(revoked,)).merged(pool)
    assert merged.rims == pool.rims
    assert [answer.der for answer in merged.ocsp] == [answer.der for answer in pool.ocsp]
