"""The relying-party policies of NVIDIA's Python tools: JSON, versions 3.0 and 4.0 (nvidia-gpu.md, 19).

Such a policy lists claims with the values that they must have, those of the overall token and those of every device.
There are no operators: a listed claim must be there with an equal value, recursively; what is not listed is ignored.

Stricter than NVIDIA's own reading: a policy that lists nothing of a device is refused, one over no device at all does
not hold, and ``1`` is not ``true``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from types import MappingProxyType
from typing import Any, cast

import rfc8785

from attest.encoding import JsonValue, json_value
from attest.errors import ConfigurationError, EvidenceError
from attest.evidence.claims import ClaimTree
from attest.policy.decoder import Decoder, Section, choice, refuse

__all__ = [
    "CLAIMS_VERSIONS",
    "NvidiaDecision",
    "NvidiaNode",
    "NvidiaPolicy",
    "evaluate_nvidia",
    "leaves",
    "parse_nvidia",
]

MAX_NVIDIA_BYTES = 64 * 1024
MAX_LEAVES = 1000
CLAIMS_VERSIONS: Mapping[str, str] = MappingProxyType({"3.0": "2.0", "4.0": "3.0"})
"""Version of a policy to the version of its claims."""
_CLAUSE = "nvidia-gpu.md 19"
_SHOWN = 200
_LARGEST_EXACT = 2**53 - 1

Claims = Mapping[str, "JsonValue | ClaimTree"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaPolicy:
    """The demands of a policy on NVIDIA's claims.

    Attributes:
        version: ``3.0`` or ``4.0``.
        overall: claims of the overall token; perhaps none.
        detached: claims of every single device; one at least.
    """

    version: str
    overall: Mapping[str, JsonValue]
    detached: Mapping[str, JsonValue]

    @property
    def claims_version(self) -> str:
        """The version of its claims."""
        return CLAIMS_VERSIONS[self.version]

    @property
    def digest(self) -> bytes:
        """SHA-256 of what it demands, as canonical JSON (RFC 8785), 32 bytes."""
        content = [self.version, self.overall, self.detached]
        return sha256(rfc8785.dumps(cast("list[Any]", content))).digest()  # Any: JSON that was decoded below


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


# -- reading


def parse_nvidia(data: bytes) -> NvidiaPolicy:
    """Read a policy of NVIDIA's Python tools.

    Raises:
        ConfigurationError: ``nvidia-policy-invalid``, with the path of the value and what was expected there.
    """
    if len(data) > MAX_NVIDIA_BYTES:
        raise _invalid(f"{len(data)} bytes, more than {MAX_NVIDIA_BYTES}")
    try:
        return _policy(json_value(data, what="policy"))
    except EvidenceError as exc:
        raise _invalid(exc.message) from exc
    except ConfigurationError as exc:
        raise _invalid(exc.message, field=exc.field, expected=exc.expected, got=exc.got) from exc


def _invalid(
    problem: str, *, field: str | None = None, expected: str | None = None, got: str | None = None
) -> ConfigurationError:
    return ConfigurationError(
        f"NVIDIA policy: {problem}",
        code="nvidia-policy-invalid",
        field=field,
        expected=expected,
        got=got,
        clause=_CLAUSE,
        hint="versions 3.0 and 4.0 of NVIDIA's JSON are read; its Rego is another language",
    )


def _policy(document: JsonValue) -> NvidiaPolicy:
    top = Section(document, "")
    version = top.required("version", choice(CLAIMS_VERSIONS))
    rules = top.required("authorization-rules", Section)
    top.finish()
    rules.required("type", choice(["JWT"]))
    policy = NvidiaPolicy(
        version=version,
        overall=rules.required("overall-claims", _claims(fewest=0)),
        detached=rules.required("detached-claims", _claims(fewest=1)),
    )
    rules.finish()
    count = sum(1 for section in (policy.overall, policy.detached) for _ in leaves(section))
    if count > MAX_LEAVES:
        raise refuse("authorization-rules", f"at most {MAX_LEAVES} claims", count)
    return policy


def _claims(*, fewest: int) -> Decoder[Mapping[str, JsonValue]]:
    """Read listed claims; an object without members, anywhere, would demand nothing and looks like a mistake."""

    def decode(value: JsonValue, path: str) -> Mapping[str, JsonValue]:
        if not isinstance(value, dict) or len(value) < fewest:
            raise refuse(path, "an object with at least one claim" if fewest else "an object", value)
        for name, member in value.items():
            _require_exact(member, f"{path}.{name}")
        return value

    return decode


def _require_exact(value: JsonValue, path: str) -> None:
    """Require a value that has one meaning: no number that a reader rounds, nothing empty."""
    if isinstance(value, float):
        raise refuse(path, "no number with a fraction or an exponent", value)
    if isinstance(value, int) and abs(value) > _LARGEST_EXACT:
        raise refuse(path, "an integer of at most 2^53 - 1", shown="a larger one")
    if value in ([], {}):
        raise refuse(path, "at least one member", shown="nothing")
    if isinstance(value, list):
        for index, member in enumerate(value):
            _require_exact(member, f"{path}[{index}]")
    elif isinstance(value, dict):
        for name, member in value.items():
            _require_exact(member, f"{path}.{name}")


def leaves(
    claims: Mapping[str, JsonValue], prefix: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], JsonValue]]:
    """Yield every listed value that is no object, with the names that lead to it."""
    for name, value in claims.items():
        if isinstance(value, dict):
            yield from leaves(value, (*prefix, name))
        else:
            yield (*prefix, name), value


# -- evaluating


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
