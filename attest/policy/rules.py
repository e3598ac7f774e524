"""Demands as rules over claims: one claim, one test, one check in the result.

A rule is prepared once, when the policy is loaded: its test is a function of one value, its text is written. So an
appraisal is a loop over rules, and each yields its check whatever came before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from attest.checks import Check, Outcome
from attest.encoding import rfc3339_text
from attest.evidence.claims import Claim, ClaimType, ClaimValue, Origin, value_text
from attest.evidence.snp.claims import snp_claim
from attest.evidence.snp.tcb import SnpProduct, SnpTcbVersion
from attest.policy.decode import Demand, Relaxed
from attest.policy.model import PolicyDocument, ReferenceValues, SnpDemands, TcbMinimums

__all__ = ["BASELINE_RULES", "Rule", "snp_rules"]

Test = Callable[[Any, datetime], bool]  # Any: the claim's own type, which the rule's maker knows


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One demand on one claim.

    Attributes:
        id: stable dotted name of the check (``policy.snp.measurement``).
        category: the AR4SI trustworthiness claim that it speaks for.
        claim: what is looked at; when the evidence does not carry it, the rule fails.
        expected: the demand, for people.
        holds: the test, given the value and the moment of appraisal.
        otherwise: how a test that does not hold counts: ``FAIL``, or ``WARNING`` for what people should know.
        relaxed: why the test is not made, if the policy's author decided so.
    """

    id: str
    category: str
    claim: Claim
    expected: str
    holds: Test
    otherwise: Outcome = Outcome.FAIL
    relaxed: str | None = None

    def judge(self, verified: object, *, at: datetime, item: str) -> Check:
        """Return the check for one device."""
        value = self.claim.get(verified)
        if self.relaxed is not None:
            outcome, expected = Outcome.NOT_EVALUATED, f"unchecked: {self.relaxed}"
        else:
            expected = self.expected
            outcome = Outcome.PASS if value is not None and self.holds(value, at) else self.otherwise
        return Check(
            id=self.id, outcome=outcome, expected=expected, got=value_text(value), clause=self.claim.clause, item=item
        )


# -- tests


def _one_of(values: Iterable[str | int | bytes]) -> Test:
    allowed = frozenset(values)
    return lambda value, _at: value in allowed


def _none_of(values: Iterable[str | int | bytes]) -> Test:
    denied = frozenset(values)
    return lambda value, _at: value not in denied


def _is(wanted: bool) -> Test:  # noqa: FBT001
    return lambda value, _at: value is wanted


def _at_least(minimum: int) -> Test:
    return lambda value, _at: value >= minimum


def _has_bits(mask: int) -> Test:
    return lambda value, _at: value & mask == mask


def _covers(minimums: TcbMinimums) -> Test:
    """Test that a TCB covers the minimum of its own product line; a line without one is refused."""

    def holds(value: tuple[SnpProduct, SnpTcbVersion], _at: datetime) -> bool:
        minimum = minimums.get(value[0])
        return minimum is not None and value[1].covers(minimum)

    return holds


def _matches(references: Iterable[ReferenceValues]) -> Test:
    """Test that a measurement is among reference values not yet expired (the last moment is included)."""
    ends = {value: reference.expires for reference in references for value in reference.values}
    return lambda value, at: value in ends and ((end := ends[value]) is None or at <= end)


# -- SEV-SNP


def snp_rules(policy: PolicyDocument) -> tuple[Rule, ...]:
    """Return the rules of a policy document for a SEV-SNP Attester."""
    return (*_identity_rules(policy), *_state_rules(policy.snp), *_firmware_rules(policy.snp), _BROKEN_PRODUCT)


def _rule(
    name: str,
    demand: Demand[Any] | None,  # Any: the demand's own type, which the caller pairs with its test
    test: Callable[[Any], Test],
    *,
    category: str,
    claim: Claim | None = None,
    expected: Callable[[Any], str] | None = None,
) -> Iterator[Rule]:
    """Make the rule for a demand; for one that is not made at all, none."""
    if demand is None:
        return
    rule_id, of, value = f"policy.snp.{name}", claim or snp_claim(name), demand.value
    if isinstance(value, Relaxed):
        yield Rule(id=rule_id, category=category, claim=of, expected="", holds=_never, relaxed=value.reason)
    else:
        text = (expected or _list_text)(value)
        yield Rule(id=rule_id, category=category, claim=of, expected=text, holds=test(value))


def _never(_value: ClaimValue, _at: datetime) -> bool:
    return False


def _list_text(value: ClaimValue | tuple[ClaimValue, ...]) -> str:
    if isinstance(value, tuple):
        return "one of " + ", ".join(value_text(member) for member in value)
    return value_text(value)


def _identity_rules(policy: PolicyDocument) -> Iterator[Rule]:
    """Ask who it is and what it runs."""
    snp, references = policy.snp, policy.reference_values
    yield from _rule("products", snp.products, _one_of, category="hardware", claim=snp_claim("product"))
    yield from _rule(
        "measurement",
        snp.measurement,
        lambda names: _matches([references[name] for name in names]),
        category="executables",
        expected=lambda names: "; ".join(_reference_text(name, references[name]) for name in names),
    )
    for name, demand, category in (
        ("host_data", snp.host_data, "configuration"),
        ("id_key_digest", snp.id_key_digests, "executables"),
        ("author_key_digest", snp.author_key_digests, "executables"),
        ("family_id", snp.family_ids, "executables"),
        ("image_id", snp.image_ids, "executables"),
        ("chip_id", snp.chip_ids, "instance-identity"),
        ("csp_id", snp.csp_ids, "instance-identity"),
    ):
        yield from _rule(name, demand, _one_of, category=category)
    if snp.denied_chip_ids:
        denied = Demand(snp.denied_chip_ids)
        yield from _rule(
            "denied_chip_ids",
            denied,
            _none_of,
            category="instance-identity",
            claim=snp_claim("chip_id"),
            expected=lambda values: _list_text(values).replace("one of", "none of", 1),
        )


def _reference_text(name: str, reference: ReferenceValues) -> str:
    until = "" if reference.expires is None else f" until {rfc3339_text(reference.expires)}"
    return f"{name}{until}: {' or '.join(value.hex() for value in reference.values)}"


def _state_rules(snp: SnpDemands) -> Iterator[Rule]:
    """Ask how the guest was launched and who wanted the report."""
    yield from _rule("vmpl", snp.vmpl, _one_of, category="configuration")
    for bit, demand in snp.guest_policy.items():
        claim = snp_claim(f"policy.{bit}")
        yield from _rule(f"guest_policy.{bit}", demand, _is, category="configuration", claim=claim)
    if snp.minimum_guest_svn is not None:
        svn = Demand(snp.minimum_guest_svn)
        yield from _rule("guest_svn", svn, _at_least, category="executables", expected=lambda low: f"at least {low}")


def _firmware_rules(snp: SnpDemands) -> Iterator[Rule]:
    """Ask about the platform: firmware levels, host configuration, mitigations."""
    for name, demand, which in (
        ("minimum_tcb", snp.minimum_tcb, "reported_tcb"),
        ("minimum_committed_tcb", snp.minimum_committed_tcb, "committed_tcb"),
        ("minimum_launch_tcb", snp.minimum_launch_tcb, "launch_tcb"),
    ):
        yield from _rule(name, demand, _covers, category="hardware", claim=_tcb_of_product(which), expected=_tcbs_text)
    for name, switch in (
        ("provisional_firmware", snp.provisional_firmware),
        ("firmware_rollback_protected", snp.rollback_protection),
    ):
        yield from _rule(name, switch, _is, category="hardware")
    yield from _rule("masked_chip_id", snp.masked_chip_id, _is, category="instance-identity", claim=_MASKED_VCEK)
    yield from _rule("signing_key", snp.signing_key, _one_of, category="instance-identity")
    for bit, switch in snp.platform_info.items():
        claim = snp_claim(f"platform_info.{bit}")
        yield from _rule(f"platform_info.{bit}", switch, _is, category="hardware", claim=claim)
    for name, mask in (
        ("launch_mit_vector", snp.mitigations_at_launch),
        ("current_mit_vector", snp.mitigations_now),
    ):
        bits = None if mask is None else Demand(mask)
        yield from _rule(name, bits, _has_bits, category="hardware", expected=lambda bits: f"every bit of {bits:#x}")


def _tcbs_text(minimums: Mapping[SnpProduct, SnpTcbVersion]) -> str:
    return "; ".join(f"at least {tcb} on {product}" for product, tcb in minimums.items())


class _ProductTcb(tuple[SnpProduct, SnpTcbVersion]):
    """A TCB with its product line, which is what a minimum is about."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{self[1]} on {self[0]}"


def _tcb_of_product(which: str) -> Claim:
    plain = snp_claim(which)
    return Claim(
        name=which,
        type=ClaimType.TCB,
        origin=plain.origin,
        clause=plain.clause,
        get=lambda v: _ProductTcb((v.product, getattr(v, which))),  # type: ignore[arg-type,return-value]  # for _covers
    )


_MASKED_VCEK = Claim(
    name="chip_id_masked",
    type=ClaimType.BOOLEAN,
    origin=Origin.HOST,
    clause="sev-snp.md 10",
    get=lambda v: v.leaf.hwid is not None and not any(v.report.chip_id),
)
"""Under a VLEK a zero CHIP_ID is normal; under a VCEK it keeps the certificate from being compared with the chip."""

_BROKEN_PRODUCT = Rule(
    id="policy.snp.product_known_broken",
    category="hardware",
    claim=snp_claim("product"),
    expected="a product line whose report keys are not publicly extracted",
    holds=_none_of(["Milan"]),
    otherwise=Outcome.WARNING,
)
"""VCEK seeds of Milan can be extracted by software (arXiv 2605.12990): any report of any TCB can be forged."""

_BASELINE_SNP: tuple[Rule, ...] = (
    *_rule("guest_policy.debug", Demand(False), _is, category="configuration", claim=snp_claim("policy.debug")),  # noqa: FBT003
    *_rule(
        "guest_policy.migrate_ma",
        Demand(False),  # noqa: FBT003
        _is,
        category="configuration",
        claim=snp_claim("policy.migrate_ma"),
    ),
    _BROKEN_PRODUCT,
)

BASELINE_RULES: Mapping[str, tuple[Rule, ...]] = {"sev-snp": _BASELINE_SNP}
"""What nobody sensible wants relaxed, for ``attest appraise`` without a policy. No production policy."""
