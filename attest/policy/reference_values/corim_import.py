"""Import of a CoRIM into a document of reference values: its digests, and the parts left out (see ``corim``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from attest.endorsements.tagged_cbor import Tagged, TaggedKey, TaggedValue
from attest.errors import EvidenceError
from attest.policy.decoder import RelaxedDemand
from attest.policy.reference_values.corim import (
    CORIM_CLAUSE,
    CorimMap,
    ParsedCorim,
    corim_text,
    malformed,
    require_map,
)
from attest.policy.reference_values.reference_documents import (
    ReferenceDocument,
    ReferenceEntry,
    make_reference_document,
)

MAX_TRIPLES = 5_000
AMD_PROFILE = "tag:amd.com,2024:snp-corim-profile"
INTEL_PROFILE = bytes.fromhex("6086480186f84d011001")
"""OID 2.16.840.1.113741.1.16.1."""
_SHA256_NUMBER, _SHA384_NUMBER = 1, 7
_DIGEST_BYTES = {_SHA256_NUMBER: 32, _SHA384_NUMBER: 48}
"""Digest sizes of CoMID by algorithm: numbers in IANA's registry of named information."""
_TAG_BYTES = 560
_AMD_MEASUREMENT = 641
_DIGESTS, _RAW_VALUE, _MASK, _REGISTERS, _MR_TEE, _MR_SIGNER = 2, 4, 5, 14, -83, -84
_BASE_FIELDS = frozenset(range(16)) - {12}
_INTEL_FIELDS = frozenset({-73, -82, -83, -84, -85, -86})
_AMD_MKEYS = {
    2: "policy",
    6: "current TCB",
    7: "platform info",
    640: "report data",
    645: "report id",
    646: "report id of the migration agent",
    647: "reported TCB",
    3328: "chip id",
    3329: "committed TCB",
    3330: "current version",
    3936: "committed version",
    3968: "launch TCB",
}
_TRIPLES = {
    1: "endorsed values",
    2: "identity keys",
    3: "attestation keys",
    4: "dependencies",
    5: "memberships",
    6: "CoSWID tags",
    8: "conditional endorsement series",
    10: "conditional endorsements",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedCorim:
    """A document of ours from a CoRIM, with its own digest, and the parts of the CoRIM that it leaves out."""

    document: ReferenceDocument
    left_out: tuple[str, ...]


def references_from_corim(
    parsed: ParsedCorim, *, at: datetime, name: str | None = None, version: int = 1, how: str | None = None
) -> ImportedCorim:
    """Carry the reference values of a CoRIM over into a document of ours.

    The CoRIM may be verified or not: the caller decides whether that matters. ``at`` becomes ``issued`` where it names
    no beginning, and its id is the default ``name``. ``how`` is the caller's proof of its author, for the document's
    origin.

    Raises:
        EvidenceError: ``corim-malformed``; ``corim-empty``, nothing in it can be carried over.
    """
    carried = _Carried(profile=parsed.profile)
    for index, comid in enumerate(parsed.comids):
        _read_comid(comid, f"comid[{index}]", carried)
    left_out = (*parsed.left_out, *dict.fromkeys(carried.left_out))
    if not carried.entries:
        raise _empty(parsed.id, "; ".join(left_out[:5]))
    signer_note = None if parsed.signer is None else f"which names {parsed.signer} as its signer"
    document = make_reference_document(
        name=name or parsed.id,
        version=version,
        origin=", ".join(part for part in (f"CoRIM {parsed.id}", signer_note, how) if part is not None),
        issued=parsed.not_before or at,
        expires=parsed.not_after or RelaxedDemand(reason="the CoRIM has no expiry"),
        entries={
            name: ReferenceEntry(kind=kind, values=tuple(values)) for name, (kind, values) in carried.entries.items()
        },
    )
    return ImportedCorim(document=document, left_out=left_out)


def _empty(name: str, left_out: str) -> EvidenceError:
    return EvidenceError(
        f"CoRIM {name!r} has no value that can be imported: {left_out or 'it has no triples'}",
        code="corim-empty",
        expected="digests under AMD's or Intel's profile",
        got=left_out or "no reference triples",
        clause=CORIM_CLAUSE,
    )


@dataclass(slots=True, kw_only=True)
class _Carried:
    """The values found so far."""

    profile: str | bytes | None
    entries: dict[str, tuple[str, dict[bytes, None]]] = field(default_factory=dict[str, tuple[str, dict[bytes, None]]])
    left_out: list[str] = field(default_factory=list[str])
    triples: int = 0

    def add(self, label: str, kind: str, value: bytes) -> None:
        """Put a value under its label; one label of two kinds becomes two names."""
        name = label
        if name in self.entries and self.entries[name][0] != kind:
            name = f"{label} {kind}"
        self.entries.setdefault(name, (kind, {}))[1][value] = None


def _read_comid(comid: CorimMap, path: str, carried: _Carried) -> None:
    identity = require_map(comid.get(1), f"{path}.tag-identity")
    triples = require_map(comid.get(4), f"{path}.triples")
    label = corim_text(identity.get(0)) or path
    if 3 in comid:
        carried.left_out.append(f"{path}: linked tags")
    for number in triples:
        if number != 0:
            carried.left_out.append(f"{path}: {_TRIPLES.get(_number(number), f'triples {number!s:.20}')}")
    references = triples.get(0, ())
    if not isinstance(references, tuple):
        raise malformed(f"{path}.triples[0]", "a list", "something else")
    for at, triple in enumerate(references):
        carried.triples += 1
        if carried.triples > MAX_TRIPLES:
            raise malformed("triples", f"at most {MAX_TRIPLES}", "more")
        _read_triple(triple, f"{path}.reference[{at}]", label, carried)


def _read_triple(triple: TaggedValue, path: str, label: str, carried: _Carried) -> None:
    match triple:
        case (Mapping() as environment, tuple() as measurements) if measurements:
            pass
        case _:
            raise malformed(path, "an environment and a list of measurements", "something else")
    if 1 in environment or 2 in environment:
        carried.left_out.append(f"{path}: values of one instance or group")
        return
    found: list[tuple[str, bytes]] = []
    notes: list[str] = []
    for at, measurement in enumerate(measurements):
        place = f"{path}.measurement[{at}]"
        problem = _read_measurement(
            require_map(measurement, place), place, _model(environment), carried.profile, found, notes
        )
        if problem is not None:
            # All of a triple must match, so that one part that never does makes the whole never match.
            carried.left_out.append(f"{place}: {problem}; this triple is not imported")
            return
    carried.left_out += notes
    for kind, value in found:
        carried.add(label, kind, value)


def _read_measurement(  # noqa: PLR0917  two lists to add to, after what is read
    measurement: CorimMap,
    path: str,
    model: str,
    profile: str | bytes | None,
    found: list[tuple[str, bytes]],
    notes: list[str],
) -> str | None:
    """Add what one measurement gives; return why it can never match, or None."""
    values = require_map(measurement.get(1), f"{path}.mval")
    key = measurement.get(0)
    intel = profile == INTEL_PROFILE
    unknown = set(values) - _BASE_FIELDS - (_INTEL_FIELDS if intel else frozenset())
    if unknown or set(measurement) - {0, 1, 2}:
        return f"{', '.join(sorted(map(str, unknown)))[:80] or 'a member'} is not known"
    if 2 in measurement:
        notes.append(f"{path}: who may say so (authorised-by)")
    try:
        taken = _amd(key, values) if profile == AMD_PROFILE else _intel(values, model) if intel else {}
    except _NeverMatchesError as exc:
        return str(exc)
    found += [(kind, value) for pairs in taken.values() for kind, value in pairs]
    for name in set(values) - set(taken):
        meaning = _AMD_MKEYS.get(_number(key), "") if profile == AMD_PROFILE else ""
        notes.append(f"{path}: {meaning or f'field {name!s}'}{'' if key is None else f' of mkey {_shown(key)}'}")
    return None


class _NeverMatchesError(Exception):
    """A reference that equals no evidence."""


_Taken = dict[TaggedKey, list[tuple[str, bytes]]]


def _amd(key: TaggedValue, values: CorimMap) -> _Taken:
    """Return what AMD's profile gives, by field of mval: the launch measurement, as digest or as raw value."""
    if key != _AMD_MEASUREMENT:
        return {}
    taken: _Taken = {}
    if _DIGESTS in values:
        taken[_DIGESTS] = [("snp-measurement", value) for value in _digests(values[_DIGESTS], _SHA384_NUMBER)]
    raw = values.get(_RAW_VALUE)
    if isinstance(raw, Tagged) and raw.tag == _TAG_BYTES and _MASK not in values:
        if not isinstance(raw.value, bytes) or len(raw.value) != _DIGEST_BYTES[_SHA384_NUMBER]:
            raise _NeverMatchesError("a measurement that does not have 48 bytes")
        taken[_RAW_VALUE] = [("snp-measurement", raw.value)]
    if len(taken) == 2 and taken[_DIGESTS] != taken[_RAW_VALUE]:
        raise _NeverMatchesError("two different measurements at once")
    return taken


def _intel(values: CorimMap, model: str) -> _Taken:
    """Return what Intel's profile gives: MRTEE and MRSIGNER of a TD or an enclave, and the RTMRs."""
    if "QE" in model:
        return {}  # the Quoting Enclave is judged by Intel's signed identity
    seam = "SEAM" in model
    taken: _Taken = {}
    tee = {48: "tdx-mr-seam" if seam else "tdx-mr-td", 32: "sgx-mr-enclave"}
    if _MR_TEE in values:
        taken[_MR_TEE] = [(tee[len(value)], value) for value in _choices(values[_MR_TEE])]
    if _MR_SIGNER in values:
        # Of a TD the signer is that of the TDX module, which verification demands to be Intel.
        signers = [("sgx-mr-signer", value) for value in _choices(values[_MR_SIGNER]) if len(value) == 32]
        if signers:
            taken[_MR_SIGNER] = signers
    if _REGISTERS in values:
        taken[_REGISTERS] = list(_registers(values[_REGISTERS]))
    return taken


def _registers(value: TaggedValue) -> Iterator[tuple[str, bytes]]:
    registers = require_map(value, "integrity registers")
    if not registers:
        raise _NeverMatchesError("no integrity register")
    for index, digests in registers.items():
        number = {"0": 0, "1": 1, "2": 2, "3": 3}.get(str(index).lower().removeprefix("rtmr"))
        if number is None or isinstance(index, bytes):
            raise _NeverMatchesError(f"integrity register {str(index)[:20]}, which a TD does not have")
        for digest in _digests(digests, _SHA384_NUMBER):
            yield f"tdx-rtmr{number}", digest


def _choices(value: TaggedValue) -> list[bytes]:
    """Return one digest, or those of which the evidence must be one."""
    match value:
        case Tagged(tag=60020, value=(6, tuple() as members)):
            found = [digest for member in members for digest in _digests((member,), None)]
        case _:
            found = _digests(value, None)
    if not found:
        raise _NeverMatchesError("an empty set")
    return found


def _digests(value: TaggedValue, wanted: int | None) -> list[bytes]:
    """Return the one digest of a list that evidence is compared by.

    Every algorithm that both sides have must agree and one must be there; our evidence has one. A list that is empty
    or has an algorithm twice equals nothing.
    """
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], int) and isinstance(value[1], bytes):
        value = (value,)
    found: dict[int, bytes] = {}
    for member in value if isinstance(value, tuple) else ():
        match member:
            case (int(algorithm), bytes(digest)) if not isinstance(algorithm, bool):
                pass
            case _:
                raise _NeverMatchesError("a digest that is no pair of algorithm and bytes")
        if algorithm in found:
            raise _NeverMatchesError(f"algorithm {algorithm} twice in one list of digests")
        if len(digest) != _DIGEST_BYTES.get(algorithm, len(digest)):
            raise _NeverMatchesError(f"a digest of {len(digest)} bytes under algorithm {algorithm}")
        found[algorithm] = digest
    order = (_SHA384_NUMBER, _SHA256_NUMBER) if wanted is None else (wanted,)
    for algorithm in order:
        if algorithm in found:
            return [found[algorithm]]
    raise _NeverMatchesError("no digest of an algorithm that the evidence has")


def _model(environment: CorimMap) -> str:
    """Return vendor and model of a class, for telling the TDX module, the Quoting Enclave and a TD apart."""
    kind = environment.get(0)
    if not isinstance(kind, Mapping):
        return ""
    return " ".join(part for part in (kind.get(1), kind.get(2)) if isinstance(part, str)).upper()


def _shown(key: TaggedValue) -> str:
    return corim_text(key) or str(key)[:20]


def _number(key: TaggedValue) -> int:
    return key if isinstance(key, int) else -1
