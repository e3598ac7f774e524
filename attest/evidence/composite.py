"""Checks across the items of one Attester: the binding, the challenge, and the devices that it names.

Each judge compares presented values with required ones; none looks into the evidence of a format. A CPU report
commits to the binding, the binding lists every other device, and the evidence of each was collected under a nonce
that only this challenge gives.

Spec: DESIGN 7; must-check.md 1, 2 and 11.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from attest.checks import Check, Outcome
from attest.errors import BindingError
from attest.evidence.binding import Binding, ExpectedBinding
from attest.evidence.envelope import EvidenceItem
from attest.evidence.freshness import (
    DEVICE_NONCE_BYTES,
    REPORT_DATA_BYTES,
    Expectation,
    ExpectedFreshness,
    ExpectedRuntimeData,
    Freshness,
)
from attest.evidence.procedure import require_equal

_CLAUSES = {
    "binding.report_data": "docs/protocol.md",
    "binding.extra_data": "docs/protocol.md; TPM 2.0 Library, part 2, TPMS_ATTEST, extraData",
    "binding.devices": "docs/gpu.md",
    "binding.device_nonce": "docs/gpu.md; DMTF DSP0274, GET_MEASUREMENTS, Nonce",
    "freshness": "RFC 9334, section 10",
}
_Judged = tuple[Outcome | None, str, str]
_NOT_APPLICABLE: _Judged = (None, "", "")


class DeviceNonce(NamedTuple):
    """The request nonce in the evidence of one device.

    Attributes:
        name: of the item.
        size: the length of every nonce of such a device; None if it may have any.
    """

    name: str
    value: bytes
    size: int | None = DEVICE_NONCE_BYTES


class Presented(NamedTuple):
    """The parts of the evidence that concern it as a whole.

    Attributes:
        report_data: the CPU report's 64 bytes; None without CPU evidence.
        nonce: the field of its own in which the CPU's evidence carries the nonce, such as extraData of a TPM's quote;
            None if the nonce is in ``report_data``. Report data beside such a field does not prove freshness.
        others: every item that a binding must list: all devices but the CPU, known to this version or not.
        device_nonces: of each device beside the CPU whose format is known.
    """

    report_data: bytes | None
    binding: Binding | None
    others: tuple[EvidenceItem, ...]
    device_nonces: tuple[DeviceNonce, ...]
    nonce: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Composite:
    """The result of the composite checks.

    Attributes:
        checks: in the order of the judges; what does not apply is left out.
        devices_bound: the CPU's report commits to exactly these devices.
    """

    checks: tuple[Check, ...]
    failures: tuple[BindingError, ...]
    freshness: Freshness
    devices_bound: bool = False


def judge_composite(presented: Presented, expected: Expectation) -> Composite:
    """Compare the binding with REPORT_DATA and with the devices, and all of it with what was expected.

    Raises:
        ValueError: the expectation cannot be met by this evidence: a nonce for devices that has not 32 bytes, or
            report data of evidence that has none.
    """
    if expected is None and presented.binding is None and not presented.others:
        return _NOTHING_EXPECTED
    _require_meetable(presented, expected)
    checks: list[Check] = []
    failures: list[BindingError] = []
    outcome: Outcome | None = None
    for check_id, judge in _judges(presented, expected):
        try:
            outcome, wanted, got = judge()
        except BindingError as exc:
            exc.check, exc.clause = check_id, exc.clause or _CLAUSES[check_id]
            failures.append(exc)
            outcome, wanted, got = Outcome.FAIL, exc.expected or "", exc.got or ""
        if outcome is not None:
            checks.append(Check(id=check_id, outcome=outcome, expected=wanted, got=got, clause=_CLAUSES[check_id]))
    # The last judge is that of freshness, and its outcome is the evidence's.
    fresh = Freshness.NOT_EVALUATED if outcome is None else _FRESHNESS.get(outcome, Freshness.NOT_EVALUATED)
    bound = any(check.id == "binding.devices" and check.outcome is Outcome.PASS for check in checks)
    return Composite(checks=tuple(checks), failures=tuple(failures), freshness=fresh, devices_bound=bound)


def _judges(presented: Presented, expected: Expectation) -> tuple[tuple[str, Callable[[], _Judged]], ...]:
    if isinstance(expected, ExpectedRuntimeData):
        return (
            ("binding.report_data", lambda: _require_no_binding(presented)),
            ("binding.devices", lambda: _require_listed(presented, expected)),
            ("binding.device_nonce", lambda: _require_asked(presented, expected)),
            ("freshness", lambda: _require_runtime_data(presented, expected)),
        )
    return (
        ("binding.report_data", lambda: _require_committed(presented)),
        ("binding.extra_data", lambda: _require_quoted(presented)),
        ("binding.devices", lambda: _require_devices(presented)),
        ("binding.device_nonce", lambda: _require_device_nonces(presented)),
        ("freshness", lambda: _require_fresh(presented, expected)),
    )


_NOTHING_EXPECTED = Composite(
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
    freshness=Freshness.NOT_EVALUATED,
)
"""The result for a report alone without an expectation, made once."""
_FRESHNESS = {Outcome.PASS: Freshness.MATCHED, Outcome.FAIL: Freshness.MISMATCHED}


def _require_meetable(presented: Presented, expected: Expectation) -> None:
    """Refuse an expectation that no evidence of this kind meets: a mistake of the caller, not of the Attester."""
    if not isinstance(expected, ExpectedFreshness):
        return
    if expected.report_data is not None and presented.report_data is None:
        raise ValueError("report data is expected of evidence without a CPU report, which has none")
    if expected.nonce is None or not presented.device_nonces or presented.binding is not None:
        return
    for device in presented.device_nonces:
        if device.size not in (None, len(expected.nonce)):
            raise ValueError(
                f"the nonce of {device.name} has {device.size} bytes, expected one of {len(expected.nonce)}"
            )


def _require_committed(presented: Presented) -> _Judged:
    """Require that the CPU's report commits to the binding that came with it."""
    if presented.binding is None:
        return _NOT_APPLICABLE
    wanted = presented.binding.report_data()
    if presented.report_data is None:
        raise BindingError(
            "the evidence carries a binding and no CPU report that commits to it",
            code="binding-uncommitted",
            field="binding",
            expected=f"a CPU report with REPORT_DATA {wanted.hex()}",
            got="no CPU evidence",
        )
    problem = "REPORT_DATA does not commit to the binding"
    return _equal(wanted, presented.report_data, problem, code="binding-report-data-mismatch", field="REPORT_DATA")


def _require_quoted(presented: Presented) -> _Judged:
    """Require that evidence with a nonce field of its own commits to the binding there too.

    User data names the party that the CPU's report was made for, and the quote is a later and another one: an old quote
    of the same TPM beside fresh user data would show registers of a time long past.
    """
    if presented.binding is None or presented.nonce is None:
        return _NOT_APPLICABLE
    wanted = presented.binding.extra_data()
    problem = "extraData of the TPM's quote does not commit to the binding"
    return _equal(wanted, presented.nonce, problem, code="binding-extra-data-mismatch", field="extraData")


def _require_devices(presented: Presented) -> _Judged:
    """Require that the binding lists every other device, known to this version or not, in the order of names."""
    others = sorted(presented.others, key=lambda item: item.name)
    if presented.binding is None:
        if presented.report_data is None or not others:
            return _NOT_APPLICABLE
        return (
            Outcome.NOT_EVALUATED,
            (f"a binding that lists {len(others)} devices"),
            "no binding: nothing ties them to the CPU",
        )
    present = tuple(item.digest for item in others)
    bound = presented.binding.devices
    wanted, got = (f"{len(digests)} devices {[d.hex() for d in digests]}" for digests in (bound, present))
    if present != bound:
        raise BindingError(
            "the devices in the evidence are not those that the binding lists",
            code="binding-devices-mismatch",
            field="binding.devices",
            expected=wanted,
            got=got,
        )
    return Outcome.PASS, wanted, got


def _require_device_nonces(presented: Presented) -> _Judged:
    """Require evidence of every device under the nonce that this challenge gives, and no other."""
    if presented.binding is None or not presented.device_nonces:
        return _NOT_APPLICABLE
    wanted = presented.binding.gpu_nonce()
    for device in presented.device_nonces:
        _require_device_nonce(wanted, device)
    return Outcome.PASS, wanted.hex(), f"{len(presented.device_nonces)} devices carry it"


def _require_device_nonce(wanted: bytes, device: DeviceNonce) -> None:
    _equal(
        wanted,
        device.value,
        f"{device.name} answers another nonce than that of the challenge",
        code="device-nonce-mismatch",
        field=f"{device.name}: nonce",
        hint="collect the devices' evidence again, under the nonce derived from this challenge",
    )


def _require_fresh(presented: Presented, expected: ExpectedFreshness | ExpectedBinding | None) -> _Judged:
    """Require an answer to this challenge: by the binding, or by each report itself when there is none."""
    binding = presented.binding
    if expected is None:
        return Outcome.NOT_EVALUATED, "a nonce or report data to compare with", "none was given"
    if isinstance(expected, ExpectedBinding):
        return _require_binding(binding, expected)
    judged = _NOT_APPLICABLE
    if expected.report_data is not None and presented.report_data is not None:
        judged = _require_report_data(presented, presented.report_data, expected.report_data)
    if expected.nonce is None:
        return judged
    if binding is not None:
        return _compare("the nonce", "nonce-mismatch", expected.nonce, binding.nonce)
    return _require_nonce(presented, expected.nonce, judged)


def _require_binding(binding: Binding | None, expected: ExpectedBinding) -> _Judged:
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


def _require_report_data(presented: Presented, found: bytes, wanted: bytes) -> _Judged:
    """Require the report data; it proves nothing about devices or a TPM, which carry a nonce of their own."""
    judged = _compare("REPORT_DATA", "report-data-mismatch", wanted, found)
    if presented.binding is None and presented.device_nonces:
        return Outcome.NOT_EVALUATED, "a nonce for the devices too", "report data, which only the CPU carries"
    if presented.binding is None and presented.nonce is not None:
        return Outcome.NOT_EVALUATED, "a nonce for the TPM's quote", "user data, which may be of any age"
    return judged


def _require_nonce(presented: Presented, wanted: bytes, judged: _Judged) -> _Judged:
    """Require the nonce of each report itself, as there is no binding."""
    if presented.nonce is not None:
        judged = _compare("the nonce (extraData)", "nonce-mismatch", wanted, presented.nonce)
    elif presented.report_data is not None:
        padded = wanted.ljust(REPORT_DATA_BYTES, b"\0")
        judged = _compare("the nonce", "nonce-mismatch", padded, presented.report_data)
    for device in presented.device_nonces:
        judged = _compare(f"the nonce of {device.name}", "nonce-mismatch", wanted, device.value)
    return judged


# -- the runtime data of the KBS protocol in the place of a binding


def _require_no_binding(presented: Presented) -> _Judged:
    if presented.binding is None:
        return _NOT_APPLICABLE
    raise BindingError(
        "the evidence carries a binding, and the challenge is for runtime data",
        code="binding-unexpected",
        field="binding",
        expected="no binding",
        got="a binding",
    )


def _require_listed(presented: Presented, expected: ExpectedRuntimeData) -> _Judged:
    """Require a CPU report beside devices. Once it commits to the runtime data, it commits to their evidence."""
    if not presented.others:
        return _NOT_APPLICABLE
    if presented.report_data is None:
        raise BindingError(
            "the evidence has no CPU report that commits to the runtime data and its devices",
            code="runtime-data-uncommitted",
            field="REPORT_DATA",
            expected=f"a CPU report that carries {expected.digest.hex()}",
            got="no CPU evidence",
        )
    listed = "the runtime data, to which the CPU's report commits, lists the devices' evidence"
    try:
        _require_runtime_data(presented, expected)
    except BindingError:
        return Outcome.NOT_EVALUATED, listed, "the CPU's report commits to other data"
    return Outcome.PASS, listed, f"{len(presented.others)} devices"


def _require_asked(presented: Presented, expected: ExpectedRuntimeData) -> _Judged:
    """Require evidence of every device under the digest of the runtime data, as far as its nonce has room."""
    if not presented.device_nonces:
        return _NOT_APPLICABLE
    for device in presented.device_nonces:
        _require_device_nonce(expected.device_digest[: device.size], device)
    return Outcome.PASS, expected.device_digest.hex(), f"{len(presented.device_nonces)} devices carry it"


def _require_runtime_data(presented: Presented, expected: ExpectedRuntimeData) -> _Judged:
    """Require the digest in the CPU's report; behind a virtual TPM in its quote, and in user data that is in use."""
    wanted, found = expected.digest, presented.report_data
    if found is None:
        return Outcome.NOT_EVALUATED, wanted.hex(), "no CPU evidence"
    if presented.nonce is None:
        padded = wanted.ljust(REPORT_DATA_BYTES, b"\0")
        return _compare("REPORT_DATA", "report-data-mismatch", padded, found)
    judged = _compare("the nonce (extraData)", "nonce-mismatch", wanted, presented.nonce)
    if any(found):
        _compare("the user data", "report-data-mismatch", wanted, found[: len(wanted)])
    return judged


def _compare(field: str, code: str, wanted: bytes, got: bytes) -> _Judged:
    problem = f"{field} in the evidence is not the expected one"
    hint = "this evidence answers another challenge: an old one, or that of another Relying Party"
    return _equal(wanted, got, problem, code=code, field=field, hint=hint)


def _equal(wanted: bytes, got: bytes, problem: str, *, code: str, field: str, hint: str | None = None) -> _Judged:
    require_equal(wanted, got, problem, code=code, field=field, hint=hint)
    return Outcome.PASS, wanted.hex(), got.hex()
