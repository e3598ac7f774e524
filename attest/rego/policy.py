"""The text of a Rego policy: its form and its negations, found without an engine.

Two forms, both of the Confidential Containers' Trustee and both in ``package policy``:

* an attestation policy gives trust claims (``executables``, ``hardware``, …, or all of them in ``trust_claims``);
* a resource policy says ``allow``.

Spec: specs/kbs-protocol.md, sections 11.5 and 13; specs/must-check.md, section 4.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise

from attest.encoding import JsonValue
from attest.errors import ConfigurationError
from attest.rego.tokens import Token, TokenError, tokens_of

MAX_REGO_BYTES = 256 * 1024
REFERENCE_FUNCTION = "query_reference_value"
TRUST_CLAIMS = {
    "instance_identity": "instance-identity",
    "configuration": "configuration",
    "executables": "executables",
    "file_system": "file-system",
    "hardware": "hardware",
    "runtime_opaque": "runtime-opaque",
    "storage_opaque": "storage-opaque",
    "sourced_data": "sourced-data",
}
"""Names of rules to members of the AR4SI vector."""
_ORDERS = frozenset(("<", "<=", ">", ">="))
_BEFORE_OBJECTS = frozenset(("contains", "if", "in", "not"))
# fmt: off
_WORDS = frozenset((
    "as", "contains", "data", "default", "else", "every", "false", "if", "import", "in", "input", "not", "null",
    "package", "set", "some", "true", "with",
))
# fmt: on


class RegoForm(enum.StrEnum):
    """The form of a policy's answer."""

    ATTESTATION = "attestation"
    RESOURCE = "resource"


class LooseCondition(enum.StrEnum):
    """A place in a policy where an absent or mistyped value may count in favour of the Attester."""

    NEGATION = "not"
    COMPREHENSION = "comprehension"
    ORDER = "order"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """A value that must be present, or must be a number, for the policy to have its apparent meaning.

    Attributes:
        path: names from ``input`` on, as far as they are written out; or ``query_reference_value`` and its argument.
        place: under ``not`` and in a comprehension absence counts in favour; beside ``<`` anything but a number may.
    """

    path: tuple[str, ...]
    place: LooseCondition


@dataclass(frozen=True, slots=True, kw_only=True)
class RegoPolicy:
    """A policy whose text has the shape of one. Made by ``read_rego_policy`` only.

    Attributes:
        rules: of those that the form asks for, the ones that it has.
        mentions: what is looked at before the engine is asked.
        digest: SHA-256 of the text, 32 bytes.
        compares: it orders values, or asks whether they differ. Null would do either.
        warnings: what other engines refuse, each with its place.
    """

    source: str
    form: RegoForm
    rules: tuple[str, ...]
    mentions: tuple[Mention, ...]
    digest: bytes
    compares: bool = True
    warnings: tuple[str, ...] = ()


def read_rego_policy(data: bytes, *, form: RegoForm | None = None) -> RegoPolicy:
    """Read a policy and find out its form, if it is not given.

    Raises:
        ConfigurationError: ``rego-policy-invalid``, with line and column.
    """
    if len(data) > MAX_REGO_BYTES:
        raise invalid(f"{len(data)} bytes, more than {MAX_REGO_BYTES}", "", 0)
    source = _text(data)
    try:
        tokens = tokens_of(source)
        _require_package(tokens)
        form, rules = _form(tuple(_heads(tokens)), form)
        _require_known_names(tokens)
    except TokenError as exc:
        raise invalid(exc.problem, source, exc.place) from exc
    return RegoPolicy(
        source=source,
        form=form,
        rules=rules,
        mentions=tuple(_mentions(tokens)),
        digest=sha256(data).digest(),
        compares=any(token.kind == "mark" and token.value in _ORDERS | {"!="} for token in tokens),
        warnings=tuple(_old_bodies(source, tokens)),
    )


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        before = data[: exc.start].decode("utf-8")
        raise invalid(str(exc), before, len(before)) from exc


def _require_package(tokens: tuple[Token, ...]) -> None:
    words = [token for token in tokens if token.kind != "line"]
    if [token.value for token in words[:2]] != ["package", "policy"] or _is_nested(tokens):
        raise TokenError("expected 'package policy', which is what Trustee asks", words[0].place if words else 0)


def _old_bodies(source: str, tokens: tuple[Token, ...]) -> Iterator[str]:
    """Yield a warning for each body of a rule without ``if``, which version 1 of the language demands."""
    for before, token in pairwise(tokens):
        if (token.value, token.kind, token.depth) == ("{", "mark", 0) and _ends_head(before):
            yield f"{place_text(source, token.place)}: a rule without 'if' before its body, which Trustee refuses"


def _ends_head(token: Token) -> bool:
    """Return whether a brace after this token opens a body, and no object or set."""
    if token.kind == "name":
        return token.value not in _BEFORE_OBJECTS
    return token.kind in ("text", "number") or token.value in (")", "]", "}")


def _is_nested(tokens: tuple[Token, ...]) -> bool:
    """Return whether the package is ``policy.something``."""
    at = next(i for i, token in enumerate(tokens) if token.value == "policy")
    return any(token.value in (".", "[") for token in tokens[at + 1 : at + 2])


def _form(heads: tuple[Token, ...], wanted: RegoForm | None) -> tuple[RegoForm, tuple[str, ...]]:
    """Return the form and its rules.

    Raises:
        TokenError: it has no rule of the form, or those of both.
    """
    places = {token.value: token.place for token in reversed(heads)}
    claims = tuple(name for name in ("trust_claims", *TRUST_CLAIMS) if name in places)
    if wanted is None and "allow" in places and claims:
        problem = f"it has both 'allow' and {claims[0]!r}, so it is unclear what is to be asked of it"
        raise TokenError(problem, places[claims[0]])
    if "allow" in places and wanted is not RegoForm.ATTESTATION:
        return RegoForm.RESOURCE, ("allow",)
    if claims and wanted is not RegoForm.RESOURCE:
        return RegoForm.ATTESTATION, claims[:1] if claims[0] == "trust_claims" else claims
    needs = {RegoForm.RESOURCE: "no 'allow'", RegoForm.ATTESTATION: "no 'trust_claims' and no trust claim"}
    neither = "neither 'allow' (a resource policy) nor a trust claim such as 'executables'"
    raise TokenError(f"it has {neither if wanted is None else needs[wanted]}", 0)


def _heads(tokens: tuple[Token, ...]) -> Iterator[Token]:
    """Yield the names that rules begin with: outside of brackets, at the beginning of a line or after ``default``."""
    before = "\n"
    for token in tokens:
        if token.kind == "name" and token.depth == 0 and before in ("\n", "default") and token.value != "default":
            yield token
        before = token.value


def _require_known_names(tokens: tuple[Token, ...]) -> None:
    """Refuse an undefined bare name under ``not``: the engine treats the name as absent, and its negation as true."""
    inside = {at for start, end in _negations(tokens) for at in range(start, end)}
    elsewhere = {token.value for at, token in enumerate(tokens) if at not in inside}
    for at in sorted(inside):
        if _is_variable(tokens, at) and tokens[at].value not in elsewhere:
            problem = f"'not' is asked of {tokens[at].value!r}, which is defined nowhere, and so is always true"
            raise TokenError(problem, tokens[at].place)


def _is_variable(tokens: tuple[Token, ...], at: int) -> bool:
    token, before = tokens[at], tokens[at - 1].value
    after = tokens[at + 1].value if at + 1 < len(tokens) else ""
    # A name before a bracket or a dot may be a built-in function, which the engine knows or refuses.
    return token.kind == "name" and token.value not in _WORDS and before != "." and after not in ("(", ".")


def _negations(tokens: tuple[Token, ...]) -> Iterator[tuple[int, int]]:
    """Yield the token ranges under ``not``, each once; a nested range ends within its parent."""
    until = 0
    for at, token in enumerate(tokens):
        if at >= until and token.kind == "name" and token.value == "not":
            until = next((i for i in range(at + 1, len(tokens)) if _ends(tokens[i], token.depth)), len(tokens))
            yield at + 1, until


def _ends(token: Token, depth: int) -> bool:
    """Return whether an expression at this depth ends: with its line, or where its surroundings close."""
    return token.depth < depth or (token.depth == depth and (token.kind == "line" or token.value == ";"))


def _comprehensions(tokens: tuple[Token, ...]) -> Iterator[tuple[int, int]]:
    """Yield the token ranges after a bar inside brackets, each once."""
    until = 0
    for at, token in enumerate(tokens):
        if at >= until and token.kind == "mark" and token.value == "|" and token.depth:
            until = next((i for i in range(at, len(tokens)) if tokens[i].depth < token.depth), len(tokens))
            yield at, until


def _mentions(tokens: tuple[Token, ...]) -> Iterator[Mention]:
    for start, end in _negations(tokens):
        yield from _references(tokens, start, end, LooseCondition.NEGATION)
    for start, end in _comprehensions(tokens):
        yield from _references(tokens, start, end, LooseCondition.COMPREHENSION)
    for at, (path, end) in _paths(tokens, 0, len(tokens)):
        if tokens[at - 1].value in _ORDERS or (end < len(tokens) and tokens[end].value in _ORDERS):
            yield Mention(path=path, place=LooseCondition.ORDER)


def _references(tokens: tuple[Token, ...], start: int, end: int, place: LooseCondition) -> Iterator[Mention]:
    for _, (path, _) in _paths(tokens, start, end):
        yield Mention(path=path, place=place)


def _paths(tokens: tuple[Token, ...], start: int, end: int) -> Iterator[tuple[int, tuple[tuple[str, ...], int]]]:
    """Yield where a reference begins, its path, and where it ends."""
    for at in range(start, end):
        token, before = tokens[at], tokens[at - 1].value
        if token.kind != "name" or before == ".":
            continue
        if token.value == "input":
            names, after = _members(tokens, at + 1)
            yield at, (("input", *names), after)
        elif token.value == REFERENCE_FUNCTION and at + 3 < len(tokens) and tokens[at + 2].kind == "text":
            yield at, ((REFERENCE_FUNCTION, tokens[at + 2].value), at + 4)


def _members(tokens: tuple[Token, ...], at: int) -> tuple[list[str], int]:
    """Return the names after ``input`` as far as they are written out, ``.name`` and ``["name"]``, and their end."""
    names: list[str] = []
    while at + 1 < len(tokens):
        if tokens[at].value == "." and tokens[at + 1].kind == "name":
            names.append(tokens[at + 1].value)
            at += 2
        elif tokens[at].value == "[" and tokens[at + 1].kind == "text" and tokens[at + 2].value == "]":
            names.append(tokens[at + 1].value)
            at += 3
        else:
            break
    return names, at


def misleading_mention(
    policy: RegoPolicy, document: Mapping[str, JsonValue], references: Mapping[str, JsonValue]
) -> str | None:
    """Return the first mention that would count in favour although its value is absent or mistyped, or None.

    In a comprehension only a misspelled member is detected: one of a device that the input has.
    """
    for one in policy.mentions:
        root, *names = one.path
        found = _found(references if root == REFERENCE_FUNCTION else document, names)
        mention = ".".join(one.path) if root == "input" else f'{root}("{names[0]}")'
        if one.place is LooseCondition.ORDER:
            if found and (isinstance(found[0], bool) or not isinstance(found[0], int)):
                return f"the policy orders {mention}, which is no integer"
        elif not found and (
            one.place is LooseCondition.NEGATION or root != "input" or (names[:1] and names[0] in document)
        ):
            return f"the policy counts it in favour that {mention} is absent, which may be a misspelling"
    return None


def _found(document: Mapping[str, JsonValue], names: list[str]) -> list[JsonValue]:
    """Return the value at a path in a list, or an empty list."""
    place: JsonValue = dict(document)
    for name in names:
        if not isinstance(place, dict) or name not in place:
            return []
        place = place[name]
    return [place]


def place_text(source: str, place: int) -> str:
    """Return a place in a text as people count: lines and columns from one."""
    line, column = _line_and_column(source, place)
    return f"line {line}, column {column}"


def _line_and_column(source: str, place: int) -> tuple[int, int]:
    return source.count("\n", 0, place) + 1, place - source.rfind("\n", 0, place)


def invalid(problem: str, source: str, place: int) -> ConfigurationError:
    """Return the error of a policy that cannot be used, with the place of the fault in characters."""
    line, column = _line_and_column(source, place)
    return ConfigurationError(
        f"the Rego policy cannot be used: line {line}, column {column}: {problem}",
        code="rego-policy-invalid",
        line=line,
        column=column,
        hint="docs/rego.md says which policies are understood",
    )
