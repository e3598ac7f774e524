"""Recorded evidence, appraised again by two policies, to show which evidence a new policy refuses or accepts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path

from attest.appraisal import Judgement
from attest.checks import Unchecked
from attest.cli.files import read_file
from attest.cli.options import VerificationOptions
from attest.cli.output import REFUSALS
from attest.cli.tokens import TokenCase
from attest.cli.verification_inputs import appraise_case, open_case
from attest.encoding import JsonValue
from attest.errors import ConfigurationError, InvalidValueError
from attest.policy.decoder import Section, choice, hex_of, list_of, moment, text
from attest.policy.document import MAX_POLICY_BYTES, placed, read_document
from attest.policy.loader import Policy
from attest.terminal.display import Display

INDEX = "evidence.yaml"
INDEX_SCHEMA = "attest.evidence-index/1"
MAX_CASES = 10_000
_REASON = "recorded evidence: its challenge is not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOutcome:
    """The outcome of one policy for one piece of evidence: ``affirmed``, ``not-affirmed`` or ``refused``.

    ``because`` has the ids of the failed checks, or the code of the refusal.
    """

    outcome: str
    because: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The outcome for people."""
        return f"{self.outcome}: {', '.join(self.because)}" if self.because else self.outcome

    def document(self) -> dict[str, JsonValue]:
        """Return the outcome for programs."""
        return {"outcome": self.outcome, "because": list(self.because)}


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyComparison:
    """The outcomes of both policies for one piece of evidence."""

    name: str
    old: PolicyOutcome
    new: PolicyOutcome

    @property
    def changed(self) -> bool:
        """True if exactly one of the policies accepts the evidence."""
        return (self.old.outcome == "affirmed") is not (self.new.outcome == "affirmed")

    def document(self) -> dict[str, JsonValue]:
        """Return the comparison for programs."""
        return {"name": self.name, "changed": self.changed, "old": self.old.document(), "new": self.new.document()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recorded:
    """One case of the index; a nonce or report data that it does not have was not recorded."""

    name: str
    files: tuple[str, ...]
    endorsements: tuple[str, ...] = ()
    at: datetime | None = None
    nonce: bytes | None = None
    report_data: bytes | None = None
    eventlog: str | None = None


def replay(
    folder: str,
    policies: tuple[Policy, Policy],
    *,
    endorsements: tuple[str, ...],
    at: datetime,
    allow_simulated: bool,
    display: Display,
) -> tuple[PolicyComparison, ...]:
    """Judge every piece of evidence in a folder by the old and the new policy; nothing is fetched.

    ``evidence.yaml`` in the folder describes the evidence, and may add endorsements and state the moment of appraisal.
    Without it, each file is independent.

    Raises:
        ConfigurationError: the folder or its index cannot be read, or there is nothing to judge.
    """
    found = []
    for case in _cases(Path(folder)):
        judged_at = case.at or at
        question = replace(
            _question(case),
            endorsements=(*endorsements, *case.endorsements),
            at=judged_at,
            allow_simulated=allow_simulated,
        )
        old, new = (_outcome(question, policy, judged_at) for policy in policies)
        found.append(PolicyComparison(name=case.name, old=old, new=new))
    display.note(f"{len(found)} pieces of evidence were appraised")
    return tuple(found)


def _question(case: _Recorded) -> VerificationOptions:
    return VerificationOptions(
        inputs=case.files,
        nonce=case.nonce,
        report_data=case.report_data,
        offline=True,
        unchecked=() if case.nonce or case.report_data else (Unchecked(check="freshness", reason=_REASON),),
        eventlog=case.eventlog,
        display=Display(quiet=True),
    )


def _outcome(question: VerificationOptions, policy: Policy, at: datetime) -> PolicyOutcome:
    try:
        opened = open_case(question, at=at)
        if isinstance(opened, TokenCase) and not policy.verifiers:
            return PolicyOutcome(outcome="refused", because=("policy-not-for-tokens",))
        judge = opened.judged_by if isinstance(opened, TokenCase) else partial(appraise_case, opened)
        result: Judgement = judge(policy)
    except REFUSALS as exc:
        return PolicyOutcome(outcome="refused", because=(exc.code,))
    if result.affirmed:
        return PolicyOutcome(outcome="affirmed")
    return PolicyOutcome(outcome="not-affirmed", because=tuple(dict.fromkeys(check.id for check in result.failed)))


# -- what there is


def _cases(folder: Path) -> tuple[_Recorded, ...]:
    if (folder / INDEX).is_file():
        return _indexed(folder)
    try:
        files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    except OSError as exc:
        raise _nothing(f"--evidence {folder} cannot be read: {exc.strerror}") from exc
    if not files:
        raise _nothing(f"--evidence {folder}: expected files with evidence, got none")
    return tuple(_Recorded(name=path.name, files=(str(path),)) for path in files[:MAX_CASES])


def _nothing(problem: str) -> ConfigurationError:
    return ConfigurationError(problem, code="file-unreadable", hint="name a directory with recorded evidence")


def _indexed(folder: Path) -> tuple[_Recorded, ...]:
    index = str(folder / INDEX)
    data = read_file(index, limit=MAX_POLICY_BYTES, what="--evidence")
    try:
        section = Section(read_document(data, name=index), "")
        section.required("schema", choice([INDEX_SCHEMA]))
        cases = section.required("cases", list_of(partial(_case, folder)))
        section.finish()
    except InvalidValueError as exc:
        raise placed(exc, data, name=index) from exc
    return cases


def _case(folder: Path, value: JsonValue, path: str) -> _Recorded:
    section = Section(value, path)
    no_bytes: bytes | None = None
    found = _Recorded(
        name=section.required("name", text),
        files=section.required("files", list_of(partial(_file, folder))),
        endorsements=section.optional("endorsements", list_of(partial(_file, folder)), default=()),
        at=section.optional("at", moment, default=None),
        nonce=section.optional("nonce", _nonce, default=no_bytes),
        report_data=section.optional("report_data", hex_of(64), default=no_bytes),
        eventlog=section.optional("eventlog", partial(_file, folder), default=None),
    )
    section.finish()
    return found


def _file(folder: Path, value: JsonValue, path: str) -> str:
    """Read the name of a file; it is meant from the folder."""
    return str(folder / text(value, path))


def _nonce(value: JsonValue, path: str) -> bytes:
    return hex_of(len(text(value, path)) // 2)(value, path)
