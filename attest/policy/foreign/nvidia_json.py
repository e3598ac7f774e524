"""The relying-party policies of NVIDIA's Python tools: JSON, versions 3.0 and 4.0 (nvidia-gpu.md, 19).

Such a policy lists claims with the values that they must have, those of the overall token and those of every device.
There are no operators: a listed claim must be there with an equal value, recursively; other claims are ignored.

Stricter than NVIDIA's own reading: a policy that lists nothing of a device is refused.
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
from attest.policy.decoder import Decoder, Section, choice, refuse

MAX_NVIDIA_BYTES = 64 * 1024
MAX_LEAVES = 1000
CLAIMS_VERSIONS: Mapping[str, str] = MappingProxyType({"3.0": "2.0", "4.0": "3.0"})
"""Version of a policy to the version of its claims."""
_CLAUSE = "NVIDIA nvtrust, policies of a Relying Party"
_LARGEST_EXACT = 2**53 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaPolicy:
    """The demands of a policy on NVIDIA's claims.

    Attributes:
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
        """SHA-256 of its demands, as canonical JSON (RFC 8785), 32 bytes."""
        content = [self.version, self.overall, self.detached]
        return sha256(rfc8785.dumps(cast("list[Any]", content))).digest()  # Any: JSON that was decoded below


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
