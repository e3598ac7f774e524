"""Cases of a policy: evidence with its expected outcome, so that a change of the policy shows its effect.

The document is as closed as a policy: an unknown key, a case without an expectation or an empty list fails to load.
The command line and the pytest plugin read the files and judge the evidence; this module has the meaning of a case.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from attest.checks import Unchecked
from attest.encoding import JsonValue, hex_bytes
from attest.errors import EvidenceError, InvalidValueError
from attest.policy.decoder import (
    Section,
    boolean,
    choice,
    key,
    list_of,
    moment,
    record_of,
    refuse,
    text,
    unchecked_of,
)
from attest.policy.document import placed, read_document

SCHEMA = "attest.policy-tests/1"
SUFFIX = ".tests.yaml"
"""Ending of a file of cases: ``my-policy.tests.yaml`` is beside ``my-policy.yaml``."""
AFFIRMED, NOT_AFFIRMED, REFUSED = "affirmed", "not-affirmed", "refused"
_LONGEST_NONCE = 64


def _one_or_more(value: JsonValue, path: str) -> tuple[str, ...]:
    return (text(value, path),) if isinstance(value, str) else list_of(text)(value, path)


def _nonce(value: JsonValue, path: str) -> bytes:
    expected = f"1 to {_LONGEST_NONCE} bytes of hex in quotes"
    try:
        nonce = hex_bytes(text(value, path), what=path)
    except EvidenceError as exc:
        raise refuse(path, expected, value) from exc
    if len(nonce) > _LONGEST_NONCE:
        raise refuse(path, expected, value)
    return nonce


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyCase:
    """One case. Paths are relative to the file of cases.

    Attributes:
        name: its name in reports; unique in its file.
        nonce: the freshness value that the evidence carries, or None.
        unchecked: the caller's relaxations.
        allow_simulated: accept the simulator's roots for verification; the policy decides for itself.
        expect: ``affirmed``, ``not-affirmed``, or ``refused`` by verification.
        failed: the checks that fail, all of them, by id; for ``not-affirmed`` only. Empty: any.
        error: the code of the refusal; for ``refused`` only. None: any.
    """

    name: str = field(metadata=key(text))
    evidence: tuple[str, ...] = field(metadata=key(_one_or_more))
    endorsements: tuple[str, ...] = field(default=(), metadata=key(list_of(text)))
    event_log: str | None = field(default=None, metadata=key(text))
    at: datetime = field(metadata=key(moment))
    nonce: bytes | None = field(default=None, metadata=key(_nonce))
    unchecked: tuple[Unchecked, ...] = field(default=(), metadata=key(unchecked_of))
    allow_simulated: bool = field(default=False, metadata=key(boolean))
    expect: str = field(metadata=key(choice([AFFIRMED, NOT_AFFIRMED, REFUSED])))
    failed: tuple[str, ...] = field(default=(), metadata=key(list_of(text)))
    error: str | None = field(default=None, metadata=key(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceFiles:
    """A document of reference values that the policy takes values from, its signatures, and public keys to verify them.

    The paths are relative to the file of cases. The policy decides which signers it requires.
    """

    document: str = field(metadata=key(text))
    signatures: tuple[str, ...] = field(default=(), metadata=key(list_of(text)))
    keys: tuple[str, ...] = field(default=(), metadata=key(list_of(text)))


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTests:
    """The cases of one policy, and the documents of reference values that it names.

    Attributes:
        policy: file of the policy, relative to the file of cases; None for the one whose name it bears.
    """

    policy: str | None
    references: tuple[ReferenceFiles, ...]
    cases: tuple[PolicyCase, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """The outcome of a case.

    Attributes:
        outcome: ``affirmed``, ``not-affirmed`` or ``refused``.
        error: the code of the refusal, or None.
        details: the reasons for people, one line each.
    """

    outcome: str
    failed: tuple[str, ...] = ()
    error: str | None = None
    details: tuple[str, ...] = ()


def policy_name_of(tests_name: str) -> str:
    """Return the name of the policy that a file of cases belongs to.

    Raises:
        ConfigurationError: ``policy-invalid``: the name has no such ending.
    """
    if not tests_name.endswith(SUFFIX) or tests_name == SUFFIX:
        raise refuse("policy", f"the policy's file, since the name does not end in {SUFFIX}", shown="nothing")
    return f"{tests_name.removesuffix(SUFFIX)}.yaml"


def load_tests(data: bytes, *, name: str = "cases") -> PolicyTests:
    """Read a file of cases, YAML or JSON; ``name`` is its name in errors, such as the path of its file.

    Raises:
        ConfigurationError: ``policy-unreadable`` or ``policy-invalid``, with line, column and path of the value.
    """
    document = read_document(data, name=name)
    try:
        return _tests(document)
    except InvalidValueError as exc:
        raise placed(exc, data, name=name) from exc


def _tests(document: JsonValue) -> PolicyTests:
    top = Section(document, "")
    schema = top.required("schema", text)
    if schema != SCHEMA:
        raise refuse("schema", repr(SCHEMA), schema)
    policy = top.stated("policy", text)
    references = top.stated("references", list_of(_reference_files)) or ()
    cases = top.required("cases", list_of(_case))
    top.finish()
    for index, case in enumerate(cases):
        if any(other.name == case.name for other in cases[:index]):
            raise refuse(f"cases[{index}].name", "a name that no other case has", case.name)
    return PolicyTests(policy=policy, references=references, cases=cases)


def _reference_files(value: JsonValue, path: str) -> ReferenceFiles:
    found = record_of(ReferenceFiles)(value, path)
    if bool(found.signatures) is not bool(found.keys):
        missing = "keys" if found.signatures else "signatures"
        raise refuse(f"{path}.{missing}", "signatures and the keys that made them, or neither", shown="nothing")
    return found


def _case(value: JsonValue, path: str) -> PolicyCase:
    case = record_of(PolicyCase)(value, path)
    _require_sense(case, path)
    return case


def _require_sense(case: PolicyCase, path: str) -> None:
    """Refuse a case that could never be compared, or that would hide an unevaluated check."""
    if case.failed and case.expect != NOT_AFFIRMED:
        raise refuse(f"{path}.failed", f"nothing beside 'expect: {case.expect}'", [*case.failed])
    if case.error is not None and case.expect != REFUSED:
        raise refuse(f"{path}.error", f"nothing beside 'expect: {case.expect}'", case.error)
    if case.nonce is not None and any(entry.check == "freshness" for entry in case.unchecked):
        raise refuse(f"{path}.nonce", "a nonce, or freshness unchecked; not both", case.nonce.hex())


def differences(case: PolicyCase, answer: CaseResult) -> tuple[str, ...]:
    """Return the differences between an answer and a case, one line each; nothing if the case passes."""
    if answer.outcome != case.expect:
        return (f"expected {case.expect}, got {answer.outcome}", *answer.details)
    found: list[str] = []
    if case.failed:
        found += _sets(case.failed, answer.failed)
    if case.error is not None and case.error != answer.error:
        found.append(f"expected error {case.error}, got {answer.error}")
    return (*found, *answer.details) if found else ()


def _sets(expected: Iterable[str], got: Iterable[str]) -> list[str]:
    missing, extra = sorted(set(expected) - set(got)), sorted(set(got) - set(expected))
    lines = [f"failed: {name} was expected to fail, and did not" for name in missing]
    return lines + [f"failed: {name} was not expected to fail" for name in extra]
