"""Cases of a policy: evidence with its expected outcome, so that a change of the policy shows its effect.

The document is as closed as a policy: an unknown key, a case without an expectation or an empty list fails to load.
The command line and the pytest plugin read the files and judge the evidence; this module has the meaning of a case.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from attest.checks import Unchecked
from attest.encoding import JsonValue, hex_bytes
from attest.errors import EvidenceError, InvalidValueError
from attest.policy.decoder import Section, boolean, choice, list_of, moment, refuse, table_of, text
from attest.policy.document import placed, read_document

SCHEMA = "attest.policy-tests/1"
SUFFIX = ".tests.yaml"
"""``my-policy.tests.yaml`` stands beside ``my-policy.yaml``."""
AFFIRMED, NOT_AFFIRMED, REFUSED = "affirmed", "not-affirmed", "refused"
_LONGEST_NONCE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyCase:
    """One case. Paths are relative to the file of cases.

    Attributes:
        name: its name in reports; unique in its file.
        evidence: files of one Attester.
        endorsements: files and directories.
        nonce: the freshness value that the evidence carries, or None.
        unchecked: the caller's relaxations.
        allow_simulated: accept the simulator's roots for verification; the policy decides for itself.
        expect: ``affirmed``, ``not-affirmed``, or ``refused`` by verification.
        failed: the checks that fail, all of them, by id; for ``not-affirmed`` only. Empty: any.
        error: the code of the refusal; for ``refused`` only. None: any.
    """

    name: str
    evidence: tuple[str, ...]
    endorsements: tuple[str, ...]
    event_log: str | None
    at: datetime
    nonce: bytes | None
    unchecked: tuple[Unchecked, ...]
    allow_simulated: bool
    expect: str
    failed: tuple[str, ...]
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceFiles:
    """A document of reference values that the policy takes values from, its signatures, and public keys to verify them.

    The paths are relative to the file of cases. The policy decides which signers it requires.
    """

    document: str
    signatures: tuple[str, ...]
    keys: tuple[str, ...]


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
    """Return the name of the policy that a file of cases stands beside.

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
    section, files = Section(value, path), list_of(text)
    found = ReferenceFiles(
        document=section.required("document", text),
        signatures=section.stated("signatures", files) or (),
        keys=section.stated("keys", files) or (),
    )
    section.finish()
    if bool(found.signatures) is not bool(found.keys):
        missing = "keys" if found.signatures else "signatures"
        raise refuse(section.path(missing), "signatures and the keys that made them, or neither", shown="nothing")
    return found


def _case(value: JsonValue, path: str) -> PolicyCase:
    section = Section(value, path)
    files = list_of(text)
    case = PolicyCase(
        name=section.required("name", text),
        evidence=section.required("evidence", _one_or_more),
        endorsements=section.stated("endorsements", files) or (),
        event_log=section.stated("event_log", text),
        at=section.required("at", moment),
        nonce=section.stated("nonce", _nonce),
        unchecked=section.stated("unchecked", _unchecked) or (),
        allow_simulated=section.optional("allow_simulated", boolean, default=False),
        expect=section.required("expect", choice([AFFIRMED, NOT_AFFIRMED, REFUSED])),
        failed=section.stated("failed", files) or (),
        error=section.stated("error", text),
    )
    section.finish()
    _require_sense(case, section)
    return case


def _require_sense(case: PolicyCase, section: Section) -> None:
    """Refuse a case that could never be compared, or that would hide an unevaluated check."""
    if case.failed and case.expect != NOT_AFFIRMED:
        raise refuse(section.path("failed"), f"nothing beside 'expect: {case.expect}'", [*case.failed])
    if case.error is not None and case.expect != REFUSED:
        raise refuse(section.path("error"), f"nothing beside 'expect: {case.expect}'", case.error)
    if case.nonce is not None and any(entry.check == "freshness" for entry in case.unchecked):
        raise refuse(section.path("nonce"), "a nonce, or freshness unchecked; not both", case.nonce.hex())


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


def _unchecked(value: JsonValue, path: str) -> tuple[Unchecked, ...]:
    reasons = table_of(text, keys=Unchecked.NAMES)(value, path)
    return tuple(Unchecked(check=name, reason=reason) for name, reason in reasons.items())


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
