"""Demands of a policy on a SEV-SNP Attester: the keys of ``snp``, and their rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace

from attest.checks import Outcome
from attest.encoding import JsonValue
from attest.evidence.claims import Claim, ClaimType, Origin
from attest.evidence.snp.claims import snp_claim
from attest.evidence.snp.structure import GUEST_POLICY_BITS, PLATFORM_INFO_BITS
from attest.evidence.snp.tcb import SnpProduct
from attest.policy.accepted_values import accepted_rules, accepted_spls
from attest.policy.decoder import (
    OFF,
    ON,
    STRICT_OFF,
    STRICT_ON,
    Demand,
    Section,
    choice,
    demand,
    hex_list,
    hex_of,
    integer,
    key,
    list_of,
    named_bits,
    record_of,
    refuse,
    text,
)
from attest.policy.references import ReferenceValues, names_in
from attest.policy.rules import Rule, RuleMaker, Test, at_least, has_bits, is_, none_of, one_of
from attest.policy.snp_tcb import (
    TCB_DEMANDS,
    ExactTcbs,
    TcbMinimums,
    covers,
    exact_tcbs,
    exact_tcbs_text,
    is_one_of,
    minimum_tcbs,
    minimum_tcbs_text,
    shortfall,
    tcb_of_product,
)

_SNP = RuleMaker("snp", snp_claim)
_HIGHEST_VMPL = 3
_LARGEST_EXACT = 2**53 - 1
"""Canonical JSON (RFC 8785) has no larger integers."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class SnpAbi:
    """Version of the firmware's interface, as the guest policy demands one at least; major counts before minor."""

    major: int = field(metadata=key(integer(0, 255)))
    minor: int = field(metadata=key(integer(0, 255)))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


_MINIMUM_TCBS, _EXACT_TCBS = key(demand(minimum_tcbs)), key(demand(exact_tcbs))
_VALUES_16, _VALUES_32, _VALUES_48, _VALUES_64 = (key(hex_list(length)) for length in (16, 32, 48, 64))
_SIGNING_KEYS = ("vcek", "vlek")


@dataclass(frozen=True, slots=True, kw_only=True)
class SnpDemands:
    """Demands on a SEV-SNP Attester; None: no demand. See docs/policy.md for each key.

    One of ``minimum_tcb`` and ``exact_tcb`` is always stated.
    """

    products: Demand[tuple[str, ...]] = field(metadata=key(demand(list_of(choice(SnpProduct)))))
    measurement: Demand[tuple[str, ...]]
    vmpl: Demand[tuple[int, ...]] = field(
        default=Demand((0,)), metadata=key(demand(list_of(integer(0, _HIGHEST_VMPL))))
    )
    signing_key: Demand[tuple[str, ...]] = field(
        default=Demand(_SIGNING_KEYS), metadata=key(demand(list_of(choice(_SIGNING_KEYS))))
    )
    provisional_firmware: Demand[bool] = field(default=OFF, metadata=STRICT_OFF)
    masked_chip_id: Demand[bool] = field(default=OFF, metadata=STRICT_OFF)
    rollback_protection: Demand[bool] = field(default=ON, metadata=STRICT_ON)
    rolled_back_since_launch: Demand[bool] = field(default=OFF, metadata=STRICT_OFF)
    guest_policy: Mapping[str, Demand[bool]]
    platform_info: Mapping[str, Demand[bool]]
    minimum_tcb: Demand[TcbMinimums] | None = field(default=None, metadata=_MINIMUM_TCBS)
    minimum_committed_tcb: Demand[TcbMinimums] | None = field(default=None, metadata=_MINIMUM_TCBS)
    minimum_launch_tcb: Demand[TcbMinimums] | None = field(default=None, metadata=_MINIMUM_TCBS)
    exact_tcb: Demand[ExactTcbs] | None = field(default=None, metadata=_EXACT_TCBS)
    exact_committed_tcb: Demand[ExactTcbs] | None = field(default=None, metadata=_EXACT_TCBS)
    exact_launch_tcb: Demand[ExactTcbs] | None = field(default=None, metadata=_EXACT_TCBS)
    chip_ids: Demand[tuple[bytes, ...]] | None = field(default=None, metadata=_VALUES_64)
    denied_chip_ids: tuple[bytes, ...] = field(default=(), metadata=key(list_of(hex_of(64))))
    host_data: Demand[tuple[bytes, ...]] | None = field(default=None, metadata=_VALUES_32)
    id_key_digests: Demand[tuple[bytes, ...]] | None = field(default=None, metadata=_VALUES_48)
    author_key_digests: Demand[tuple[bytes, ...]] | None = field(default=None, metadata=_VALUES_48)
    family_ids: Demand[tuple[bytes, ...]] | None = field(default=None, metadata=_VALUES_16)
    image_ids: Demand[tuple[bytes, ...]] | None = field(default=None, metadata=_VALUES_16)
    csp_ids: Demand[tuple[str, ...]] | None = field(default=None, metadata=key(demand(list_of(text))))
    minimum_abi: Demand[SnpAbi] | None = field(default=None, metadata=key(demand(record_of(SnpAbi))))
    minimum_guest_svn: int | None = field(default=None, metadata=key(integer(0, 2**32 - 1)))
    mitigations_at_launch: int | None = field(default=None, metadata=key(integer(1, _LARGEST_EXACT)))
    mitigations_now: int | None = field(default=None, metadata=key(integer(1, _LARGEST_EXACT)))
    accepted_spls: Mapping[str, str] = field(default_factory=dict[str, str], metadata=key(accepted_spls))


_STRICT_GUEST_POLICY = {"debug": False, "migrate_ma": False}
_STRICT_PLATFORM_INFO = {"alias_check_complete": True}


def decode_snp(value: JsonValue, path: str, references: Mapping[str, ReferenceValues]) -> SnpDemands:
    """Read the key ``snp`` of a policy."""
    section = Section(value, path)
    section.require_known(one.name for one in fields(SnpDemands))
    demands = section.record(
        SnpDemands,
        {"measurement": demand(list_of(names_in(references)))},
        guest_policy=named_bits(section, "guest_policy", dict(GUEST_POLICY_BITS), strict=_STRICT_GUEST_POLICY),
        platform_info=named_bits(section, "platform_info", dict(PLATFORM_INFO_BITS), strict=_STRICT_PLATFORM_INFO),
    )
    section.finish()
    if demands.minimum_tcb is None and demands.exact_tcb is None:
        raise refuse(section.path("minimum_tcb"), "a value, or one of exact_tcb", shown="nothing", at_key=True)
    return demands


# -- rules


def snp_rules(snp: SnpDemands, references: Mapping[str, ReferenceValues]) -> tuple[Rule, ...]:
    """Return the rules of a policy document for a SEV-SNP Attester."""
    return (*_identity_rules(snp, references), *_state_rules(snp), *_firmware_rules(snp), _BROKEN_PRODUCT)


def _identity_rules(snp: SnpDemands, references: Mapping[str, ReferenceValues]) -> Iterator[Rule]:
    """Make the rules for the guest's identity and software."""
    yield from _SNP.rule("products", snp.products, one_of, category="hardware", claim="product")
    yield from _SNP.reference("measurement", snp.measurement, references, claim="measurement")
    for name, wanted, category in (
        ("host_data", snp.host_data, "configuration"),
        ("id_key_digest", snp.id_key_digests, "executables"),
        ("author_key_digest", snp.author_key_digests, "executables"),
        ("family_id", snp.family_ids, "executables"),
        ("image_id", snp.image_ids, "executables"),
        ("csp_id", snp.csp_ids, "instance-identity"),
    ):
        yield from _SNP.rule(name, wanted, one_of, category=category)
    yield from _SNP.rule("chip_id", snp.chip_ids, _named_one_of, category="instance-identity", claim=_CHIP)
    yield from _SNP.denial("denied_chip_ids", snp.denied_chip_ids, claim=_CHIP, test=_named_none_of)


def _named_one_of(values: Iterable[bytes]) -> Test:
    return _named(one_of(values))


def _named_none_of(values: Iterable[bytes]) -> Test:
    return _named(none_of(values))


def _named(test: Test) -> Test:
    """Refuse a machine without any identity, which may be any machine: CHIP_ID masked, and no HWID."""
    return lambda value, at: any(value) and test(value, at)


def _state_rules(snp: SnpDemands) -> Iterator[Rule]:
    """Make the rules for the launch of the guest and the requester of the report."""
    yield from _SNP.rule("vmpl", snp.vmpl, one_of, category="configuration")
    for bit, switch in snp.guest_policy.items():
        yield from _SNP.rule(f"guest_policy.{bit}", switch, is_, category="configuration", claim=f"policy.{bit}")
    yield from _SNP.rule(
        "minimum_abi",
        snp.minimum_abi,
        at_least,
        category="configuration",
        claim=_ABI,
        expected=lambda low: f"at least {low}",
    )
    yield from _SNP.minimum("guest_svn", snp.minimum_guest_svn, category="executables", claim="guest_svn")


def _firmware_rules(snp: SnpDemands) -> Iterator[Rule]:
    """Make the rules for the platform: firmware levels, host configuration, mitigations."""
    for which, (minimum, exact) in TCB_DEMANDS.items():
        claim = tcb_of_product(which)
        lowest, listed = getattr(snp, minimum), getattr(snp, exact)
        yield from _SNP.rule(
            minimum,
            lowest,
            covers,
            category="hardware",
            claim=claim,
            expected=minimum_tcbs_text,
            failure_text=shortfall,
        )
        yield from _SNP.rule(exact, listed, is_one_of, category="hardware", claim=claim, expected=exact_tcbs_text)
    yield from accepted_rules(_SNP, "accepted_spls", snp.accepted_spls)
    yield from _SNP.rule("provisional_firmware", snp.provisional_firmware, is_, category="hardware")
    yield from _SNP.rule("firmware_rollback_protected", snp.rollback_protection, is_, category="hardware")
    yield from _SNP.rule("rolled_back_since_launch", snp.rolled_back_since_launch, is_, category="hardware")
    yield from _SNP.rule("masked_chip_id", snp.masked_chip_id, is_, category="instance-identity", claim=_MASKED_VCEK)
    yield from _SNP.rule("signing_key", snp.signing_key, one_of, category="instance-identity")
    for bit, switch in snp.platform_info.items():
        yield from _SNP.rule(f"platform_info.{bit}", switch, is_, category="hardware")
    for name, mask in (
        ("launch_mit_vector", snp.mitigations_at_launch),
        ("current_mit_vector", snp.mitigations_now),
    ):
        bits = None if mask is None else Demand(mask)
        yield from _SNP.rule(name, bits, has_bits, category="hardware", expected=lambda bits: f"every bit of {bits:#x}")


_ABI = replace(
    snp_claim("policy.abi_major"),
    name="policy.abi",
    type=ClaimType.TCB,
    get=lambda v: SnpAbi(  # type: ignore[arg-type,return-value]  # two integers of every report, for a comparison
        major=snp_claim("policy.abi_major").get(v),  # type: ignore[arg-type]
        minor=snp_claim("policy.abi_minor").get(v),  # type: ignore[arg-type]
    ),
)
"""Firmware below what the guest policy demands does not launch the guest (sev-snp.md, POLICY)."""

_CHIP = replace(snp_claim("chip_id"), get=snp_claim("chip_identity").get)
"""The chip by its certificate where that names one: a host may mask CHIP_ID. Other Verifiers state CHIP_ID."""

_MASKED_VCEK = Claim(
    name="chip_id_masked",
    type=ClaimType.BOOLEAN,
    origin=Origin.HOST,
    clause="AMD 57230, HWID; AMD 56860, CHIP_ID",
    get=lambda v: v.leaf.hwid is not None and not any(v.report.chip_id),
)
"""Under a VLEK a zero CHIP_ID is normal; under a VCEK it keeps the certificate from being compared with the chip."""

EXTRACTED_PRODUCTS = ("Milan",)
"""Product lines whose VCEK seeds software can extract (arXiv 2605.12990): any report of any TCB can be forged."""

_BROKEN_PRODUCT = Rule(
    id="policy.snp.product_known_broken",
    category="hardware",
    claim=snp_claim("product"),
    expected="a product line whose report keys are not publicly extracted",
    holds=none_of(list(EXTRACTED_PRODUCTS)),
    otherwise=Outcome.WARNING,
)

BASELINE_SNP_RULES: tuple[Rule, ...] = (
    *_SNP.rule("guest_policy.debug", Demand(False), is_, category="configuration", claim="policy.debug"),  # noqa: FBT003
    *_SNP.rule("guest_policy.migrate_ma", Demand(False), is_, category="configuration", claim="policy.migrate_ma"),  # noqa: FBT003
    _BROKEN_PRODUCT,
)
"""Demands that no policy should relax. No production policy."""
