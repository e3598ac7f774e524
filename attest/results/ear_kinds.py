"""Encodings of the values of an EAR in JSON and CBOR: rows, records, and one kind for each sort of value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from attest.checks import Tier
from attest.encoding import base64url_bytes, base64url_text
from attest.errors import EvidenceError
from attest.results.ear import VECTOR_LABELS, TrustVector

_CLAUSE = "draft-ietf-rats-ear-03, section 4"
_MAX_LIST = 1024
_INT64 = 1 << 63
_DIGEST_BYTES = range(32, 65)
_TIERS = {Tier.NONE: 0, Tier.AFFIRMING: 2, Tier.WARNING: 32, Tier.CONTRAINDICATED: 96}
_TIER_OF = {number: tier for tier, number in _TIERS.items()}
_TIER_OF_WORD = {str(tier): tier for tier in Tier}


@dataclass(slots=True, kw_only=True)
class EarEncoding:
    """The encoding in use, and the findings of a reader."""

    json: bool
    old: bool = False
    ignored: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ValueKind:
    """The encoding of one sort of value. Any: the value's own type, which the row's field has."""

    write: Callable[[Any, EarEncoding], Any]
    read: Callable[[Any, EarEncoding, str], Any]


@dataclass(frozen=True, slots=True)
class Row:
    """A claim.

    Attributes:
        name: in JSON.
        key: in CBOR.
        member: of the model.
    """

    name: str
    key: int | str
    member: str
    kind: ValueKind = field(repr=False)
    required: bool = False


def write_record(record: object, rows: Iterable[Row], form: EarEncoding) -> dict[Any, Any]:
    """Write the members that are present; None and empty tuples are left out."""
    written: dict[Any, Any] = {}
    for row in rows:
        value = getattr(record, row.member)
        if value is None or (value == () and not row.required):
            continue
        written[row.name if form.json else row.key] = row.kind.write(value, form)
    return written


def read_record(
    cls: type[Any], rows: tuple[Row, ...], value: object, form: EarEncoding, path: str, *, closed: bool
) -> Any:  # noqa: ANN401  an object of cls
    """Read the rows into an object of a class; unknown members are refused if the map is closed, else noted."""
    if not isinstance(value, Mapping):
        raise malformed(f"{path.rstrip('.') or 'claims'}: expected a map")
    members: dict[str, Any] = {}
    known: set[Any] = set()
    for row in rows:
        key = row.name if form.json else row.key
        known.add(key)
        if key in value:
            members[row.member] = row.kind.read(value[key], form, f"{path}{row.name}")
        elif row.required:
            raise malformed(f"{path}{row.name}: missing")
    if unknown := [key for key in value if key not in known]:
        if closed:
            raise malformed(f"{path}{str(unknown[0])[:60]}: unknown member")
        form.ignored += [f"{path}{str(key)[:60]}" for key in unknown]
    return cls(**members)


def record(cls: type[Any], *rows: Row) -> ValueKind:
    """Return the kind of a closed map that makes one object."""
    return ValueKind(
        lambda value, form: write_record(value, rows, form),
        lambda value, form, path: read_record(cls, rows, value, form, f"{path}.", closed=True),
    )


def list_of(kind: ValueKind, *, least: int = 0) -> ValueKind:
    """Return the kind of an array, which is a tuple in the model."""

    def read(value: object, form: EarEncoding, path: str) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple) or not least <= len(value) <= _MAX_LIST:
            raise malformed(f"{path}: expected an array of {least} to {_MAX_LIST}")
        return tuple(kind.read(member, form, f"{path}[{index}]") for index, member in enumerate(value))

    return ValueKind(lambda value, form: [kind.write(member, form) for member in value], read)


def _as_is(value: Any, _form: EarEncoding) -> Any:  # noqa: ANN401  what the model holds is what is written
    return value


def read_text(value: object, _form: EarEncoding, path: str) -> str:
    """Read text."""
    if not isinstance(value, str):
        raise malformed(f"{path}: expected text")
    return value


def read_int(value: object, _form: EarEncoding, path: str) -> int:
    """Read an integer; a float is refused, even a whole one."""
    if isinstance(value, bool) or not isinstance(value, int) or not -_INT64 <= value < _INT64:
        raise malformed(f"{path}: expected an integer of 64 bits")
    return value


def _read_bool(value: object, _form: EarEncoding, path: str) -> bool:
    if not isinstance(value, bool):
        raise malformed(f"{path}: expected true or false")
    return value


def write_bytes(value: bytes, form: EarEncoding) -> bytes | str:
    """Write bytes: base64url in JSON."""
    return base64url_text(value) if form.json else value


def read_bytes(value: object, form: EarEncoding, path: str) -> bytes:
    """Read bytes: base64url in JSON."""
    if not form.json and isinstance(value, bytes):
        return value
    if not form.json or not isinstance(value, str):
        raise malformed(f"{path}: expected {'base64url' if form.json else 'a byte string'}")
    try:
        return base64url_bytes(value, what=path)
    except EvidenceError as exc:
        raise malformed(exc.message) from exc


def _read_digest(value: object, form: EarEncoding, path: str) -> bytes:
    digest = read_bytes(value, form, path)
    if len(digest) not in _DIGEST_BYTES:
        raise malformed(f"{path}: expected a digest of {_DIGEST_BYTES.start} to {_DIGEST_BYTES.stop - 1} bytes")
    return digest


def _read_tier(value: object, form: EarEncoding, path: str) -> Tier:
    tier: Tier | None = None
    if form.json and isinstance(value, str):
        tier = _TIER_OF_WORD.get(value)
    elif not form.json and isinstance(value, int) and not isinstance(value, bool):
        tier = _TIER_OF.get(value)
    if tier is None:
        raise malformed(f"{path}: expected one of {', '.join(_TIER_OF_WORD if form.json else map(str, _TIER_OF))}")
    return tier


def _read_vector(value: object, form: EarEncoding, path: str) -> TrustVector:
    if not isinstance(value, Mapping):
        raise malformed(f"{path}: expected a map")
    labels = VECTOR_LABELS if form.json else tuple(range(len(VECTOR_LABELS)))
    values: dict[str, int] = {}
    for label, number in value.items():
        if isinstance(label, bool) or label not in labels:
            raise malformed(f"{path}.{str(label)[:40]}: not a claim of the vector")
        values[VECTOR_LABELS[labels.index(label)]] = read_int(number, form, f"{path}.{label}")
    return TrustVector.of(values)  # which refuses an empty one


def _write_nonce(value: tuple[bytes, ...], form: EarEncoding) -> Any:  # noqa: ANN401  text or bytes, or an array of them
    written = [write_bytes(nonce, form) for nonce in value]
    return written[0] if len(written) == 1 else written


def _read_nonce(value: object, form: EarEncoding, path: str) -> tuple[bytes, ...]:
    if isinstance(value, list | tuple):
        if len(value) < 2:
            raise malformed(f"{path}: an array of nonces has at least two")
        return tuple(read_bytes(nonce, form, f"{path}[{index}]") for index, nonce in enumerate(value))
    return (read_bytes(value, form, path),)


def _read_audience(value: object, form: EarEncoding, path: str) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    audiences: tuple[str, ...] = list_of(TEXT, least=1).read(value, form, path)
    return audiences


def _write_token_id(value: str, form: EarEncoding) -> str | bytes:
    if form.json:
        return value
    try:
        return base64url_bytes(value, what="jti")
    except EvidenceError as exc:
        raise ValueError(exc.message) from exc


def malformed(problem: str) -> EvidenceError:
    """Return the refusal; the part before the first colon is the path."""
    return EvidenceError(f"EAR: {problem}", code="ear-malformed", field=problem.split(":", 1)[0], clause=_CLAUSE)


TEXT: Final = ValueKind(_as_is, read_text)
INT: Final = ValueKind(_as_is, read_int)
BOOL: Final = ValueKind(_as_is, _read_bool)
BYTES: Final = ValueKind(write_bytes, read_bytes)
DIGEST: Final = ValueKind(write_bytes, _read_digest)
TIER: Final = ValueKind(lambda value, form: str(value) if form.json else _TIERS[value], _read_tier)
VECTOR: Final = ValueKind(
    lambda value, form: {label if form.json else VECTOR_LABELS.index(label): number for label, number in value.items()},
    _read_vector,
)
NONCE: Final = ValueKind(_write_nonce, _read_nonce)
AUDIENCE: Final = ValueKind(lambda value, _form: value[0] if len(value) == 1 else list(value), _read_audience)
TOKEN_ID: Final = ValueKind(
    _write_token_id,
    lambda value, form, path: (
        read_text(value, form, path) if form.json else base64url_text(read_bytes(value, form, path))
    ),
)
