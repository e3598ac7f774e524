"""Trustee's sample evidence: its form, its one condition, and what it states."""

import base64
import json
from contextlib import suppress
from datetime import UTC, datetime

import pytest

from attest.checks import Outcome, Unchecked
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import NO_ENDORSEMENTS
from attest.errors import AttestError, BindingError, EvidenceError, VerificationError
from attest.evidence.binding import Binding, ExpectedBinding
from attest.evidence.envelope import MEDIA_BINDING, MEDIA_SAMPLE, MEDIA_SAMPLE_DEVICE, Evidence, EvidenceItem
from attest.evidence.input_files import read_evidence
from attest.evidence.sample.structure import parse_sample
from attest.verification import ExpectedFreshness, Freshness, VerifiedEvidence, verify

AT = datetime(2026, 11, 1, tzinfo=UTC)
NONCE = bytes(range(48))
BOTH = TrustAnchors.vendors().with_anchors(TrustAnchors.simulation().anchors)


def sample(report_data: bytes | None = NONCE, **members: object) -> bytes:
    """Sample evidence as Trustee's attester writes it."""
    stated = {} if report_data is None else {"report_data": base64.b64encode(report_data).decode()}
    return json.dumps({"svn": "1", **stated, **members}).encode()


def cpu(value: bytes) -> EvidenceItem:
    return EvidenceItem(name="cpu", media_type=MEDIA_SAMPLE, value=value)


def device(value: bytes, name: str = "sampledevice0") -> EvidenceItem:
    return EvidenceItem(name=name, media_type=MEDIA_SAMPLE_DEVICE, value=value)


def run(
    *items: EvidenceItem,
    expected: ExpectedFreshness | ExpectedBinding | None = None,
    anchors: TrustAnchors = BOTH,
    unchecked: tuple[Unchecked, ...] = (),
) -> VerifiedEvidence:
    return verify(
        Evidence(items=items),
        endorsements=NO_ENDORSEMENTS,
        anchors=anchors,
        at=AT,
        expected=expected,
        unchecked=unchecked,
    )


def refused(
    *items: EvidenceItem, expected: ExpectedFreshness | None = None, anchors: TrustAnchors = BOTH
) -> AttestError:
    with pytest.raises(AttestError) as caught:
        run(*items, expected=expected, anchors=anchors)
    return caught.value


def test_sample_evidence_is_accepted_beside_the_simulators_roots_and_marked_as_simulated() -> None:
    verified = run(cpu(sample()), expected=ExpectedFreshness(nonce=NONCE))
    (item,) = verified.items
    assert (item.kind, item.chain, verified.freshness, verified.simulated) == ("sample", (), Freshness.MATCHED, True)
    assert [(check.id, check.outcome) for check in verified.checks] == [
        ("freshness", Outcome.PASS),
        ("sample.format", Outcome.PASS),
        ("sample.accepted", Outcome.PASS),
    ]
    assert item.claims == {
        "svn": "1",
        "report_data": NONCE.hex(),
        "launch_digest": "abcde",
        "platform_version": {"major": 1, "minor": 4},
        "debug": False,
    }


@pytest.mark.parametrize("item", [cpu(sample()), device(sample())], ids=["cpu", "device"])
@pytest.mark.parametrize(
    "anchors", [TrustAnchors.vendors(), TrustAnchors(anchors=())], ids=["vendors' roots", "no roots"]
)
def test_sample_evidence_is_refused_where_simulated_evidence_is(item: EvidenceItem, anchors: TrustAnchors) -> None:
    error = refused(item, anchors=anchors)
    assert isinstance(error, VerificationError)
    assert (error.code, error.check) == ("sample-refused", "sample.accepted")
    assert error.message == "sample evidence proves nothing about a machine and is refused"
    outcomes = {check.id: check.outcome for check in error.checks if check.item == item.name}
    assert outcomes == {"sample.format": Outcome.PASS, "sample.accepted": Outcome.FAIL}


def test_no_relaxation_lets_sample_evidence_pass() -> None:
    for name in Unchecked.NAMES:
        with pytest.raises(VerificationError) as caught:
            run(
                cpu(sample()),
                anchors=TrustAnchors.vendors(),
                unchecked=(Unchecked(check=name, reason="a try"),),
            )
        assert caught.value.code == "sample-refused"


def test_report_data_is_compared_with_zeros_up_to_64_bytes() -> None:
    padded = NONCE.ljust(64, b"\0")
    assert run(cpu(sample()), expected=ExpectedFreshness(report_data=padded)).freshness is Freshness.MATCHED
    assert run(cpu(sample(padded)), expected=ExpectedFreshness(nonce=NONCE)).freshness is Freshness.MATCHED
    flipped = NONCE[:-1] + bytes([NONCE[-1] ^ 1])
    assert refused(cpu(sample(flipped)), expected=ExpectedFreshness(nonce=NONCE)).code == "nonce-mismatch"


@pytest.mark.parametrize("value", [sample(None), sample(b"")], ids=["absent", "empty"])
def test_missing_report_data_matches_no_expectation_not_even_zeros(value: bytes) -> None:
    for expected in (
        ExpectedFreshness(report_data=bytes(64)),
        ExpectedFreshness(nonce=bytes(32)),
        ExpectedFreshness(nonce=b"\0"),
    ):
        assert isinstance(refused(cpu(value), expected=expected), BindingError)
    assert refused(device(value), expected=ExpectedFreshness(nonce=b"\0")).code == "nonce-mismatch"
    assert parse_sample(value).report_data == b""


@pytest.mark.parametrize("length", [1, 32, 48, 64])
def test_a_sample_device_answers_a_nonce_of_any_length_whole(length: int) -> None:
    nonce = bytes(range(1, length + 1))
    verified = run(device(sample(nonce)), expected=ExpectedFreshness(nonce=nonce))
    assert (verified.freshness, verified.items[0].kind) == (Freshness.MATCHED, "sample-device")
    assert verified.items[0].claims == {"svn": "1", "report_data": nonce.hex()}
    for other in (nonce[:-1], nonce[:-1] + bytes([nonce[-1] ^ 1]), (nonce + b"\0")[-64:]):
        error = refused(device(sample(other)), expected=ExpectedFreshness(nonce=nonce))
        assert error.code == "nonce-mismatch"


def test_a_binding_ties_sample_devices_to_sample_evidence() -> None:
    asked = Binding(context="kms-release/v1", role="workload", audience="kms", nonce=NONCE[:32], key=b"key")
    other = device(sample(asked.gpu_nonce()))
    bound = Binding(
        context="kms-release/v1",
        role="workload",
        audience="kms",
        nonce=NONCE[:32],
        key=b"key",
        devices=(other.digest,),
    )
    item = EvidenceItem(name="binding", media_type=MEDIA_BINDING, value=bound.to_bytes())
    expected = ExpectedBinding(context="kms-release/v1", role="workload", audience="kms", nonce=NONCE[:32])
    verified = run(cpu(sample(bound.report_data())), other, item, expected=expected)
    assert verified.devices_bound
    assert [one.kind for one in verified.items] == ["sample", "sample-device"]


@pytest.mark.parametrize(
    ("value", "code", "field"),
    [
        (b"[]", "sample-malformed", "sample"),
        (b"{", "json-invalid", None),
        (sample(more=1), "sample-malformed", "sample.'more'"),
        (b'{"report_data": ""}', "sample-malformed", "sample.svn"),
        (b'{"svn": 1, "report_data": ""}', "sample-malformed", "sample.svn"),
        (b'{"svn": "", "report_data": ""}', "sample-malformed", "sample.svn"),
        (json.dumps({"svn": "1" * 65}).encode(), "sample-malformed", "sample.svn"),
        (b'{"svn": "\\u0000"}', "sample-malformed", "sample.svn"),
        (b'{"svn": "1", "report_data": null}', "sample-malformed", "sample.report_data"),
        (b'{"svn": "1", "report_data": 7}', "sample-malformed", "sample.report_data"),
        (b'{"svn": "1", "report_data": "x"}', "base64-invalid", None),
        (sample(bytes(65)), "sample-malformed", "sample.report_data"),
        (b'{"svn": "1", "svn": "1"}', "json-invalid", None),
    ],
)
def test_anything_else_is_malformed(value: bytes, code: str, field: str | None) -> None:
    for item in (cpu(value), device(value)):
        error = refused(item)
        assert isinstance(error, EvidenceError)
        assert error.code == code
        if field is not None:
            assert error.field == field


def test_the_longest_members_are_read() -> None:
    parsed = parse_sample(sample(bytes(64), svn="1" * 64))
    assert (len(parsed.svn), len(parsed.report_data)) == (64, 64)


def test_a_file_of_sample_evidence_is_recognised_as_a_cpus() -> None:
    recognised = read_evidence([("sample.json", sample())])
    assert recognised.evidence.items == (cpu(sample()),)


def test_every_flipped_bit_of_the_evidence_is_another_version_or_refused() -> None:
    """The version alone is bound by nothing: sample evidence has no signature."""
    honest = sample()
    for position in range(8 * len(honest)):
        changed = bytearray(honest)
        changed[position // 8] ^= 1 << position % 8
        with suppress(AttestError):
            verified = run(cpu(bytes(changed)), expected=ExpectedFreshness(nonce=NONCE))
            assert verified.items[0].claims["svn"] != "1"
