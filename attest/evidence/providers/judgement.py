"""Judgement of a document: each machine's keys, nonce and GPUs, and the machines together.

Every check that can run is run. The evidence of the machines itself is verified elsewhere; what is concluded here
counts once it holds.

Spec: specs/providers.md, section 5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from attest.checks import Check, judged
from attest.encoding import JsonValue
from attest.errors import AttestError, BindingError
from attest.evidence.procedure import Procedure, Step
from attest.evidence.providers.document import Comparison, Construction, PresentedMachine, StatedMachine, StepName

_MACHINES = "provider.machines"
_CLAUSE = "docs/providers.md"


class ProviderSteps(NamedTuple):
    """Every check of one machine, in order."""

    form: Step = Step("provider.form", "docs/providers.md")
    nonce: Step = Step("provider.nonce", "docs/providers.md")
    binding: Step = Step("provider.binding", "docs/providers.md")
    keys: Step = Step("provider.keys", "docs/providers.md")
    gpus: Step = Step("provider.gpus", "docs/providers.md")
    statements: Step = Step("provider.statements", "docs/providers.md")
    envelope: Step = Step("provider.envelope", "docs/providers.md")


_STEPS = ProviderSteps()


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedMachine:
    """Findings about one machine.

    Attributes:
        failure: the worst refusal, or None.
        claims: facts that REPORT_DATA commits to; empty after a refusal.
    """

    checks: tuple[Check, ...]
    failure: AttestError | None
    claims: Mapping[str, JsonValue]


def judge_machine(
    machine: StatedMachine, presented: PresentedMachine, *, nonce: bytes | None, label: str
) -> JudgedMachine:
    """Compare what the document states about a machine with what its evidence commits to; nothing is raised.

    Args:
        machine: the machine as stated.
        presented: the parts of its evidence that commit to others.
        nonce: the client's nonce, or None: freshness is then not evaluated.
        label: description of the document.
    """
    procedure = Procedure(_STEPS, independent=True)
    construction = machine.commitment.construct(presented, nonce)
    procedure.parsed(_STEPS.form, "a document of a known service", label)
    for name in _NAMES:
        _take(procedure, getattr(_STEPS, name), construction.comparisons.get(name))
    try:
        checks = procedure.finish().checks
    except AttestError as failure:
        return JudgedMachine(checks=_of(machine, failure.checks), failure=failure, claims={})
    claims = _claims(machine, presented, construction, fresh=nonce is not None)
    return JudgedMachine(checks=_of(machine, checks), failure=None, claims=claims)


_NAMES: tuple[StepName, ...] = ("nonce", "binding", "keys", "gpus", "statements", "envelope")


def _take(procedure: Procedure, step: Step, compare: Comparison | None) -> None:
    """Take one step; one that has nothing to compare is not evaluated."""
    with procedure.attempt(step):
        facts = procedure.need(compare, "nothing to compare with")()
        procedure.record(facts.expected, facts.got)


def _of(machine: StatedMachine, checks: Sequence[Check]) -> tuple[Check, ...]:
    return tuple(replace(check, item=machine.name) for check in checks)


def _claims(
    machine: StatedMachine, presented: PresentedMachine, construction: Construction, *, fresh: bool
) -> Mapping[str, JsonValue]:
    """Return the facts of a machine that passed every step."""
    keys = construction.keys.to_document()
    return {
        "binding": keys,
        "gpu_binding": machine.commitment.gpu_binding if presented.gpu_nonces else "none",
        "nonce_bound": fresh,
        **({"key_scope": machine.commitment.key_scope} if keys else {}),
        **construction.claims,
    }


def judge_machines(machines: Sequence[tuple[StatedMachine, PresentedMachine]]) -> tuple[Check, BindingError | None]:
    """Require the machines of a document to be different ones: no name, report, GPU or switch occurs in two."""
    repeated = _repeated(machines)
    count = len(machines)
    check = judged(
        _MACHINES,
        holds=repeated is None,
        expected=f"{count} different machines" if count > 1 else "one machine",
        got=f"{count} machines" if repeated is None else repeated,
        clause=_CLAUSE,
    )
    if repeated is None:
        return check, None
    return check, BindingError(
        f"two machines of the document are not different: {repeated}",
        code="provider-machine-repeated",
        check=_MACHINES,
        expected=check.expected,
        got=repeated,
        clause=_CLAUSE,
        hint="a device identifies the machine that it is in; a device in two machines identifies neither",
    )


def _repeated(machines: Sequence[tuple[StatedMachine, PresentedMachine]]) -> str | None:
    """Return what two machines share, if anything."""
    seen: dict[tuple[str, bytes], str] = {}
    for number, (machine, presented) in enumerate(machines):
        parts = [
            ("the report", presented.cpu),
            ("the name", machine.name.encode()),
            *((f"the device {name}", key) for name, key in presented.device_keys),
        ]
        for what, value in parts:
            kind = "device" if what.startswith("the device") else what
            first = seen.setdefault((kind, value), f"{number}")
            if first != f"{number}":
                return f"{what} of machine {number} is one of machine {first}"
    return None
