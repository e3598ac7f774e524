"""The Python verifier's answer to the same question, in process."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from attest.checks import Unchecked
from attest.encoding import rfc3339
from attest.endorsements.anchors import TrustAnchors
from attest.errors import AttestError
from attest.evidence.binding import ExpectedBinding
from attest.evidence.dstack.structure import is_dstack_log
from attest.evidence.endorsement_files import read_endorsements
from attest.evidence.envelope import MEDIA_DSTACK_LOG, MEDIA_EVENT_LOG, Evidence, EvidenceItem
from attest.evidence.input_files import read_evidence
from attest.evidence.tolerances import AcceptedValue, DeviceTolerances, GpuTolerances, WaivedMeasurement
from attest.results.document import refused_document, verified_document
from attest.verification import ExpectedFreshness, verify
from tests.page.browser import Question


def answer(question: Question, files: Mapping[str, bytes]) -> dict[str, Any]:
    """Verify as ``attest verify --json --offline`` does."""
    at = rfc3339(question.at, what="at")
    unchecked = tuple(Unchecked(check=name, reason=reason) for name, reason in question.unchecked.items())
    try:
        recognised = read_evidence([(name, files[name]) for name in question.input])
        endorsements = read_endorsements([(name, files[name]) for name in question.endorsements], at=at).endorsements
        verified = verify(
            _with_log(recognised.evidence, question, files),
            endorsements=endorsements,
            anchors=TrustAnchors.vendors() if question.anchors == "vendors" else TrustAnchors.simulation(),
            at=at,
            expected=_expected(question),
            unchecked=unchecked,
            tolerances=_tolerances(question),
        )
    except AttestError as exc:
        return cast("dict[str, Any]", refused_document(exc, command="verify", at=at, unchecked=unchecked))
    return cast("dict[str, Any]", verified_document(verified))


def _tolerances(question: Question) -> DeviceTolerances:
    given: Mapping[str, Mapping[str, Any]] = question.tolerances or {}
    return DeviceTolerances(
        gpus=_tolerance(given.get("gpus", {})),
        switches=_tolerance(given.get("switches", {})),
        spls=_accepted(given.get("spls", {})),
    )


def _accepted(named: Mapping[str, str]) -> tuple[AcceptedValue, ...]:
    return tuple(AcceptedValue(value=value, reason=reason) for value, reason in named.items())


def _tolerance(given: Mapping[str, Any]) -> GpuTolerances:
    waived = given.get("waivedMeasurements", {}).items()
    return GpuTolerances(
        waived_measurements=tuple(WaivedMeasurement(index=int(index), reason=reason) for index, reason in waived),
        accepted_opaque=_accepted(given.get("acceptedOpaque", {})),
        held_rim_signers=given.get("heldRimSigners"),
    )


def _with_log(evidence: Evidence, question: Question, files: Mapping[str, bytes]) -> Evidence:
    if question.event_log is None:
        return evidence
    data = files[question.event_log]
    media_type = MEDIA_DSTACK_LOG if is_dstack_log(data) else MEDIA_EVENT_LOG
    log = EvidenceItem(name="eventlog", media_type=media_type, value=data)
    return replace(evidence, items=(*evidence.items, log))


def _expected(question: Question) -> ExpectedFreshness | ExpectedBinding | None:
    if question.binding is not None:
        stated = dict(question.binding)
        return ExpectedBinding(nonce=bytes.fromhex(stated.pop("nonce")), **stated)
    if question.nonce is None and question.report_data is None:
        return None
    nonce, report_data = (
        None if text is None else bytes.fromhex(text) for text in (question.nonce, question.report_data)
    )
    return ExpectedFreshness(nonce=nonce, report_data=report_data)


def differences(expected: Mapping[str, Any], got: Mapping[str, Any]) -> list[str]:
    """Say in what two results differ: verdict, code, freshness, checks with their outcomes, items and claims."""
    found = [
        f"{name}: expected {expected.get(name)!r}, got {got.get(name)!r}"
        for name in ("outcome", "at", "simulated", "freshness", "unchecked", "evidence_digest", "ignored_items")
        if expected.get(name) != got.get(name)
    ]
    warnings = [[one["message"] for one in result.get("warnings", [])] for result in (expected, got)]
    if warnings[0] != warnings[1]:
        found.append(f"warnings: expected {warnings[0]}, got {warnings[1]}")
    refusal, other = _refusal(expected), _refusal(got)
    if refusal.get("code") != other.get("code"):
        found.append(f"error: expected {refusal.get('code')}, got {other.get('code')} ({other.get('message')})")
    checks, others = ([_told(check) for check in result["checks"]] for result in (expected, got))
    if checks != others:
        odd = [c for c in checks if c not in others], [c for c in others if c not in checks]
        found.append(f"checks: missing {odd[0]}, not expected {odd[1]}" if any(odd) else "checks: in another order")
    items = [{name: value for name, value in item.items() if name != "chain"} for item in expected["items"]]
    return found + _claims(items, got["items"], "items") + _chains(expected["items"], got.get("certificates", ()))


def _chains(items: Sequence[Mapping[str, Any]], certificates: Sequence[Mapping[str, Any]]) -> list[str]:
    """Compare the chains of proof: the page lists certificates from the key of the machine up to the pinned root."""
    found: list[str] = []
    for item in items:
        listed = [one for one in reversed(certificates) if one["item"] == item["name"]]
        if not listed:
            continue
        root, *others = item["chain"]
        wanted = [link["name"] for link in others]
        below = [one["subject"] for one in listed if not one["pinned"]]
        if wanted[: len(below)] != below:
            found.append(f"chain of {item['name']}: expected {wanted}, got {below}")
        if [one["key_sha256"] in root["detail"] for one in listed if one["pinned"]] != [True]:
            found.append(f"chain of {item['name']}: another root than {root}")
    return found


def _told(check: Mapping[str, Any]) -> tuple[Any, ...]:
    """What both must tell of a check alike: the clause too, where a procedure and no reader of bytes made it."""
    clause = check["clause"] if "item" in check else None
    return check.get("item"), check["id"], check["outcome"], check["tier"], clause


def _refusal(result: Mapping[str, Any]) -> Mapping[str, Any]:
    error: Mapping[str, Any] | None = result["error"]
    return error or {}


def _claims(expected: object, got: object, path: str) -> list[str]:
    """Compare claims, order of members included; an integer beyond what a number holds is text in the page."""
    if isinstance(expected, dict) and isinstance(got, dict):
        wanted, other = cast("dict[str, object]", expected), cast("dict[str, object]", got)
        if set(wanted) != set(other):
            return [f"{path}: members {sorted(set(wanted) ^ set(other))} on one side only"]
        return [text for name, value in wanted.items() for text in _claims(value, other[name], f"{path}.{name}")]
    if isinstance(expected, list) and isinstance(got, list):
        pairs = list(zip(cast("list[object]", expected), cast("list[object]", got), strict=False))
        if len(cast("list[object]", expected)) != len(cast("list[object]", got)):
            return [f"{path}: expected {len(pairs)} entries"]
        return [text for number, (a, b) in enumerate(pairs) for text in _claims(a, b, f"{path}[{number}]")]
    if isinstance(expected, int) and not isinstance(expected, bool) and abs(expected) > 2**53:
        expected = str(expected)
    same = expected == got and isinstance(expected, bool) == isinstance(got, bool)
    return [] if same else [f"{path}: expected {expected!r}, got {got!r}"]
