"""Leases that an advisory, a TCB level or a stricter policy concerns, by their stored claims.

A lease without the claim in question is concerned, and its reason states that: no lease is left out because a claim is
unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Final, TypeAlias

from attest import Outcome, Policy
from attest.appraisal import judge_items, reasons_of, simulation_check
from attest.errors import ConfigurationError
from attest.evidence import ClaimTree, stated_devices
from kms.domain.lease_claims import KeptClaims, is_passport
from kms.domain.leases import Lease

Concern: TypeAlias = Callable[[Lease, KeptClaims], Iterable[str]]
"""Returns for a lease and its stored claims the reasons why it is concerned, a line each; none if it is not."""

_ADVISORY: Final = re.compile(r"INTEL-SA-[0-9]{5}")
_MINIMUM: Final = re.compile(r"([A-Za-z0-9-]+):([a-z0-9_.]+)=(0|[1-9][0-9]{0,8})")
_PREFIXES: Final = ("", "snp.", "tdx.")


def lists_advisory(advisory: str) -> Concern:
    """Concern leases for whose TCB Intel lists an advisory, or whose TCB was not evaluated.

    Raises:
        ConfigurationError: ``advisory-invalid``.
    """
    if not _ADVISORY.fullmatch(advisory):
        raise ConfigurationError(
            f"{advisory[:40]!r} is not an Intel advisory",
            code="advisory-invalid",
            expected="INTEL-SA- and five digits",
            got=repr(advisory[:40]),
            hint="AMD's reports name no advisories; give the level that fixes it with --tcb-below",
        )
    return partial(_lists, advisory)


def _lists(advisory: str, lease: Lease, claims: KeptClaims) -> Iterator[str]:
    if lease.tee not in {"tdx", "sgx"} and not is_passport(lease.tee):
        return
    listed = _first(claims, "advisory_ids")
    if listed is None:
        yield f"{advisory}: the TCB was not evaluated"
    elif isinstance(listed, tuple) and advisory in listed:
        yield f"{advisory}: listed for this platform's TCB"


def parse_minimum(text: str) -> Concern:
    """Read ``PRODUCT:COMPONENT=LEVEL``, such as ``Genoa:snp=27``: concern leases below that level.

    Raises:
        ConfigurationError: ``tcb-minimum-invalid``.
    """
    found = _MINIMUM.fullmatch(text)
    if not found:
        raise ConfigurationError(
            f"{text[:80]!r} is not a TCB level",
            code="tcb-minimum-invalid",
            expected="PRODUCT:COMPONENT=LEVEL, such as Genoa:snp=27 or tdx:tdx_module.svn=7",
            got=repr(text[:80]),
        )
    return below(found[1], found[2], int(found[3]))


def below(product: str, component: str, minimum: int) -> Concern:
    """Concern the leases of a product whose TCB has a component below a level.

    Args:
        product: AMD's name of a product line, Intel's FMSPC in hex, or a TEE (``tdx``).
        component: of SNP one of the reported TCB (``snp``, ``microcode``); of Intel a number among the claims
            (``pce_svn``, ``tdx_module.svn``).
        minimum: the least level that is not below.
    """
    return partial(_below, product.lower(), component, minimum)


def _below(product: str, component: str, minimum: int, lease: Lease, claims: KeptClaims) -> Iterator[str]:
    if is_passport(lease.tee):
        yield f"{component}: not stated in the Verifier's Attestation Result"
        return
    if product not in {lease.tee, (lease.product or lease.tee).lower()}:
        return
    levels = _first(claims, "reported_tcb")
    level = levels.get(component) if isinstance(levels, Mapping) else _first(claims, component)
    if isinstance(level, bool) or not isinstance(level, int):
        yield f"{component}: not stated"
    elif level < minimum:
        yield f"{component} {level} is below {minimum}"


def _first(claims: KeptClaims, name: str) -> ClaimTree | None:
    """Return the first value of this name, also that of a report within an Azure VM's evidence."""
    found = (item.verified.values.get(prefix + name) for item in claims.items for prefix in _PREFIXES)
    return next((value for value in found if value is not None), None)


def conforming_to(policy: Policy, *, at: datetime) -> Concern:
    """Concern leases whose claims do not meet a policy at this moment."""
    return partial(_against, policy, at)


def _against(policy: Policy, at: datetime, lease: Lease, claims: KeptClaims) -> Iterator[str]:
    checks, set_aside = judge_items(
        claims.items,
        devices=lambda: stated_devices(claims.items, bound=claims.bound),
        policy=policy,
        at=at,
        reasons=reasons_of(policy.unchecked),
    )
    whole = (simulation_check(simulated=lease.simulated, tolerated=policy.simulated), *checks)
    for check in whole:
        if check.outcome is Outcome.FAIL and (check.branch is None or check.branch not in set_aside):
            got = "not in the stored claims" if check.got == "absent" else f"got {check.got}"
            yield f"{check.id}: {got}"
