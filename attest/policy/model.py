"""The policy document as types: what an Appraisal Policy for Evidence can say.

Every key is known, every list has a member, and what is left out is demanded in its strict form. To relax a demand
one writes ``{unchecked: "reason"}`` in its place; the reason then stands in every result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from attest.checks import Unchecked
from attest.encoding import JsonValue
from attest.evidence.snp.structure import GUEST_POLICY_BITS, PLATFORM_INFO_BITS
from attest.evidence.snp.tcb import SnpProduct, SnpTcbVersion
from attest.policy.decode import (
    Decoder,
    Demand,
    Relaxed,
    Section,
    boolean,
    choice,
    demand,
    hex_of,
    integer,
    list_of,
    moment,
    refuse,
    table_of,
    text,
)

__all__ = ["SCHEMA", "PolicyDocument", "ReferenceValues", "SnpDemands", "decode_policy"]

SCHEMA = "attest.policy/1"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_MEASUREMENT_BYTES = 48
_HIGHEST_VMPL = 3
_LARGEST_EXACT = 2**53 - 1
"""Canonical JSON (RFC 8785) has no larger integers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceValues:
    """Expected measurements under one name.

    Attributes:
        values: launch digests of 48 bytes; one image has several, by number and type of vCPUs.
        origin: where they come from (build, command, supplier), for people.
        expires: last moment at which they count, included; None for no end.
    """

    values: tuple[bytes, ...]
    origin: str
    expires: datetime | None


TcbMinimums = Mapping[SnpProduct, SnpTcbVersion]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnpDemands:
    """What is demanded of a SEV-SNP Attester; None where nothing is. See docs/policy.md for each key."""

    products: Demand[tuple[str, ...]]
    measurement: Demand[tuple[str, ...]]
    minimum_tcb: Demand[TcbMinimums]
    vmpl: Demand[tuple[int, ...]]
    signing_key: Demand[tuple[str, ...]]
    provisional_firmware: Demand[bool]
    masked_chip_id: Demand[bool]
    rollback_protection: Demand[bool]
    guest_policy: Mapping[str, Demand[bool]]
    platform_info: Mapping[str, Demand[bool]]
    minimum_committed_tcb: Demand[TcbMinimums] | None = None
    minimum_launch_tcb: Demand[TcbMinimums] | None = None
    chip_ids: Demand[tuple[bytes, ...]] | None = None
    denied_chip_ids: tuple[bytes, ...] = ()
    host_data: Demand[tuple[bytes, ...]] | None = None
    id_key_digests: Demand[tuple[bytes, ...]] | None = None
    author_key_digests: Demand[tuple[bytes, ...]] | None = None
    family_ids: Demand[tuple[bytes, ...]] | None = None
    image_ids: Demand[tuple[bytes, ...]] | None = None
    csp_ids: Demand[tuple[str, ...]] | None = None
    minimum_guest_svn: int | None = None
    mitigations_at_launch: int | None = None
    mitigations_now: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyDocument:
    """A policy as its author wrote it, with everything that was left out filled in strictly."""

    name: str
    version: int
    description: str
    simulated: Demand[str]
    unchecked: tuple[Unchecked, ...]
    reference_values: Mapping[str, ReferenceValues]
    snp: SnpDemands


_STRICT_GUEST_POLICY = {"debug": Demand(False), "migrate_ma": Demand(False)}  # noqa: FBT003
_STRICT_PLATFORM_INFO = {"alias_check_complete": Demand(True)}  # noqa: FBT003


_NO_REFERENCES: Mapping[str, ReferenceValues] = {}
_NO_BITS: Mapping[str, Demand[bool]] = {}


def decode_policy(document: JsonValue) -> PolicyDocument:
    """Read a policy document.

    Raises:
        ConfigurationError: ``policy-invalid``, with the path of the value and what was expected there.
    """
    top = Section(document, "")
    schema = top.required("schema", text)
    if schema != SCHEMA:
        raise refuse("schema", repr(SCHEMA), schema)
    references = top.optional("reference_values", table_of(_reference_values), default=_NO_REFERENCES)
    policy = PolicyDocument(
        name=top.required("name", _name),
        version=top.required("version", integer(1, 2**31)),
        description=top.optional("description", text, default=""),
        simulated=top.optional("simulated", demand(choice(["refuse"])), default=Demand("refuse")),
        unchecked=top.optional("unchecked", _unchecked, default=()),
        reference_values=references,
        snp=top.required("snp", lambda value, path: _snp(value, path, references)),
    )
    top.finish()
    return policy


def _name(value: JsonValue, path: str) -> str:
    if not _NAME.fullmatch(text(value, path)):
        raise refuse(path, "lower-case letters, digits, '.', '_' and '-', at most 64", value)
    return text(value, path)


def _unchecked(value: JsonValue, path: str) -> tuple[Unchecked, ...]:
    reasons = table_of(text, keys=Unchecked.NAMES)(value, path)
    return tuple(Unchecked(check=name, reason=reason) for name, reason in reasons.items())


def _reference_values(value: JsonValue, path: str) -> ReferenceValues:
    section = Section(value, path)
    found = ReferenceValues(
        values=section.required("values", list_of(hex_of(_MEASUREMENT_BYTES))),
        origin=section.required("origin", text),
        expires=section.optional("expires", moment, default=None),
    )
    section.finish()
    return found


def _snp(value: JsonValue, path: str, references: Mapping[str, ReferenceValues]) -> SnpDemands:
    section = Section(value, path)
    named = choice(references) if references else _no_references
    tcbs = demand(_tcb_minimums)
    demands = SnpDemands(
        products=section.required("products", demand(list_of(choice(SnpProduct)))),
        measurement=section.required("measurement", demand(list_of(named))),
        minimum_tcb=section.required("minimum_tcb", tcbs),
        minimum_committed_tcb=section.optional("minimum_committed_tcb", tcbs, default=None),
        minimum_launch_tcb=section.optional("minimum_launch_tcb", tcbs, default=None),
        vmpl=section.optional("vmpl", demand(list_of(integer(0, _HIGHEST_VMPL))), default=Demand((0,))),
        signing_key=section.optional(
            "signing_key", demand(list_of(choice(["vcek", "vlek"]))), default=Demand(("vcek", "vlek"))
        ),
        guest_policy=_bits(section, "guest_policy", GUEST_POLICY_BITS, strict=_STRICT_GUEST_POLICY),
        platform_info=_bits(section, "platform_info", PLATFORM_INFO_BITS, strict=_STRICT_PLATFORM_INFO),
        provisional_firmware=section.optional("provisional_firmware", _must_be(False), default=Demand(False)),  # noqa: FBT003
        masked_chip_id=section.optional("masked_chip_id", _must_be(False), default=Demand(False)),  # noqa: FBT003
        rollback_protection=section.optional("rollback_protection", _must_be(True), default=Demand(True)),  # noqa: FBT003
        chip_ids=section.optional("chip_ids", demand(list_of(hex_of(64))), default=None),
        denied_chip_ids=section.optional("denied_chip_ids", list_of(hex_of(64)), default=()),
        host_data=section.optional("host_data", demand(list_of(hex_of(32))), default=None),
        id_key_digests=section.optional("id_key_digests", demand(list_of(hex_of(48))), default=None),
        author_key_digests=section.optional("author_key_digests", demand(list_of(hex_of(48))), default=None),
        family_ids=section.optional("family_ids", demand(list_of(hex_of(16))), default=None),
        image_ids=section.optional("image_ids", demand(list_of(hex_of(16))), default=None),
        csp_ids=section.optional("csp_ids", demand(list_of(text)), default=None),
        minimum_guest_svn=section.optional("minimum_guest_svn", integer(0, 2**32 - 1), default=None),
        mitigations_at_launch=section.optional("mitigations_at_launch", integer(1, _LARGEST_EXACT), default=None),
        mitigations_now=section.optional("mitigations_now", integer(1, _LARGEST_EXACT), default=None),
    )
    section.finish()
    return demands


def _no_references(value: JsonValue, path: str) -> str:
    raise refuse(path, "a name under reference_values, of which there are none", value)


def _must_be(strict: bool) -> Decoder[Demand[bool]]:  # noqa: FBT001
    """Decode a demand that has one strict value; the other one would be a relaxation without a reason."""

    def decode(value: JsonValue, path: str) -> Demand[bool]:
        found = demand(boolean)(value, path)
        if not isinstance(found.value, Relaxed) and found.value is not strict:
            raise refuse(path, f"{str(strict).lower()}, or {{unchecked: reason}}", value)
        return found

    return decode


def _bits(
    section: Section, name: str, bits: tuple[tuple[str, int], ...], *, strict: Mapping[str, Demand[bool]]
) -> Mapping[str, Demand[bool]]:
    """Named bits that must be set or clear; those in ``strict`` are demanded even when nobody mentions them."""
    stated = section.optional(name, table_of(demand(boolean), keys=[bit for bit, _ in bits]), default=_NO_BITS)
    for bit, wanted in strict.items():
        found = stated.get(bit, wanted)
        if not isinstance(found.value, Relaxed) and found.value is not wanted.value:
            raise refuse(
                f"{section.path(name)}.{bit}", f"{str(wanted.value).lower()}, or {{unchecked: reason}}", found.value
            )
    return {**strict, **stated}


def _tcb_minimums(value: JsonValue, path: str) -> TcbMinimums:
    minimums = table_of(_raw, keys=SnpProduct)(value, path)
    return {SnpProduct(line): _tcb(member, f"{path}.{line}", SnpProduct(line)) for line, member in minimums.items()}


def _raw(value: JsonValue, path: str) -> JsonValue:
    del path
    return value


def _tcb(value: JsonValue, path: str, product: SnpProduct) -> SnpTcbVersion:
    """All components of the product line: one that is left out would silently be zero."""
    section, level = Section(value, path), integer(0, 255)
    tcb = SnpTcbVersion(
        fmc=section.required("fmc", level) if product.has_fmc else None,
        bootloader=section.required("bootloader", level),
        tee=section.required("tee", level),
        snp=section.required("snp", level),
        microcode=section.required("microcode", level),
    )
    section.finish()
    return tcb
