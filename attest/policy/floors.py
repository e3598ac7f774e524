"""Floors: firmware levels that a policy demands of named products, and of nothing else.

A floor is compiled into the same rules as any policy. A product that it does not name meets it. Evidence that does not
state its product, and a token in the place of evidence, does not. No relaxation of verification relaxes a floor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from attest.encoding import rfc3339_text
from attest.evidence.claims import Claim, ClaimType, ClaimValue
from attest.evidence.gpu.claims import gpu_claim, switch_claim
from attest.evidence.intel.claims import sgx_claim, tdx_claim
from attest.evidence.snp.claims import snp_claim
from attest.evidence.snp.tcb import SnpProduct, SnpTcbVersion
from attest.policy.azure import rules_of_cpu
from attest.policy.decoder import Demand, choice, integer, moment, refuse
from attest.policy.intel_tcb import ADVISORY_ID, ALLOWED_STATUSES, not_before, tcb_status_rule
from attest.policy.loader import Policy
from attest.policy.rule_tree import AllBranch, Leaf
from attest.policy.rules import Rule, RuleMaker, Test
from attest.policy.snp_tcb import covers, shortfall, tcb_of_product
from attest.policy.versions import Numbering, Version, parse_version

_SIMULATED: Final = "a floor covers firmware; the policy of a key covers the anchor"
_Value = Any  # the component's own type, which its kind reads, compares and joins


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """A kind of component: how its value is read and written, and which of two values demands more."""

    read: Callable[[str, str], _Value]
    write: Callable[[_Value], str]
    covers: Callable[[_Value, _Value], bool]
    join: Callable[[_Value, _Value], _Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class FloorDemand:
    """One demand on one product; made by ``read_floor_demand``.

    Attributes:
        product: in lower case: AMD's product line, ``tdx``, ``sgx``, or NVIDIA's architecture.
        component: ``snp``, ``tcb_status``, ``driver``, ….
        text: the demanded value, in its one spelling.
    """

    product: str
    component: str
    text: str

    @property
    def value(self) -> _Value:
        """The demanded value, read."""
        return _kind(self.product, self.component).read(self.text, f"{self.product}:{self.component}")

    def covers(self, other: FloorDemand) -> bool:
        """Return True if all that meets this demand meets the other one, too."""
        same = (self.product, self.component) == (other.product, other.component)
        return same and _kind(self.product, self.component).covers(self.value, other.value)

    def __str__(self) -> str:
        return f"{self.product}:{self.component}={self.text}"


def read_floor_demand(product: str, component: str, text: str) -> FloorDemand:
    """Read a demand.

    Raises:
        ConfigurationError: ``policy-invalid``: no such product or component, or no value of it.
    """
    name = choice(FLOOR_COMPONENTS)(product.lower(), "product")
    choice(FLOOR_COMPONENTS[name])(component, f"{name}: component")
    kind = _kind(name, component)
    return FloorDemand(product=name, component=component, text=kind.write(kind.read(text, f"{name}:{component}")))


# -- components


def _read_level(text: str, path: str) -> int:
    found = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else text
    return integer(0, 255)(found, path)


def _read_number(text: str, path: str) -> int:
    found = int(text) if text.isascii() and text.isdigit() and len(text) < 11 else text
    return integer(1, 2**31)(found, path)


def _read_statuses(text: str, path: str) -> frozenset[str]:
    return frozenset(choice(ALLOWED_STATUSES)(one, path) for one in text.split("+"))


def _read_advisory(text: str, path: str) -> frozenset[str]:
    if not ADVISORY_ID.fullmatch(text):
        raise refuse(path, "an advisory such as INTEL-SA-00837", text)
    return frozenset({text})


def _read_version(numbering: Numbering) -> Callable[[str, str], Version]:
    def read(text: str, path: str) -> Version:
        found = parse_version(text, numbering)
        if found is None:
            raise refuse(path, f"a version such as {numbering.example}", text)
        return found

    return read


def _join_set(one: frozenset[str]) -> str:
    return "+".join(sorted(one))


def _version_kind(numbering: Numbering) -> _Kind:
    return _Kind(
        read=_read_version(numbering),
        write=str,
        covers=lambda a, b: a.components >= b.components,
        join=lambda a, b: max(a, b, key=lambda one: one.components),
    )


def _ordered(read: Callable[[str, str], _Value], write: Callable[[_Value], str] = str) -> _Kind:
    return _Kind(read=read, write=write, covers=lambda a, b: a >= b, join=max)


_LEVEL = _ordered(_read_level)
_SNP_PARTS: Final = dict.fromkeys(("bootloader", "tee", "snp", "microcode"), _LEVEL)
_INTEL: Final = {
    "tcb_status": _Kind(read=_read_statuses, write=_join_set, covers=lambda a, b: a <= b, join=lambda a, b: a & b),
    "tcb_date": _ordered(moment, rfc3339_text),
    "tcb_evaluation_data_number": _ordered(_read_number),
    "advisory": _Kind(read=_read_advisory, write=_join_set, covers=lambda a, b: a >= b, join=lambda a, b: a | b),
}
_VBIOS, _DRIVER = _version_kind(Numbering.HEX), _version_kind(Numbering.DECIMAL)
FLOOR_COMPONENTS: Final[Mapping[str, Mapping[str, _Kind]]] = MappingProxyType(
    {
        **{str(one).lower(): ({"fmc": _LEVEL} if one.has_fmc else {}) | _SNP_PARTS for one in SnpProduct},
        "tdx": _INTEL,
        "sgx": _INTEL,
        "hopper": {"driver": _DRIVER, "vbios": _VBIOS},
        "blackwell": {"driver": _DRIVER, "vbios": _VBIOS},
        "ls10": {"vbios": _VBIOS},
    }
)
"""The components of each product that a floor can name."""


def _kind(product: str, component: str) -> _Kind:
    return FLOOR_COMPONENTS[product][component]


# -- the policy


def floor_policy(name: str, version: int, digest: bytes, demands: Iterable[FloorDemand]) -> Policy:
    """Return the policy that demands all of this, and nothing else; of several levels of a component the highest.

    ``digest`` is the SHA-256 of the floor's document, 32 bytes.
    """
    levels = dict[str, dict[str, _Value]]()
    for one in demands:
        of = levels.setdefault(one.product, {})
        join = _kind(one.product, one.component).join
        of[one.component] = join(of[one.component], one.value) if one.component in of else one.value
    snp, tdx = tuple(_snp_rules(levels)), tuple(_intel_rules(_TDX, levels.get("tdx", {})))
    rules = {
        "sev-snp": snp,
        "tdx": tdx,
        "sgx": tuple(_intel_rules(_SGX, levels.get("sgx", {}))),
        "azure-snp": rules_of_cpu(snp, "snp"),
        "azure-tdx": rules_of_cpu(tdx, "tdx"),
        "nvidia-gpu": tuple(_device_rules(_GPU, levels)),
        "nvidia-switch": tuple(_device_rules(_SWITCH, levels)),
        "sample": (),
        "sample-device": (),
    }
    leaves = tuple(Leaf(path="", kind=kind, rules=of) for kind, of in rules.items())
    tree = AllBranch(path="", members=leaves)
    return Policy(name=name, version=version, digest=digest, tree=tree, simulated=_SIMULATED, unchecked=())


_SNP, _TDX, _SGX = RuleMaker("snp", snp_claim), RuleMaker("tdx", tdx_claim), RuleMaker("sgx", sgx_claim)
_GPU, _SWITCH = RuleMaker("gpu", gpu_claim), RuleMaker("nvswitch", switch_claim)


def _snp_rules(levels: Mapping[str, Mapping[str, int]]) -> Iterator[Rule]:
    """Make the rule for the reported TCB; components and product lines that are not named may have any level."""
    lines = [line for line in SnpProduct if str(line).lower() in levels]
    if not lines:
        return
    least = {line: _least(line, levels.get(str(line).lower(), {})) for line in SnpProduct}
    texts = (", ".join(f"{n} {level}" for n, level in levels[str(line).lower()].items()) for line in lines)
    expected = "; ".join(f"at least {text} on {line}" for line, text in zip(lines, texts, strict=True))
    yield from _SNP.rule(
        "minimum_tcb",
        Demand(least),
        covers,
        category="hardware",
        claim=tcb_of_product("reported_tcb"),
        expected=lambda _: expected,
        failure_text=shortfall,
    )


def _least(line: SnpProduct, levels: Mapping[str, int]) -> SnpTcbVersion:
    parts = {name: levels.get(name, 0) for name in _SNP_PARTS}
    return SnpTcbVersion(fmc=levels.get("fmc", 0) if line.has_fmc else None, **parts)


def _intel_rules(make: RuleMaker, levels: Mapping[str, _Value]) -> Iterator[Rule]:
    """Make the rules for Intel's judgement of the TCB; a TCB that was not evaluated meets none of them."""
    if "tcb_status" in levels:
        # What verification left unchecked is absent, and fails.
        statuses = Demand(tuple(sorted(levels["tcb_status"])))
        yield from (replace(rule, tolerated_by=None) for rule in tcb_status_rule(make, statuses))
    yield from make.rule(
        "minimum_tcb_date",
        Demand(levels["tcb_date"]) if "tcb_date" in levels else None,
        not_before,
        category="hardware",
        claim="tcb_date",
        expected=_date_text,
    )
    yield from make.rule(
        "refused_advisories",
        Demand(levels["advisory"]) if "advisory" in levels else None,
        _lists_none,
        category="hardware",
        claim="advisory_ids",
        expected=_refused_text,
    )
    least = levels.get("tcb_evaluation_data_number")
    for claim in ("tcb_evaluation_data_number", "qe_identity_evaluation_data_number"):
        yield from make.minimum(f"minimum_{claim}", least, category="hardware", claim=claim)


def _date_text(first: datetime) -> str:
    return f"{rfc3339_text(first)} or later"


def _lists_none(refused: frozenset[str]) -> Test:
    """Test that none of these advisories is listed."""
    return lambda listed, _at: refused.isdisjoint(listed)


def _refused_text(advisories: frozenset[str]) -> str:
    return f"none of {_join_set(advisories)}"


def _device_rules(make: RuleMaker, levels: Mapping[str, Mapping[str, _Value]]) -> Iterator[Rule]:
    """Make the rules for versions by architecture; an architecture that is not named may have any version."""
    for component, claim, numbering in _VERSIONED[make.section]:
        least = {one: of[component] for one, of in levels.items() if one in _DEVICES[make.section] and component in of}
        yield from make.rule(
            f"{claim}s",
            Demand(least) if least else None,
            _reaches(numbering),
            category="executables",
            claim=_with_architecture(make.claim_of(claim), make.claim_of("architecture")),
            expected=lambda low: "; ".join(f"at least {version} on {one}" for one, version in low.items()),
        )


_DEVICES: Final = {"gpu": ("hopper", "blackwell"), "nvswitch": ("ls10",)}
_VBIOS_CLAIM: Final = ("vbios", "vbios_version", Numbering.HEX)
_VERSIONED: Final = {
    "gpu": (("driver", "driver_version", Numbering.DECIMAL), _VBIOS_CLAIM),
    "nvswitch": (_VBIOS_CLAIM,),
}


def _with_architecture(version: Claim, architecture: Claim) -> Claim:
    """Return a version together with the architecture, without which it means nothing."""

    def read(subject: object) -> ClaimValue:
        kind, found = architecture.read(subject), version.read(subject)
        if kind is None:
            return None
        return {"architecture": kind} if found is None else {"architecture": kind, "version": found}

    return replace(version, type=ClaimType.OBJECT, get=read, stated=read)


def _reaches(numbering: Numbering) -> Callable[[Mapping[str, Version]], Test]:
    """Make the test that a device's version reaches the least one of its architecture."""

    def test(least: Mapping[str, Version]) -> Test:
        def holds(device: Mapping[str, str], _at: datetime) -> bool:
            wanted = least.get(device["architecture"])
            if wanted is None:
                return True
            version = parse_version(device.get("version", ""), numbering)
            return version is not None and version.components >= wanted.components

        return holds

    return test
