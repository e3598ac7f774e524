"""Reference evaluator of the policies of NVIDIA's Python tools (nvidia-gpu.md, 19), with a trace.

Stricter than NVIDIA's own reading: a policy over no device at all does not hold, and ``1`` is not ``true``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from attest.encoding import JsonValue
from attest.evidence.claims import ClaimTree
from attest.policy.foreign.nvidia_json import NvidiaPolicy, leaves

_SHOWN = 200
_LARGEST_EXACT = 2**53 - 1

Claims = Mapping[str, "JsonValue | ClaimTree"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaNode:
    """One listed claim, and its outcome.

    Attributes:
        path: where it stands, the device first (``GPU-0.measres``).
        holds: the outcome.
        expected: the listed value, for people.
        found: the claimed value.
    """

    path: str
    holds: bool
    expected: str
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaDecision:
    """Return True if every node holds, and there is a device."""

    holds: bool
    trace: tuple[NvidiaNode, ...]


def evaluate_nvidia(
    policy: NvidiaPolicy, *, devices: Mapping[str, Claims], overall: Claims | None, claims_version: str
) -> NvidiaDecision:
    """Judge verified claims; every listed claim is judged, regardless of the others.

    Args:
        policy: the demands on the claims.
        devices: the claims of each device by its name; of none, the policy does not hold.
        overall: the claims of the overall token; None where there is no token, and then each listed one is missing.
        claims_version: the version of all of these, which must be the policy's. ``nvidia_claims`` writes 3.0.
    """
    trace = [
        _node("claims-version", policy.claims_version, claims_version),
        NvidiaNode(path="devices", holds=bool(devices), expected="at least one", found=str(len(devices))),
        *_judge(policy.overall, overall or {}, "overall"),
    ]
    for name, claims in devices.items():
        trace += _judge(policy.detached, claims, name)
    return NvidiaDecision(holds=all(node.holds for node in trace), trace=tuple(trace))


class _Missing:
    """The absence of a claim, which differs from null and any other value."""


_MISSING = _Missing()
_Found = Any
"""A claim, or that there is none. Any: JSON, or the tuples and mappings of our own claims."""


def _judge(listed: Mapping[str, JsonValue], claims: Claims, path: str) -> Iterator[NvidiaNode]:
    for names, wanted in leaves(listed):
        found: _Found = claims
        for name in names:
            found = _member(found, name)
        yield _node(".".join((path, *names)), wanted, found)


def _member(found: _Found, name: str) -> _Found:
    members: Mapping[str, Any] = found
    return members.get(name, _MISSING) if isinstance(found, Mapping) else _MISSING


def _node(path: str, wanted: JsonValue, found: _Found) -> NvidiaNode:
    return NvidiaNode(path=path, holds=_equal(wanted, found), expected=_text(wanted), found=_text(found))


def _equal(wanted: JsonValue, found: _Found) -> bool:
    """Compare values of one type; members of objects that are not listed are ignored, inside lists too."""
    if isinstance(wanted, dict):
        return isinstance(found, Mapping) and all(
            name in found and _equal(value, found[name]) for name, value in wanted.items()
        )
    if isinstance(wanted, list):
        if not isinstance(found, list | tuple) or len(wanted) != len(cast("list[Any]", found)):
            return False
        return all(_equal(value, member) for value, member in zip(wanted, cast("list[Any]", found), strict=True))
    return type(wanted) is type(found) and wanted == found


def _text(value: _Found) -> str:
    match value:
        case _Missing():
            return "nothing"
        case str():
            return value if len(value) <= _SHOWN else f"{value[:_SHOWN]} and {len(value) - _SHOWN} more"
        case bool():
            return str(value).lower()
        case int():
            return str(value) if abs(value) <= _LARGEST_EXACT else "a large number"
        case None:
            return "null"
        case Mapping():
            return "an object"
        case _:
            return "a list" if isinstance(value, list | tuple) else "another value"
