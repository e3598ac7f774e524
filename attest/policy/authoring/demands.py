"""The demands of a policy, each with its path, its name and its value, for comparison and lint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, cast

from attest.policy.authoring.comparison import Resolved
from attest.policy.azure import PCR_KEYS
from attest.policy.decoder import Demand, RelaxedDemand
from attest.policy.model import PolicyBody
from attest.policy.references import ReferenceValues, ends_of

SECTIONS = ("azure", "snp", "tdx", "dstack", "sgx", "gpu", "nvswitch", "sample")
"""Demands on one kind of machine or device each."""
NAMED = frozenset({"measurement", "mr_td", "rtmr0", "rtmr1", "rtmr2", "rtmr3", "mr_enclave", *PCR_KEYS})
"""Demands that name reference values."""
TABLES = frozenset(
    {
        "guest_policy",
        "platform_info",
        "td_attributes",
        "attributes",
        "platform",
        "signature_stores",
        "rtmrs",
        "pcrs",
        "vm_configuration",
    }
)
"""Tables of demands, each of which is a demand of its own."""
INLINE = frozenset({"tcb", "rtmrs", "pcrs"})
"""Fields that the types group, and the document does not."""
NESTED = frozenset({"tcb", "event_log"})
"""Sections within sections."""
_References = Mapping[str, ReferenceValues]


def names_in_use(body: PolicyBody, *, keys: frozenset[str] = NAMED) -> frozenset[str]:
    """Return the names of reference values that the demands of these keys use."""
    used: list[tuple[str, ...]] = [
        names for _, key, names in demands_of(body) if key in keys and not isinstance(names, RelaxedDemand)
    ]
    return frozenset(name for names in used for name in names)


def demands_of(body: PolicyBody, path: str = "") -> Iterator[tuple[str, str, Any]]:  # Any: the value of any demand
    """Yield each demand of a policy or branch, at any depth: its path, its name (the last part), its value.

    A demand that is relaxed has ``RelaxedDemand`` for a value; one that is not made is left out.
    """
    for section in (*SECTIONS, "devices"):
        yield from _demands_in(getattr(body, section), join(path, section))
    for _, place, branch in body.branches(path):
        yield from demands_of(branch, place)


def _demands_in(section: object, path: str) -> Iterator[tuple[str, str, Any]]:
    if section is None:
        return
    for name, value in members(section):
        inner = path if name in INLINE else join(path, name)
        if name in NESTED:
            yield from _demands_in(value, inner)
        elif name in TABLES:
            for key, one in value.items():
                if one is not None:
                    yield join(inner, key), key, one.value
        elif value is not None:
            yield inner, name, value_of(value)


def value_of(demand: Any) -> Any:  # noqa: ANN401  any demand, and its value
    """Return the value of a demand, or its relaxation; for a key that cannot be relaxed, its value."""
    stated: object = demand
    return demand.value if isinstance(stated, Demand) else demand


def members(section: object) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a section's type, with their names."""
    for field in fields(cast("Any", section)):  # Any: one of the dataclasses of demands
        yield field.name, getattr(section, field.name)


def join(path: str, name: str) -> str:
    """Return the path of a key in a section."""
    return f"{path}.{name}" if path else name


def resolved_names(name: str, value: object, references: _References) -> object:
    """Return the digests of a list of names; anything else unchanged, and names from elsewhere too."""
    found = resolved(value, references) if name in NAMED else value
    return frozenset(found.ends) if isinstance(found, Resolved) and not found.elsewhere else value


def resolved(value: object, references: _References) -> object:
    """Put reference values in the place of their names; of one digest under two names, the later end counts."""
    named: tuple[str, ...] | RelaxedDemand | None = value_of(value)
    if named is None or isinstance(named, RelaxedDemand):
        return named
    here = [name for name in named if name in references]
    return Resolved(
        ends=ends_of(references[name] for name in here),
        names={digest: name for name in here for digest in references[name].values},
        elsewhere=tuple(name for name in named if name not in references),
    )
