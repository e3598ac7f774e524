"""Simulated quotes with collateral that is signed anew, so that statuses and SVNs are really compared.

Whoever alters recorded collateral breaks its signature, and both verifiers refuse for that alone. Here the levels of
platform, TDX module and quoting enclave, the facts that they are compared with, and the TD's attributes are drawn,
close to one another, and then everything is signed by the simulator. dcap-qvl takes its root as an argument.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

from attest.evidence.intel.quote import Tee
from attest_simulator.intel import (
    QeIdentity,
    SimulatedEnclave,
    SimulatedPlatform,
    SimulatedTd,
    SvnLevel,
    TcbInfo,
    TcbLevel,
    TdxModule,
    TdxModuleIdentity,
)
from attest_simulator.intel.collateral import current_period, default_qe_identity
from attest_simulator.intel.tcb import components
from attest_simulator.intel.td import SEPT_VE_DISABLE, TD_DEBUG
from tests.differential.mutations import Case, Collateral

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
MIGRATABLE = 1 << 29
_DATE = datetime(2024, 3, 13, tzinfo=UTC)
_PLATFORM_STATUSES = (
    "UpToDate",
    "SWHardeningNeeded",
    "ConfigurationNeeded",
    "ConfigurationAndSWHardeningNeeded",
    "OutOfDate",
    "OutOfDateConfigurationNeeded",
    "Revoked",
)
_COMPONENT_STATUSES = ("UpToDate", "OutOfDate", "OutOfDate", "OutOfDate", "Revoked")


def made_cases(*, count: int, seed: int) -> Iterator[Case]:
    """Yield that many simulated cases, the same for the same seed."""
    rng = random.Random(seed)
    for number in range(count):
        tee: Tee = "sgx" if rng.randrange(4) == 0 else "tdx"
        platform = SimulatedPlatform.of(
            "differential", components=tuple(_near(rng) for _ in range(16)), pce_svn=10 + rng.randrange(3)
        )
        platform = replace(platform, tee_tcb_svn=_tee_tcb_svn(rng), qe_isv_svn=rng.choice((3, 4, 5)))
        case = Case(
            vector=f"simulated {tee} {number}",
            quote=b"",
            collateral=collateral_of(platform, tee, _info(platform, tee, rng), _identity(tee, rng)),
            at=AT,
            part="signed anew",
            change=f"seed {seed}",
            simulated=True,
        )
        if tee == "sgx":
            version = rng.choice((3, 3, 4, 5))
            yield replace(case, quote=SimulatedEnclave(platform=platform).quote(bytes(64), version=version))
        else:
            yield _of_td(case, platform, rng)


def collateral_of(
    platform: SimulatedPlatform, tee: Tee, info: TcbInfo | None = None, identity: QeIdentity | None = None
) -> Collateral:
    """Sign the documents, and put them into the form that both verifiers read."""
    signed: Collateral = json.loads(platform.collateral(tee, at=AT, tcb_info=info, qe_identity=identity).to_json())
    return signed


def _near(rng: random.Random) -> int:
    """Mostly one value, so that levels match often enough, and their neighbours."""
    return rng.choices((1, 2, 3), weights=(1, 30, 3))[0]


def _tee_tcb_svn(rng: random.Random) -> bytes:
    return bytes((rng.choice((4, 5, 6)), rng.choice((0, 1, 1, 3)), *(_near(rng) for _ in range(14))))


def _of_td(case: Case, platform: SimulatedPlatform, rng: random.Random) -> Case:
    """Quote a TD; where the module has been updated since the TD was started, ``origin`` is the TD without that."""
    td = SimulatedTd(
        platform=platform,
        log=(),
        td_attributes=SEPT_VE_DISABLE if rng.randrange(20) else rng.choice((0, TD_DEBUG, SEPT_VE_DISABLE | MIGRATABLE)),
        mr_service_td=bytes(48) if rng.randrange(40) else bytes([1] * 48),
    )
    version, updated = rng.choice((4, 5, 5)), rng.randrange(3) == 0
    started = replace(case, quote=td.quote(bytes(64), version=version))
    if version == 4 or not updated:
        return started
    later = replace(td, tee_tcb_svn_2=_tee_tcb_svn(rng))
    return replace(case, quote=later.quote(bytes(64), version=version), part="module updated", origin=started)


def _info(platform: SimulatedPlatform, tee: Tee, rng: random.Random) -> TcbInfo:
    identities = [
        TdxModuleIdentity(name=name, module=TdxModule(), levels=_levels(rng, (3, 4, 5, 6, 7)))
        for name in rng.sample(("TDX_01", "TDX_03", "tdx_04"), rng.choice((1, 2, 3)))
    ]
    return replace(
        platform.tcb_info(tee, at=AT),
        levels=tuple(_tcb_level(tee, rng) for _ in range(rng.randrange(1, 6))),
        module_identities=tuple(identities) if tee == "tdx" else None,
    )


def _identity(tee: Tee, rng: random.Random) -> QeIdentity:
    identity = default_qe_identity(tee, period=current_period(AT))
    return replace(identity, levels=_levels(rng, (2, 3, 4, 5)))


def _levels(rng: random.Random, svns: tuple[int, ...]) -> tuple[SvnLevel, ...]:
    """Return one to three levels as Intel writes them: highest first, and what is newest is up to date.

    Where it is not, Intel's rule (section 13) advises to relaunch a TD whose module nobody can better.
    """
    chosen = sorted(rng.sample(svns, rng.randrange(1, 4)), reverse=True)
    statuses = ["UpToDate", *(rng.choice(_COMPONENT_STATUSES) for _ in chosen[1:])]
    return tuple(
        SvnLevel(isv_svn=svn, date=_DATE, status=status, advisory_ids=_advisories(rng))
        for svn, status in zip(chosen, statuses, strict=True)
    )


def _tcb_level(tee: Tee, rng: random.Random) -> TcbLevel:
    low = rng.randrange(3)
    return TcbLevel(
        sgx=components(tuple(_at_most(rng, low) for _ in range(16))),
        pce_svn=9 + rng.randrange(3),
        tdx=components((rng.choice((4, 5, 6)), 0, *(_at_most(rng, low) for _ in range(14)))) if tee == "tdx" else None,
        date=_DATE,
        status=rng.choice(_PLATFORM_STATUSES),
        advisory_ids=_advisories(rng),
    )


def _at_most(rng: random.Random, low: int) -> int:
    return rng.choices((0, 1, 2, 3), weights=(3, 30, 10 * low, low))[0]


def _advisories(rng: random.Random) -> tuple[str, ...]:
    return tuple(f"INTEL-SA-{number:05}" for number in rng.sample(range(1, 30), rng.randrange(3)))
