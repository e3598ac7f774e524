"""Is this evidence genuine? One call over all evidence of one Attester.

``verify`` reads every item, verifies each by the procedure of its format, and checks what holds them together: the
binding, and freshness. It fetches nothing, reads no clock and changes none of its arguments.
"""

from __future__ import annotations

import enum
import hmac
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from attest.checks import Check, Outcome, Unchecked
from attest.encoding import JsonValue
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import NO_ENDORSEMENTS, Endorsements
from attest.errors import AttestError, BindingError, EvidenceError, UnsupportedError, VerificationError
from attest.evidence.binding import Binding, ExpectedBinding, parse_binding
from attest.evidence.claims import claims_document
from attest.evidence.endorsement_files import read_endorsements
from attest.evidence.envelope import MEDIA_BINDING, MEDIA_ENDORSEMENTS, MEDIA_EVENT_LOG, Evidence, EvidenceItem
from attest.evidence.eventlog.facts import facts_document, facts_of
from attest.evidence.eventlog.replay import VerifiedEventLog, verify_event_log
from attest.evidence.eventlog.structure import ParsedEventLog, parse_event_log
from attest.evidence.formats import FORMATS, KINDS, DeviceFormat, MediaFormat, VerifiedDevice

__all__ = ["ExpectedFreshness", "Freshness", "VerifiedEvidence", "VerifiedItem", "verify"]

_REPORT_DATA_BYTES = 64


class Freshness(enum.StrEnum):
    """Whether the evidence carries what the Relying Party asked for."""

    MATCHED = "matched"
    MISMATCHED = "mismatched"
    NOT_EVALUATED = "not evaluated"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedFreshness:
    """What the evidence must carry to be an answer to this question and no other.

    Attributes:
        nonce: 1 to 64 bytes. With a binding: the binding's nonce. Without: REPORT_DATA, left-aligned, rest zero.
        report_data: all 64 bytes of REPORT_DATA.

    Raises:
        ValueError: neither is given, a length is wrong, or the two contradict each other.
    """

    nonce: bytes | None = None
    report_data: bytes | None = None

    def __post_init__(self) -> None:
        """Refuse an expectation that cannot be met."""
        if self.nonce is None and self.report_data is None:
            msg = "expected a nonce, report data, or both"
            raise ValueError(msg)
        if self.nonce is not None and not 0 < len(self.nonce) <= _REPORT_DATA_BYTES:
            msg = f"a nonce has 1 to {_REPORT_DATA_BYTES} bytes, got {len(self.nonce)}"
            raise ValueError(msg)
        if self.report_data is not None and len(self.report_data) != _REPORT_DATA_BYTES:
            msg = f"report data has {_REPORT_DATA_BYTES} bytes, got {len(self.report_data)}"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedItem:
    """One device whose evidence is genuine.

    Attributes:
        name: its name in the evidence (``cpu``).
        format: the row of its format.
        verified: what the procedure of its format returned.
        eventlog: the log that replays to its registers, if one came along.
    """

    name: str
    format: DeviceFormat
    verified: VerifiedDevice
    eventlog: VerifiedEventLog | None = None

    @property
    def kind(self) -> str:
        """The format's name in results (``sev-snp``)."""
        return self.format.kind

    @property
    def claims(self) -> dict[str, JsonValue]:
        """Everything that the evidence states, by the vendors' names; built on each access."""
        claims = claims_document(self.format.claims, self.verified)
        if self.eventlog is not None:
            claims["eventlog"] = facts_document(facts_of(self.eventlog))
        return claims


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedEvidence:
    """Evidence that is genuine, as a whole. Built by ``verify`` only. Whether it is acceptable is for a policy.

    Attributes:
        evidence: what was verified.
        items: the devices.
        binding: what the CPU's report commits to, if the evidence carries a binding.
        freshness: ``MATCHED`` or ``NOT_EVALUATED``; a mismatch is never verified.
        at: the moment for which all this holds.
        unchecked: every relaxation that was asked for.
        composite_checks: what holds the items together.
    """

    evidence: Evidence
    items: tuple[VerifiedItem, ...]
    binding: Binding | None
    freshness: Freshness
    at: datetime
    unchecked: tuple[Unchecked, ...]
    composite_checks: tuple[Check, ...]

    @property
    def simulated(self) -> bool:
        """Whether any part rests on the simulator's roots."""
        return any(item.verified.simulated for item in self.items)

    @property
    def ignored(self) -> tuple[str, ...]:
        """Names of items of unknown kinds; nothing was concluded from them, though a binding still lists them."""
        known = {item.name for item in self.items}
        own = (MEDIA_BINDING, MEDIA_ENDORSEMENTS, MEDIA_EVENT_LOG)
        return tuple(i.name for i in self.evidence.items if i.name not in known and i.essence not in own)

    @property
    def checks(self) -> tuple[Check, ...]:
        """Every check that was made, composite ones first."""
        per_item = (replace(check, item=item.name) for item in self.items for check in item.verified.checks)
        return (*self.composite_checks, *per_item)


def verify(
    evidence: Evidence,
    *,
    endorsements: Endorsements,
    anchors: TrustAnchors,
    at: datetime,
    expected: ExpectedFreshness | ExpectedBinding | None = None,
    unchecked: tuple[Unchecked, ...] = (),
) -> VerifiedEvidence:
    """Verify all evidence of one Attester.

    Args:
        evidence: what the Attester presented; not trusted.
        endorsements: what vendors say, from files, caches or services; not trusted.
        anchors: root keys that the Verifier Owner accepts.
        at: moment of appraisal, aware.
        expected: what makes the evidence fresh: a nonce or report data, or a whole binding. None leaves freshness
            not evaluated, which appraisal refuses.
        unchecked: named relaxations, each with its reason.

    Raises:
        EvidenceError: an item is malformed, or no item is of a kind that this version verifies.
        VerificationError: an item does not hold, or the items do not hold together.
        EndorsementError: something a vendor says is missing or stale.
        ValueError: ``at`` has no time zone.

        Where several apply, malformed comes before does-not-hold before endorsements; the error carries all checks.
    """
    if at.tzinfo is None:
        msg = "the moment of appraisal needs a time zone"
        raise ValueError(msg)
    # (1) Read everything before anything is judged.
    cpu, media = _find_cpu(evidence)
    parsed = media.parse(cpu.value)
    form = media.kind_of(parsed)
    log = _read_log(evidence, form)
    binding = _read_binding(evidence)
    pool = _with_presented(endorsements, evidence, at)
    # (2) Judge what holds the items together, then the items; one refusal does not hide another.
    composite = _judge_composite(form.report_data(parsed), binding, evidence, cpu, expected)
    failures: list[AttestError] = list(composite.failures)
    checks = list(composite.checks)
    verified: VerifiedDevice | None = None
    try:
        verified = form.verify(parsed, endorsements=pool, anchors=anchors, at=at, unchecked=unchecked)
    except AttestError as exc:
        failures.append(exc)
        checks += [replace(check, item=cpu.name) for check in exc.checks]
    verified_log = _judge_log(log, form, parsed, checks, failures)
    # (3) The refusal that comes first in the order of exit codes speaks for all and carries every check.
    if failures or verified is None:
        if verified is not None:
            checks += [replace(check, item=cpu.name) for check in verified.checks]
        worst = min(failures, key=lambda failure: failure.exit_code)
        worst.checks = tuple(checks)
        raise worst
    return VerifiedEvidence(
        evidence=evidence,
        items=(VerifiedItem(name=cpu.name, format=form, verified=verified, eventlog=verified_log),),
        binding=binding,
        freshness=Freshness.NOT_EVALUATED if expected is None else Freshness.MATCHED,
        at=at,
        unchecked=unchecked,
        composite_checks=composite.checks if log is None else tuple(c for c in checks if c.item is None),
    )


# -- (1) reading


def _find_cpu(evidence: Evidence) -> tuple[EvidenceItem, MediaFormat]:
    """Find the one item that is the CPU's: none proves nothing, and two could be read as either."""
    known = [item for item in evidence.items if item.essence in FORMATS]
    if not known:
        types = ", ".join(f"{item.name}: {item.media_type}" for item in evidence.items)
        raise UnsupportedError(
            f"no item is CPU evidence that this version verifies ({types})",
            code="evidence-unsupported",
            expected=f"one of {', '.join(form.kind for form in KINDS)}",
            got=types,
        )
    if len(known) > 1:
        names = ", ".join(item.name for item in known)
        raise EvidenceError(
            f"several items are CPU evidence: {names}", code="evidence-ambiguous", expected="one", got=names
        )
    return known[0], FORMATS[known[0].essence]


def _read_log(evidence: Evidence, form: DeviceFormat) -> ParsedEventLog | None:
    """Read the event log that came along; beside a device without registers it could prove nothing."""
    found = [item for item in evidence.items if item.essence == MEDIA_EVENT_LOG]
    if not found:
        return None
    if len(found) > 1:
        raise EvidenceError("the evidence carries two event logs", code="evidence-ambiguous", field="eventlog")
    if form.registers is None:
        raise UnsupportedError(
            f"an event log came along, and {form.kind} has no registers that it could replay to",
            code="eventlog-without-registers",
            field="eventlog",
            expected="evidence with runtime measurement registers",
            got=form.kind,
        )
    return parse_event_log(found[0].value)


def _read_binding(evidence: Evidence) -> Binding | None:
    found = [item for item in evidence.items if item.essence == MEDIA_BINDING]
    if len(found) > 1:
        raise EvidenceError("the evidence carries two bindings", code="evidence-ambiguous", field="binding")
    return parse_binding(found[0].value) if found else None


def _with_presented(endorsements: Endorsements, evidence: Evidence, at: datetime) -> Endorsements:
    """Add the endorsements that came with the evidence; like all others they are only candidates."""
    presented = evidence.presented
    for item in evidence.items:
        if item.essence == MEDIA_ENDORSEMENTS:
            presented = presented.merged(read_endorsements([(item.name, item.value)], at=at).endorsements)
    return endorsements if presented == NO_ENDORSEMENTS else presented.merged(endorsements)


# -- (2) what holds the items together


def _judge_log(
    log: ParsedEventLog | None,
    form: DeviceFormat,
    parsed: object,
    checks: list[Check],
    failures: list[AttestError],
) -> VerifiedEventLog | None:
    """Require that the log replays to the registers and that its data is what was measured; add the check."""
    if log is None or form.registers is None:
        return None
    expected, verified = "the registers of the evidence, and data that was measured", None
    outcome, got = Outcome.PASS, f"{len(log.events)} events replay"
    try:
        verified = verify_event_log(log, rtmrs=form.registers(parsed))
    except VerificationError as exc:
        exc.check = "eventlog.replay"
        failures.append(exc)
        outcome, expected, got = Outcome.FAIL, exc.expected or expected, exc.got or exc.message
    checks.append(
        Check(id="eventlog.replay", outcome=outcome, expected=expected, got=got, clause="intel-tdx-sgx.md 19, T13")
    )
    return verified


@dataclass(frozen=True, slots=True, kw_only=True)
class _Composite:
    checks: tuple[Check, ...]
    failures: tuple[BindingError, ...]


def _judge_composite(
    report_data: bytes,
    binding: Binding | None,
    evidence: Evidence,
    cpu: EvidenceItem,
    expected: ExpectedFreshness | ExpectedBinding | None,
) -> _Composite:
    """Compare the binding with REPORT_DATA and with the devices, and either with what was expected."""
    if binding is None and expected is None:
        return _NOTHING_EXPECTED
    checks: list[Check] = []
    failures: list[BindingError] = []
    judges: tuple[tuple[str, Callable[[], _Judged]], ...] = (
        ("binding.report_data", lambda: _require_committed(binding, report_data)),
        ("binding.devices", lambda: _require_devices(binding, evidence, cpu)),
        ("freshness", lambda: _require_fresh(binding, report_data, expected)),
    )
    for check_id, judge in judges:
        try:
            outcome, wanted, got = judge()
        except BindingError as exc:
            exc.check = check_id
            failures.append(exc)
            outcome, wanted, got = Outcome.FAIL, exc.expected or "", exc.got or ""
        if outcome is not None:
            checks.append(Check(id=check_id, outcome=outcome, expected=wanted, got=got, clause=_CLAUSES[check_id]))
    return _Composite(checks=tuple(checks), failures=tuple(failures))


_CLAUSES = {
    "binding.report_data": "DESIGN 7, REPORT_DATA",
    "binding.devices": "DESIGN 7, devices",
    "freshness": "RFC 9334, section 10; must-check.md 1",
}
_NOTHING_EXPECTED = _Composite(
    checks=(
        Check(
            id="freshness",
            outcome=Outcome.NOT_EVALUATED,
            expected="a nonce or report data to compare with",
            got="none was given",
            clause=_CLAUSES["freshness"],
        ),
    ),
    failures=(),
)
_Judged = tuple[Outcome | None, str, str]
_NOT_APPLICABLE: _Judged = (None, "", "")


def _require_committed(binding: Binding | None, report_data: bytes) -> _Judged:
    """Require that the CPU's report commits to the binding that came with it."""
    if binding is None:
        return _NOT_APPLICABLE
    wanted = binding.report_data()
    if not hmac.compare_digest(wanted, report_data):
        raise BindingError(
            "REPORT_DATA does not commit to the binding",
            code="binding-report-data-mismatch",
            field="REPORT_DATA",
            expected=wanted.hex(),
            got=report_data.hex(),
            clause=_CLAUSES["binding.report_data"],
        )
    return Outcome.PASS, wanted.hex(), report_data.hex()


def _require_devices(binding: Binding | None, evidence: Evidence, cpu: EvidenceItem) -> _Judged:
    """Require that the binding lists every other device, known to this version or not, in the order of names."""
    if binding is None:
        return _NOT_APPLICABLE
    others = sorted((item for item in evidence.items if _is_device(item, cpu)), key=lambda item: item.name)
    present = tuple(item.digest for item in others)
    wanted, got = (f"{len(digests)} devices {[d.hex() for d in digests]}" for digests in (binding.devices, present))
    if present != binding.devices:
        raise BindingError(
            "the devices in the evidence are not those that the binding lists",
            code="binding-devices-mismatch",
            field="binding.devices",
            expected=wanted,
            got=got,
            clause=_CLAUSES["binding.devices"],
        )
    return Outcome.PASS, wanted, got


def _is_device(item: EvidenceItem, cpu: EvidenceItem) -> bool:
    return item is not cpu and item.essence not in (MEDIA_BINDING, MEDIA_ENDORSEMENTS, MEDIA_EVENT_LOG)


def _require_fresh(
    binding: Binding | None, report_data: bytes, expected: ExpectedFreshness | ExpectedBinding | None
) -> _Judged:
    """Require an answer to this very question: by the binding, or by REPORT_DATA when there is none."""
    if expected is None:
        return Outcome.NOT_EVALUATED, "a nonce or report data to compare with", "none was given"
    if isinstance(expected, ExpectedBinding):
        if binding is None:
            raise BindingError(
                "the evidence carries no binding",
                code="binding-missing",
                field="binding",
                expected=f"a binding for {expected.context}",
                got="none",
            )
        expected.require(binding)
        return Outcome.PASS, expected.nonce.hex(), binding.nonce.hex()
    told = _NOT_APPLICABLE
    if expected.report_data is not None:
        told = _compare("REPORT_DATA", "report-data-mismatch", expected.report_data, report_data)
    if expected.nonce is not None:
        carried = report_data if binding is None else binding.nonce
        wanted = expected.nonce if binding is not None else expected.nonce.ljust(_REPORT_DATA_BYTES, b"\0")
        told = _compare("the nonce", "nonce-mismatch", wanted, carried)
    return told


def _compare(what: str, code: str, wanted: bytes, got: bytes) -> _Judged:
    if not hmac.compare_digest(wanted, got):
        raise BindingError(
            f"{what} in the evidence is not the expected one",
            code=code,
            field=what,
            expected=wanted.hex(),
            got=got.hex(),
            hint="this evidence answers another question: an old one, or somebody else's",
        )
    return Outcome.PASS, wanted.hex(), got.hex()
