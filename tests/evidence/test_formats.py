"""A format of its own folder: what it has to state, and that nothing else needs to know it."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha384
from typing import Any, NamedTuple

import pytest

from attest.checks import Check, Outcome, Unchecked
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import NO_ENDORSEMENTS, Endorsements
from attest.errors import BindingError, EvidenceError, UnsupportedError
from attest.evidence.claims import Claim, ClaimType, Origin
from attest.evidence.device_format import CpuFormat, FormatTable, MediaFormat
from attest.evidence.envelope import Evidence, EvidenceItem
from attest.evidence.procedure import Findings, Procedure, Step
from attest.evidence.registry import FORMATS
from attest.verification import ExpectedFreshness, Freshness, VerifiedEvidence, verify

MEDIA_TINY = "application/vnd.example.tiny"
AT = datetime(2026, 7, 1, tzinfo=UTC)
NONCE = bytes(range(32))


# -- structure.py: report data, measurement, and the digest of both for a signature


@dataclass(frozen=True, slots=True)
class ParsedTiny:
    report_data: bytes
    measurement: bytes
    digest: bytes


def parse_tiny(data: bytes) -> ParsedTiny:
    if len(data) != 64 + 48 + 48:
        raise EvidenceError("not a tiny report", code="tiny-length", expected="160 bytes", got=str(len(data)))
    return ParsedTiny(data[:64], data[64:112], data[112:])


# -- verify.py: the clause list, and the procedure beside it


class TinySteps(NamedTuple):
    format: Step = Step("tiny.format", "tiny 1")
    digest: Step = Step("tiny.digest", "tiny 2")


STEPS = TinySteps()


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedTiny:
    report: ParsedTiny
    findings: Findings = field(repr=False)

    @property
    def simulated(self) -> bool:
        return True

    @property
    def checks(self) -> tuple[Check, ...]:
        return self.findings.checks


def verify_tiny(
    report: ParsedTiny,
    /,
    *,
    endorsements: Endorsements,
    anchors: TrustAnchors,
    at: datetime,
    unchecked: tuple[Unchecked, ...],
) -> VerifiedTiny:
    procedure = Procedure(STEPS)
    procedure.parsed(STEPS.format, "160 bytes", "160 bytes")
    with procedure.step(STEPS.digest):
        digest = sha384(report.report_data + report.measurement).digest()
        if digest != report.digest:
            raise BindingError("another digest", code="tiny-digest", expected=digest.hex(), got=report.digest.hex())
        procedure.record(digest, report.digest)
    return VerifiedTiny(report=report, findings=procedure.finish())


# -- claims.py and format.py


def measurement_of(verified: Any) -> bytes:  # noqa: ANN401  what verify_tiny returned
    measurement: bytes = verified.report.measurement
    return measurement


CLAIMS = (Claim(name="measurement", type=ClaimType.BYTES, origin=Origin.HARDWARE, clause="tiny 3", get=measurement_of),)
TINY = CpuFormat(kind="tiny", report_data=lambda parsed: parsed.report_data, verify=verify_tiny, claims=CLAIMS)
TINY_FORMATS = FormatTable(kinds=(TINY,), cpus={MEDIA_TINY: MediaFormat(parse=parse_tiny, kind_of=lambda _: TINY)})


def tiny_report(nonce: bytes = NONCE, *, flip: int = 0) -> bytes:
    signed = nonce.ljust(64, b"\0") + bytes(48)
    digest = bytearray(sha384(signed).digest())
    digest[0] ^= flip
    return signed + bytes(digest)


def judge(value: bytes, formats: FormatTable) -> VerifiedEvidence:
    return verify(
        Evidence(items=(EvidenceItem(name="cpu", media_type=MEDIA_TINY, value=value),)),
        endorsements=NO_ENDORSEMENTS,
        anchors=TrustAnchors.vendors(),
        at=AT,
        expected=ExpectedFreshness(nonce=NONCE),
        formats=formats,
    )


def test_a_format_that_states_its_rows_is_verified_like_any_other() -> None:
    verified = judge(tiny_report(), FORMATS.merged(TINY_FORMATS))
    (item,) = verified.items
    assert (item.kind, item.silicon, verified.freshness) == ("tiny", item.verified, Freshness.MATCHED)
    assert item.claims == {"measurement": bytes(48).hex()}
    assert [(check.id, check.outcome) for check in verified.checks] == [
        ("freshness", Outcome.PASS),
        ("tiny.format", Outcome.PASS),
        ("tiny.digest", Outcome.PASS),
    ]


def test_its_refusal_carries_its_checks() -> None:
    with pytest.raises(BindingError) as refused:
        judge(tiny_report(flip=1), FORMATS.merged(TINY_FORMATS))
    assert (refused.value.code, refused.value.check, refused.value.clause) == ("tiny-digest", "tiny.digest", "tiny 2")
    assert {check.id: check.outcome for check in refused.value.checks if check.item == "cpu"} == {
        "tiny.format": Outcome.PASS,
        "tiny.digest": Outcome.FAIL,
    }


def test_a_format_that_is_in_no_table_is_not_verified() -> None:
    with pytest.raises(UnsupportedError) as refused:
        judge(tiny_report(), FORMATS)
    assert refused.value.code == "evidence-unsupported"


def test_no_two_formats_read_one_media_type() -> None:
    with pytest.raises(ValueError, match=MEDIA_TINY):
        FORMATS.merged(TINY_FORMATS, TINY_FORMATS)


def test_every_kind_has_a_name_of_its_own() -> None:
    kinds = [form.kind for form in FORMATS.kinds]
    assert kinds == [
        "sev-snp",
        "tdx",
        "sgx",
        "azure-snp",
        "azure-tdx",
        "nvidia-gpu",
        "nvidia-switch",
        "sample",
        "sample-device",
    ]
