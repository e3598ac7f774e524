"""Results of NVIDIA's own functions, and their comparison with ours.

They are an opinion only: revocation is not checked (their code does that in the middle of verification, over the
network), the certificates' time is given, and RIMs are assigned to their two slots here,
by version, since their functions accept any.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from attest.checks import Check, Outcome
from attest.encoding import JsonValue, rfc3339_text
from attest.endorsements.rims import RimDocument
from attest.endorsements.x509 import Certificate
from attest.evidence.gpu.certificates import DeviceKind
from attest.evidence.gpu.evidence import ParsedGpuEvidence
from attest.evidence.gpu.measurements import MeasurementSource
from attest.evidence.gpu.rim import ParsedRim
from attest.nvsdk.environment import NvsdkEnvironment, find_environment, installation_folder
from attest.nvsdk.protocol import SdkAnswer, examine, offers, readable_rims

SECOND_OPINION_SCHEMA = "attest.second-opinion/1"
_DEVICE_STEPS = ("parsed", "chain", "signature", "nonce")
_RIM_STEPS = ("schema", "version", "chain", "signature")
_ROLES: Mapping[DeviceKind, tuple[MeasurementSource, ...]] = {
    "nvidia-gpu": ("driver", "vbios"),
    "nvidia-switch": ("vbios",),
}
_OUTCOMES = {
    "pass": Outcome.PASS,
    "fail": Outcome.FAIL,
    "raised": Outcome.FAIL,
    "not run": Outcome.NOT_EVALUATED,
}

Conclusion: TypeAlias = Literal["accepts", "refuses", "undecided"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Result of one of their steps.

    Attributes:
        name: ``parsed``, ``chain``, ``signature``, ``nonce``, ``driver_rim.chain``, ``measurements`` and the like.
        outcome: as in our checks, for comparison.
        detail: their error or report, for people.
    """

    name: str
    outcome: Outcome
    detail: str


_REVOCATION = Finding(
    name="revocation",
    outcome=Outcome.NOT_EVALUATED,
    detail="asked over the network by their code, and not asked here",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOpinion:
    """Results for one device.

    Attributes:
        mismatches: index and source (``Driver``, ``Firmware``) of differing measurements, as reported.
        compared: number of compared reference values; None without a comparison.
    """

    name: str
    kind: DeviceKind
    findings: tuple[Finding, ...]
    mismatches: tuple[tuple[int, str], ...] = ()
    compared: int | None = None

    @property
    def conclusion(self) -> Conclusion:
        """``refuses`` if any step failed; ``undecided`` if one lacked input. Revocation does not count."""
        outcomes = {finding.outcome for finding in self.findings if finding.name != "revocation"}
        if Outcome.FAIL in outcomes:
            return "refuses"
        return "undecided" if Outcome.NOT_EVALUATED in outcomes else "accepts"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondOpinion:
    """Results of NVIDIA's Python SDK for a set of devices.

    Attributes:
        versions: of Python and NVIDIA's packages.
        at: moment for their certificate checks.
    """

    versions: Mapping[str, str]
    at: datetime
    devices: tuple[DeviceOpinion, ...]

    @property
    def conclusion(self) -> Conclusion:
        """The worst of the devices' outcomes."""
        conclusions = {device.conclusion for device in self.devices}
        if "refuses" in conclusions:
            return "refuses"
        return "accepts" if conclusions == {"accepts"} else "undecided"

    def document(self) -> dict[str, JsonValue]:
        """Return it as JSON, ``attest.second-opinion/1``."""
        return {
            "schema": SECOND_OPINION_SCHEMA,
            "source": "nvsdk",
            "versions": dict(self.versions),
            "at": rfc3339_text(self.at),
            "verdict": self.conclusion,
            "devices": [_device_document(device) for device in self.devices],
        }

    def lines(self) -> Iterator[str]:
        """Return it as a table for people."""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        yield f"NVIDIA's Python SDK ({versions}): {self.conclusion}"
        for device in self.devices:
            yield f"{device.name}: {device.conclusion}"
            for finding in device.findings:
                yield f"  {finding.outcome:<13}  {finding.name:<20}  {finding.detail}".rstrip()


def second_opinion(
    devices: Sequence[tuple[str, ParsedGpuEvidence]],
    *,
    rims: Sequence[RimDocument],
    at: datetime,
    nonce: bytes | None,
    certificates: Sequence[Certificate] = (),
    environment: NvsdkEnvironment | None = None,
) -> SecondOpinion:
    """Run NVIDIA's Python SDK on evidence, one process per device.

    Args:
        devices: item names and parsed evidence.
        rims: all available ones; each is used in the role in which its version matches the report.
        at: moment for their certificate checks.
        nonce: required 32 bytes in every report; None omits the check.
        certificates: candidates for the chain of a raw report.
        environment: with their packages; None uses the default of ``attest nvsdk install``.

    Raises:
        ConfigurationError: ``nvsdk-missing``, ``nvsdk-unusable`` or ``nvsdk-timeout``.
    """
    used = environment or find_environment(installation_folder(os.environ))
    readable = readable_rims(rims)
    versions: Mapping[str, str] = {}
    opinions = []
    for name, parsed in devices:
        opinion, versions = _about(name, parsed, readable, certificates, at=at, nonce=nonce, environment=used)
        opinions.append(opinion)
    return SecondOpinion(versions=versions, at=at, devices=tuple(opinions))


def _about(
    name: str,
    parsed: ParsedGpuEvidence,
    rims: Sequence[ParsedRim],
    certificates: Sequence[Certificate],
    *,
    at: datetime,
    nonce: bytes | None,
    environment: NvsdkEnvironment,
) -> tuple[DeviceOpinion, Mapping[str, str]]:
    """Return the result for one device: each matching pair of RIMs is tried until one is accepted, else the first."""
    tried = []
    for device in offers(parsed, rims, certificates):
        answer = examine(device, at=at, nonce=nonce, environment=environment)
        tried.append((read_answer(name, device.kind, answer), answer.versions))
        if tried[-1][0].conclusion == "accepts":
            return tried[-1]
    return tried[0]


def read_answer(name: str, kind: DeviceKind, answer: SdkAnswer) -> DeviceOpinion:
    """Parse the worker's answer about one device; a missing step was not run."""
    found = dict(answer.found)
    if _members(found.get("certificates")).get("outcome") == "raised":
        found["chain"] = found["certificates"]  # an unreadable chain
    findings = [_finding(step, found.get(step)) for step in _DEVICE_STEPS]
    rims = _members(found.get("rims"))
    for role in _ROLES[kind]:
        steps = _members(rims.get(role))
        findings += [_rim_finding(role, step, steps, offered=role in rims) for step in _RIM_STEPS]
    measurements = _members(found.get("measurements"))
    compared = measurements.get("compared")
    findings += [_finding("measurements", measurements), _REVOCATION]
    return DeviceOpinion(
        name=name,
        kind=kind,
        findings=tuple(findings),
        mismatches=tuple(_mismatches(measurements.get("mismatches"))),
        compared=compared if isinstance(compared, int) else None,
    )


def _members(value: JsonValue) -> dict[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _finding(name: str, step: JsonValue) -> Finding:
    members = _members(step)
    outcome = _OUTCOMES.get(str(members.get("outcome")), Outcome.NOT_EVALUATED)
    return Finding(name=name, outcome=outcome, detail="; ".join(_details(members)))


def _rim_finding(role: MeasurementSource, step: str, steps: dict[str, JsonValue], *, offered: bool) -> Finding:
    name = f"{role}_rim.{step}"
    if not offered:
        return Finding(name=name, outcome=Outcome.NOT_EVALUATED, detail="no RIM of the report's version is available")
    unread = _finding(name, steps.get("read"))
    return unread if unread.outcome is Outcome.FAIL else _finding(name, steps.get(step))


def _details(members: dict[str, JsonValue]) -> Iterator[str]:
    if members.get("raised"):
        yield f"{members['raised']}: {members.get('detail')}"
    if members.get("expired"):
        yield "expired"
    if members.get("not_after"):
        yield f"until {members['not_after']}"
    mismatches = list(_mismatches(members.get("mismatches")))
    if mismatches:
        yield "differ: " + ", ".join(f"{index} ({source})" for index, source in mismatches)
    if isinstance(members.get("compared"), int):
        yield f"{members['compared']} compared"


def _mismatches(listed: JsonValue) -> Iterator[tuple[int, str]]:
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, list) and len(one) == 2 and isinstance(one[0], int):
            yield one[0], str(one[1])


def _device_document(device: DeviceOpinion) -> dict[str, JsonValue]:
    return {
        "name": device.name,
        "kind": device.kind,
        "verdict": device.conclusion,
        "compared": device.compared,
        "mismatches": [{"index": index, "source": source} for index, source in device.mismatches],
        "findings": [{"name": one.name, "outcome": str(one.outcome), "detail": one.detail} for one in device.findings],
    }


# -- beside our checks


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One question about a device, named as their finding, with both answers and the detail of theirs.

    Attributes:
        ours: outcome of our checks; None without a counterpart.
    """

    item: str
    question: str
    ours: Outcome | None
    theirs: Outcome
    detail: str

    @property
    def agree(self) -> bool | None:
        """True if the outcomes agree; None if one of them is undecided."""
        outcomes = {self.ours, self.theirs}
        if None in outcomes or Outcome.NOT_EVALUATED in outcomes:
            return None
        return (self.ours is Outcome.FAIL) == (self.theirs is Outcome.FAIL)


_OURS: Mapping[str, tuple[str, ...]] = {
    "parsed": ("nvidia.format",),
    "chain": ("nvidia.chain", "nvidia.chain_validity", "nvidia.fwid"),
    "signature": ("nvidia.signature",),
    "nonce": ("freshness",),
    "driver_rim.version": ("nvidia.driver_rim",),
    "driver_rim.chain": ("nvidia.driver_rim_chain",),
    "driver_rim.signature": ("nvidia.driver_rim_signature",),
    "vbios_rim.version": ("nvidia.vbios_rim",),
    "vbios_rim.chain": ("nvidia.vbios_rim_chain",),
    "vbios_rim.signature": ("nvidia.vbios_rim_signature",),
    "measurements": ("nvidia.measurements", "nvidia.rim_conflict"),
    "revocation": ("nvidia.revocation", "nvidia.driver_rim_revocation", "nvidia.vbios_rim_revocation"),
}
"""Our checks for each of their steps: the first decides, unless another fails (they too skip an absent firmware id).

The schema of a RIM has no counterpart: our parser is strict.
"""


def side_by_side(opinion: SecondOpinion, checks: Sequence[Check]) -> tuple[Pair, ...]:
    """Pair their findings with our checks; a check without an item (``freshness``) counts for every device."""
    return tuple(
        Pair(
            item=device.name,
            question=finding.name,
            ours=_ours(ids, {check.id: check.outcome for check in checks if check.item in (None, device.name)}),
            theirs=finding.outcome,
            detail=finding.detail,
        )
        for device in opinion.devices
        for finding in device.findings
        for ids in (_OURS.get(finding.name, ()),)
    )


def _ours(ids: tuple[str, ...], outcomes: Mapping[str, Outcome]) -> Outcome | None:
    if any(outcomes.get(check_id) is Outcome.FAIL for check_id in ids):
        return Outcome.FAIL
    return outcomes.get(ids[0]) if ids else None


def pair_documents(pairs: Sequence[Pair]) -> list[JsonValue]:
    """Return the pairs as JSON; ``ours`` and ``same`` are absent without a counterpart."""
    return [
        {
            "item": pair.item,
            "question": pair.question,
            **({} if pair.ours is None else {"ours": str(pair.ours)}),
            "theirs": str(pair.theirs),
            **({} if pair.agree is None else {"same": pair.agree}),
            "detail": pair.detail,
        }
        for pair in pairs
    ]
