"""In-toto statements whose predicate is SLSA provenance: one subject, its builder and its sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from attest.encoding import JsonValue, hex_bytes, json_value
from attest.errors import EvidenceError, UnsupportedError

STATEMENT_MEDIA_TYPE = "application/vnd.in-toto+json"
_STATEMENTS = frozenset({"https://in-toto.io/Statement/v1", "https://in-toto.io/Statement/v0.1"})
_SLSA_1 = "https://slsa.dev/provenance/v1"
_SLSA_0_2 = "https://slsa.dev/provenance/v0.2"
_MAX_VALUES = 20_000
_MAX_TEXT_CHARACTERS = 2048
_SHA256_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """The content of a statement.

    Attributes:
        subject: SHA-256 of the one subject.
        name: name of the subject.
        predicate_type: version of SLSA provenance.
        builder: id of the builder.
        repository: address of the sources; None if the statement has none.
        release: tag or branch of the sources, such as ``refs/tags/v1.2``; None if the statement has none.
        commit: digest of the commit of the sources; None if the statement has none.
    """

    subject: bytes
    name: str
    predicate_type: str
    builder: str
    repository: str | None
    release: str | None
    commit: str | None


@dataclass(frozen=True, slots=True)
class _Source:
    repository: str | None = None
    release: str | None = None
    commit: str | None = None


def parse_statement(payload: bytes) -> Provenance:
    """Read the payload of an envelope.

    Raises:
        EvidenceError: ``provenance-statement-invalid``, or ``json-invalid``.
        UnsupportedError: ``provenance-unsupported``, another kind of statement or predicate.
    """
    statement = json_value(payload, what="the statement", most=_MAX_VALUES)
    _require_kind(statement, "_type", _STATEMENTS)
    predicate_type = _require_kind(statement, "predicateType", _PREDICATES)
    builder_path, source_of = _PREDICATES[predicate_type]
    source = source_of(statement)
    return Provenance(
        subject=_subject(statement),
        name=_required_text(statement, "subject", 0, "name"),
        predicate_type=predicate_type,
        builder=_required_text(statement, *builder_path),
        repository=source.repository,
        release=source.release,
        commit=source.commit,
    )


def _require_kind(statement: JsonValue, name: str, known: Mapping[str, object] | frozenset[str]) -> str:
    found = _required_text(statement, name)
    if found not in known:
        raise UnsupportedError(
            f"{name} of the statement is not one that is verified here",
            code="provenance-unsupported",
            field=name,
            expected=" or ".join(sorted(known)),
            got=found,
            hint="give the bundle of the build's SLSA provenance",
        )
    return found


def _subject(statement: JsonValue) -> bytes:
    subjects = _at(statement, "subject")
    if not isinstance(subjects, list) or len(subjects) != 1:
        got = f"{len(subjects)} subjects" if isinstance(subjects, list) else "no list"
        raise _invalid("subject", "exactly one subject", got)
    path = ("subject", 0, "digest", "sha256")
    digest = _required_text(statement, *path)
    try:
        return hex_bytes(digest, what="subject", length=_SHA256_BYTES)
    except EvidenceError as exc:
        raise _invalid(_written(path), "64 hexadecimal digits", digest) from exc


def _source_1(statement: JsonValue) -> _Source:
    """Return the sources of SLSA v1: those of GitHub's workflow, or else the first Git repository among the inputs."""
    definition = ("predicate", "buildDefinition")
    workflow = (*definition, "externalParameters", "workflow")
    materials = _at(statement, *definition, "resolvedDependencies")
    inputs = materials if isinstance(materials, list) else []
    resolved = next((found for one in inputs if (found := _git_source(one)).repository), _Source())
    repository = _text_at(statement, *workflow, "repository")
    if repository is None:
        return resolved
    commit = resolved.commit if resolved.repository == repository else None
    return _Source(repository, _text_at(statement, *workflow, "ref"), commit)


def _source_0_2(statement: JsonValue) -> _Source:
    return _git_source(_at(statement, "predicate", "invocation", "configSource"))


def _git_source(resource: JsonValue) -> _Source:
    """Read a resource whose URI has the form ``git+https://host/path@ref``."""
    uri = _text_at(resource, "uri") or ""
    if not uri.startswith("git+"):
        return _Source()
    repository, _, ref = uri.removeprefix("git+").partition("@")
    commit = _text_at(resource, "digest", "gitCommit") or _text_at(resource, "digest", "sha1")
    return _Source(repository, ref or None, commit)


_PREDICATES: Mapping[str, tuple[tuple[str, ...], Callable[[JsonValue], _Source]]] = MappingProxyType(
    {
        _SLSA_1: (("predicate", "runDetails", "builder", "id"), _source_1),
        _SLSA_0_2: (("predicate", "builder", "id"), _source_0_2),
    }
)
"""For each type of predicate: the path of the builder's id, and the reader of the sources."""


def _at(value: JsonValue, *path: str | int) -> JsonValue:
    """Return the value at a path, or None if the path does not exist."""
    for step in path:
        if isinstance(value, dict) and isinstance(step, str):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def _text_at(value: JsonValue, *path: str | int) -> str | None:
    """Return the text at a path, or None if the path does not exist.

    Raises:
        EvidenceError: ``provenance-statement-invalid``, there is something else, or the text is empty or too long.
    """
    found = _at(value, *path)
    if found is None:
        return None
    if not isinstance(found, str) or not found.isprintable() or not 0 < len(found) <= _MAX_TEXT_CHARACTERS:
        got = "unprintable, empty or long text" if isinstance(found, str) else type(found).__name__
        raise _invalid(_written(path), f"printable text of 1 to {_MAX_TEXT_CHARACTERS} characters", got)
    return found


def _required_text(value: JsonValue, *path: str | int) -> str:
    found = _text_at(value, *path)
    if found is None:
        raise _invalid(_written(path), "text", "nothing")
    return found


def _written(path: tuple[str | int, ...]) -> str:
    return ".".join(map(str, path))


def _invalid(field: str, expected: str, got: str) -> EvidenceError:
    return EvidenceError(
        f"{field} of the statement: expected {expected}, got {got}",
        code="provenance-statement-invalid",
        field=field,
        expected=expected,
        got=got,
        clause="in-toto Statement v1; SLSA provenance v1, v0.2",
        hint="ask the builder for provenance of this one document",
    )
