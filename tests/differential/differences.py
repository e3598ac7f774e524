"""Where this verifier and dcap-qvl may differ, why, and the clause that decides.

An entry is no list of cases to skip: it states a fact about the case, checks it, and where it can undoes it, and
then both have to agree. ``example`` is one case in which the difference shows, so that an entry whose difference is
gone, because the peer has changed, is noticed and taken out.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from attest.endorsements.x509 import parse_certificate, parse_crl, pem_blocks
from attest.errors import EvidenceError
from attest.evidence.intel.collateral_forms import der_without_padding
from attest.evidence.intel.pck import read_pck
from attest.evidence.intel.quote import parse_quote
from attest.evidence.tdx.structure import ParsedTdReport
from attest_simulator.intel import Period, SimulatedEnclave, SimulatedPlatform, SimulatedTd, intel_collateral
from attest_simulator.intel.collateral import current_period, default_qe_identity
from attest_simulator.intel.td import SEPT_VE_DISABLE, TD_DEBUG
from tests.differential.made import AT, MIGRATABLE, collateral_of
from tests.differential.mutations import CHAINS, CRLS, Case, Collateral, regions
from tests.differential.verdicts import Verdict, ours, theirs

UNDER_DEBUG = 0xFF
_SGX_DEBUG = 0x02
_VERSION_OF_SGX = 3
_BEGIN = b"-----BEGIN CERTIFICATE-----\n"
CHAIN_OF_QUOTE = "quote: certification data"
PLATFORM = SimulatedPlatform.of()


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One kind of case in which the verdicts differ.

    Attributes:
        name: what to call it.
        reason: who does what.
        clause: what decides that ours is right.
        applies: whether it explains the verdicts, ours and theirs, about a case; they are known to differ.
        example: makes a case in which the difference shows, out of a recorded one that both accept.
    """

    name: str
    reason: str
    clause: str
    applies: Callable[[Case, Verdict, Verdict], bool]
    example: Callable[[Case], Case]


def explain(case: Case, mine: Verdict, peer: Verdict) -> Difference | None:
    """Return the entry that explains two different verdicts, or None."""
    return next((difference for difference in DIFFERENCES if difference.applies(case, mine, peer)), None)


def _unnoticed(case: Case, peer: Verdict) -> bool:
    """Say whether the peer accepts as if nothing had been changed."""
    return case.origin is not None and peer.status is not None and peer.outcome == theirs(case.origin).outcome


def _with_collateral(case: Case, name: str, value: str) -> Case:
    return replace(case, collateral={**case.collateral, name: value}, part=f"collateral: {name}", origin=case)


def _with_byte(case: Case, region: str, value: int, *, offset: int = 0) -> Case:
    at = next(found.start for found in regions(case.quote) if found.name == region) + offset
    quote = case.quote[:at] + bytes([value]) + case.quote[at + 1 :]
    return replace(case, quote=quote, part=f"quote: {region}", origin=case)


def _simulated(quote: bytes, collateral: Collateral | None = None) -> Case:
    given = collateral_of(PLATFORM, "tdx") if collateral is None else collateral
    return Case(vector="simulated", quote=quote, collateral=given, at=AT, simulated=True)


# -- what the peer refuses before it evaluates


_PEERS_RULES = {
    "Verification failed: Debug mode is enabled": "debug",
    "Verification failed: SEPT_VE_DISABLE is not enabled": "no SEPT_VE_DISABLE",
    "Verification failed: TD migration is enabled": "migratable",
    "Verification failed: Invalid MR service TD": "service TD",
}


def _traits(quote: bytes) -> set[str]:
    """Return what policies judge and this verifier only reports."""
    body = parse_quote(quote).body
    if not isinstance(body, ParsedTdReport):
        return {"debug"} if body.attributes[0] & _SGX_DEBUG else set()
    attributes = body.td_attributes
    found = {
        "debug": attributes & UNDER_DEBUG,
        "no SEPT_VE_DISABLE": not attributes & SEPT_VE_DISABLE,
        "migratable": attributes & MIGRATABLE,
        "service TD": any(body.mr_service_td or b""),
    }
    return {name for name, holds in found.items() if holds}


def _refused_by_policy(trait: str) -> Callable[[Case, Verdict, Verdict], bool]:
    def applies(case: Case, mine: Verdict, peer: Verdict) -> bool:
        refused = mine.status is not None and _PEERS_RULES.get(peer.reason) == trait
        return refused and trait in _traits(case.quote)

    return applies


def _td(**given: Any) -> Callable[[Case], Case]:  # noqa: ANN401  as SimulatedTd takes
    return lambda _: _simulated(SimulatedTd(platform=PLATFORM, **given).quote(bytes(64), version=5))


def _sgx_outside_version_3(case: Case, mine: Verdict, peer: Verdict) -> bool:
    if mine.status is None or peer.status is not None:
        return False
    quote = parse_quote(case.quote)
    return quote.tee == "sgx" and quote.version > _VERSION_OF_SGX


def _example_sgx_version_4(_: Case) -> Case:
    quote = SimulatedEnclave(platform=PLATFORM).quote(bytes(64), version=4)
    return _simulated(quote, collateral_of(PLATFORM, "sgx"))


# -- what the peer does not look at


def _outer_type(case: Case, mine: Verdict, peer: Verdict) -> bool:
    return (
        case.part == "quote: outer_type"
        and mine.reason == "quote-certification-data-unsupported"
        and _unnoticed(case, peer)
    )


def _sizes(case: Case, mine: Verdict, peer: Verdict) -> bool:
    """Explain a certification size that ends before its container does, or a container that does."""
    return mine.reason == "quote-length-mismatch" and _unnoticed(case, peer)


def _root_in_quote(case: Case, mine: Verdict, peer: Verdict) -> bool:
    """Explain a root certificate in the quote that is none: what stands before it is as it was."""
    if mine.reason != "certificate-malformed" or case.origin is None:
        return False
    root = case.origin.quote.rindex(_BEGIN)
    return case.quote[:root] == case.origin.quote[:root] and _unnoticed(case, peer)


def _example_root_in_quote(case: Case) -> Case:
    """Let the root's DER begin with another tag."""
    root = case.quote.rindex(_BEGIN) + len(_BEGIN)
    quote = case.quote[:root] + b"A" + case.quote[root + 1 :]
    return replace(case, quote=quote, part=CHAIN_OF_QUOTE, origin=case)


def _pce_id(case: Case, mine: Verdict, peer: Verdict) -> bool:
    if mine.reason != "tcb-info-missing" or peer.status is None:
        return False
    pck = read_pck(parse_certificate(pem_blocks(parse_quote(case.quote).certification_data)[0][1]))
    return bytes.fromhex(json.loads(case.collateral["tcb_info"])["pceId"]) != pck.pce_id


def _example_pce_id(_: Case) -> Case:
    info = replace(PLATFORM.tcb_info("tdx", at=AT), pce_id="0001")
    return _simulated(SimulatedTd(platform=PLATFORM).quote(bytes(64)), collateral_of(PLATFORM, "tdx", info))


def _future_crl(case: Case, mine: Verdict, peer: Verdict) -> bool:
    if mine.reason != "crl-not-yet-valid" or peer.status is None:
        return False
    return any(parse_crl(bytes.fromhex(case.collateral[name])).this_update > case.at for name in CRLS)


def _example_future_crl(_: Case) -> Case:
    """Begin the list of the PCK's CA a second after the moment of appraisal."""
    later = Period(AT + timedelta(seconds=1), AT + timedelta(days=30))
    signed = intel_collateral(
        tcb_info=PLATFORM.tcb_info("tdx", at=AT),
        qe_identity=default_qe_identity("tdx", period=current_period(AT)),
        crl_period=later,
        root_crl_period=current_period(AT),
    )
    return _simulated(SimulatedTd(platform=PLATFORM).quote(bytes(64)), json.loads(signed.to_json()))


# -- what the peer wants in one place


def _certificates_elsewhere(case: Case, mine: Verdict, peer: Verdict) -> bool:
    """Explain a broken chain whose certificates the quote or another chain holds as well: undo it, and both agree."""
    if case.origin is None or case.part not in {CHAIN_OF_QUOTE, *(f"collateral: {name}" for name in CHAINS)}:
        return False
    return mine.status is not None and peer.status is None and mine.outcome == ours(case.origin).outcome


def _padded_crl(case: Case, mine: Verdict, peer: Verdict) -> bool:
    if mine.status is None or peer.status is not None:
        return False
    stripped = {name: _stripped(case.collateral[name]) for name in CRLS}
    if all(stripped[name] == case.collateral[name] for name in CRLS):
        return False
    repaired = replace(case, collateral={**case.collateral, **stripped})
    known = _PEERS_RULES.get(theirs(repaired).reason)  # and it may be of a TD that the peer refuses anyway
    return theirs(repaired).outcome == mine.outcome or known in _traits(case.quote)


def _stripped(text: str) -> str:
    try:
        return der_without_padding(bytes.fromhex(text)).hex()
    except (ValueError, EvidenceError):
        return text


# -- the TDX module that runs now


def _module_of_now(case: Case, mine: Verdict, peer: Verdict) -> bool:
    """Explain a refusal of what runs now, or another opinion about relaunch: without the update both agree."""
    if case.part != "module updated" or case.origin is None or mine.status is None:
        return False
    started, peers_started = ours(case.origin), theirs(case.origin)
    if started.outcome != peers_started.outcome and explain(case.origin, started, peers_started) is None:
        return False
    if mine.advisory_ids != started.advisory_ids:
        return False
    if mine.status != started.status and _RELAUNCH.get(mine.status) != started.status:
        return False
    if peer.status is None:
        return peer.reason.startswith(_PEERS_REFUSALS_OF_NOW)
    return peer.advisory_ids == started.advisory_ids and peer.status in {*_RELAUNCH, started.status}


_RELAUNCH = {
    "TDRelaunchAdvised": "OutOfDate",
    "TDRelaunchAdvisedConfigurationNeeded": "OutOfDateConfigurationNeeded",
}
"""What the status is where no relaunch helps."""
_PEERS_REFUSALS_OF_NOW = (
    "Verification failed: Failed to evaluate the current TDX TCB (TEE_TCB_SVN2)",
    "Verification failed: TCB status is invalid: Revoked",
)


def _example_module_of_now(_: Case) -> Case:
    """Let the host run a version of the module that no identity describes, under a TD that is up to date."""
    td = SimulatedTd(platform=PLATFORM)
    later = replace(td, tee_tcb_svn_2=bytes((1, 9, *PLATFORM.tee_tcb_svn[2:])))
    started = _simulated(td.quote(bytes(64), version=5))
    return replace(started, quote=later.quote(bytes(64), version=5), part="module updated", origin=started)


DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        name="debug",
        reason="dcap-qvl refuses a TD or enclave under debug; here the built-in baseline of appraisal does",
        clause="intel-tdx-sgx.md 16 and 21, P",
        applies=_refused_by_policy("debug"),
        example=_td(td_attributes=SEPT_VE_DISABLE | TD_DEBUG),
    ),
    Difference(
        name="SEPT_VE_DISABLE",
        reason="dcap-qvl refuses a TD without it; here policy requires it",
        clause="intel-tdx-sgx.md 16 and 21, P",
        applies=_refused_by_policy("no SEPT_VE_DISABLE"),
        example=_td(td_attributes=0),
    ),
    Difference(
        name="migratable",
        reason="dcap-qvl refuses a TD that may migrate; here policy decides",
        clause="intel-tdx-sgx.md 16 and 21, P",
        applies=_refused_by_policy("migratable"),
        example=_td(td_attributes=SEPT_VE_DISABLE | MIGRATABLE),
    ),
    Difference(
        name="service TD",
        reason="dcap-qvl refuses a TD with a bound service TD; here policy decides, by its value",
        clause="intel-tdx-sgx.md 16 and 21, P",
        applies=_refused_by_policy("service TD"),
        example=_td(mr_service_td=b"\1" * 48),
    ),
    Difference(
        name="SGX in version 4 and 5",
        reason="dcap-qvl takes SGX in version 3 only",
        clause="intel-tdx-sgx.md 2 and 3: version 4 carries SGX or TDX, version 5 names the body",
        applies=_sgx_outside_version_3,
        example=_example_sgx_version_4,
    ),
    Difference(
        name="outer certification type",
        reason="dcap-qvl takes any number for the 6 that wraps the QE report, and no signature covers it",
        clause="intel-tdx-sgx.md 4",
        applies=_outer_type,
        example=lambda case: _with_byte(case, "outer_type", 5),
    ),
    Difference(
        name="nested sizes",
        reason="dcap-qvl ignores what is left between the end of certification data and that of its container",
        clause="intel-tdx-sgx.md 4: every nested size must end exactly where its container ends; T01",
        applies=_sizes,
        example=lambda case: _with_byte(
            case, "certification head", len(parse_quote(case.quote).certification_data) - 1 & 0xFF, offset=2
        ),
    ),
    Difference(
        name="root in the quote",
        reason="dcap-qvl does not read the root that a quote brings; here a chain with a part that is no certificate "
        "is refused",
        clause="intel-tdx-sgx.md 4, type 5: PCK leaf, intermediate, root; T02",
        applies=_root_in_quote,
        example=_example_root_in_quote,
    ),
    Difference(
        name="PCEID",
        reason="dcap-qvl never compares it: a TCB info of another PCEID is not of this platform",
        clause="intel-tdx-sgx.md 11, step 3; T09",
        applies=_pce_id,
        example=_example_pce_id,
    ),
    Difference(
        name="lists of the future",
        reason="dcap-qvl judges only nextUpdate of a list",
        clause="intel-tdx-sgx.md 14: both ends, for every list; T07",
        applies=_future_crl,
        example=_example_future_crl,
    ),
    Difference(
        name="certificates from elsewhere",
        reason="dcap-qvl wants every chain whole and in order; here a certificate counts wherever it was found",
        clause="intel-tdx-sgx.md 8, choosing",
        applies=_certificates_elsewhere,
        example=lambda case: _with_collateral(case, "qe_identity_issuer_chain", ""),
    ),
    Difference(
        name="padded lists",
        reason="dcap-qvl refuses bytes behind a list; NUL and line ends, which several clients append, are cut here",
        clause="intel-tdx-sgx.md 14, CRL trap",
        applies=_padded_crl,
        example=lambda case: _with_collateral(case, "pck_crl", case.collateral["pck_crl"] + "00"),
    ),
    Difference(
        name="module that runs now",
        reason="dcap-qvl judges TEE_TCB_SVN_2 like TEE_TCB_SVN; Intel's library asks it about relaunch alone",
        clause="intel-tdx-sgx.md 13",
        applies=_module_of_now,
        example=_example_module_of_now,
    ),
)
