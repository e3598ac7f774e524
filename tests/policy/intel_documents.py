"""TDX and SGX policy documents that tests start from, and simulated Attesters to judge by them."""

import copy
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import Any, Literal

from attest.checks import Unchecked
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.evidence.endorsement_files import read_endorsements
from attest.evidence.envelope import MEDIA_EVENT_LOG, MEDIA_INTEL_QUOTE, Evidence, EvidenceItem
from attest.evidence.eventlog.facts import facts_of
from attest.verification import ExpectedFreshness, VerifiedEvidence, verify
from attest_simulator.intel import SimulatedEnclave, SimulatedPlatform, SimulatedTd

AT = datetime(2026, 6, 1, tzinfo=UTC)
REPORT_DATA = b"fresh".ljust(64, b"\0")
FRESH = ExpectedFreshness(report_data=REPORT_DATA)
PLATFORM = SimulatedPlatform.of()
TD = SimulatedTd(platform=PLATFORM)
ENCLAVE = SimulatedEnclave(platform=PLATFORM)

_HEAD: dict[str, Any] = {
    "schema": "attest.policy/1",
    "name": "test",
    "version": 1,
    "simulated": {"unchecked": "the tests have no hardware"},
    "reference_values": {
        "image": {"values": [TD.mr_td.hex()], "origin": "the simulator"},
        "other": {"values": ["01" * 48], "origin": "nobody"},
        "enclave": {"values": [ENCLAVE.mr_enclave.hex()], "origin": "the simulator"},
        "other-enclave": {"values": ["01" * 32], "origin": "nobody"},
    },
}
ANY_BOOT = {"unchecked": "these tests are about other demands"}
STRICT_TDX: dict[str, Any] = {**_HEAD, "tdx": {"mr_td": ["image"], "rtmr1": ANY_BOOT}}
STRICT_SGX: dict[str, Any] = {**_HEAD, "sgx": {"mr_enclave": ["enclave"]}}


def tdx_document(**tdx: object) -> dict[str, Any]:
    """The strict document with some keys of ``tdx`` changed."""
    changed = copy.deepcopy(STRICT_TDX)
    changed["tdx"] |= tdx
    return changed


def sgx_document(**sgx: object) -> dict[str, Any]:
    """The strict document with some keys of ``sgx`` changed."""
    changed = copy.deepcopy(STRICT_SGX)
    changed["sgx"] |= sgx
    return changed


@cache
def collateral(
    tee: Literal["tdx", "sgx"],
    platform: SimulatedPlatform = PLATFORM,
    status: str = "UpToDate",
    advisories: tuple[str, ...] = (),
) -> Endorsements:
    """Everything that the simulated vendor says of a platform, its first TCB level changed."""
    info = platform.tcb_info(tee, at=AT)
    first, *lower = info.levels
    info = replace(info, levels=(replace(first, status=status, advisory_ids=advisories), *lower))
    found = platform.collateral(tee, at=AT, tcb_info=info)
    return read_endorsements([("collateral.json", found.to_json())], at=AT).endorsements


def quote_evidence(quote: bytes, log: bytes | None = None) -> Evidence:
    """A quote, and perhaps the event log of its TD."""
    items = [EvidenceItem(name="cpu", media_type=MEDIA_INTEL_QUOTE, value=quote)]
    if log is not None:
        items.append(EvidenceItem(name="eventlog", media_type=MEDIA_EVENT_LOG, value=log))
    return Evidence(items=tuple(items))


def verified_td(
    td: SimulatedTd = TD,
    *,
    log: bool = False,
    version: int = 5,
    endorsements: Endorsements | None = None,
    unchecked: tuple[Unchecked, ...] = (),
    **override: int | bytes,
) -> VerifiedEvidence:
    """Verify a fresh quote of a TD; keyword arguments override fields of its report."""
    quote = td.quote(REPORT_DATA, version=version, override=override)
    return verify(
        quote_evidence(quote, td.event_log() if log else None),
        endorsements=endorsements or collateral("tdx", td.platform),
        anchors=TrustAnchors.simulation(),
        at=AT,
        expected=FRESH,
        unchecked=unchecked,
    )


def verified_enclave(
    enclave: SimulatedEnclave = ENCLAVE,
    *,
    endorsements: Endorsements | None = None,
    unchecked: tuple[Unchecked, ...] = (),
    **override: int | bytes,
) -> VerifiedEvidence:
    """Verify a fresh quote of an enclave."""
    return verify(
        quote_evidence(enclave.quote(REPORT_DATA, override=override)),
        endorsements=endorsements or collateral("sgx", enclave.platform),
        anchors=TrustAnchors.simulation(),
        at=AT,
        expected=FRESH,
        unchecked=unchecked,
    )


def firmware_lists(td: SimulatedTd = TD) -> dict[str, list[str]]:
    """The lists of ``event_log`` that accept everything that the firmware measured of this TD's boot."""
    log = verified_td(td, log=True).items[0].eventlog
    assert log is not None
    facts = facts_of(log)
    return {
        "boot_variables": [str(dict(fact.values)["value"]) for fact in facts.boot_variables or ()],
        "other_firmware_events": [fact.digest.hex() for fact in facts.other_firmware_events or ()],
    }


def without_tcb(tee: Literal["tdx", "sgx"]) -> Endorsements:
    """Certificates and lists, and nothing that judges a TCB."""
    everything = collateral(tee)
    return Endorsements(certificates=everything.certificates, crls=everything.crls)
