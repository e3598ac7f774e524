"""The step of the story with refused key requests: each differs from an honest one in one respect."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, get_args

import httpx

from attest.encoding import json_value
from attest.errors import AttestError, ReleaseRefusedError
from attest.evidence import Binding, Evidence
from attest.release import KeyReleaseClient, VerifierKey
from attest_simulator.machines import MachineKind, SimulatedMachine
from rag_demo.demo.narrator import Narrator
from rag_demo.demo.owner import machine_of
from rag_demo.demo.parties import Stage

_RELEASES: Final = "/v1/releases"
_SECONDS: Final = 20.0


def show_refusals(out: Narrator, stage: Stage) -> None:
    """Ask the documents' owner for its key as others would, and show how each of them is refused."""
    out.title(
        "Others request the documents' key",
        proves="it is released only to that complete machine, for one nonce, and only once",
    )
    owner, options = stage.facts["documents"], stage.options
    kind = next(one for one in get_args(MachineKind) if one == options.machine)
    machine = machine_of(kind, options.gpus)
    sent: list[bytes] = []
    with _service(stage, sent) as http:
        client = KeyReleaseClient(http, service=VerifierKey.parse(owner["identity"]))
        for what, attester, code in _attempts(machine):
            with _refusal(out, what, code):
                client.release((owner["key"],), attester=attester)
        client.release((owner["key"],), attester=machine)  # as the enclave does
        with _refusal(out, "an honest request, replayed", "challenge-used"):
            _send(http, sent[-1])


def _attempts(machine: SimulatedMachine) -> Iterator[tuple[str, Callable[[Binding], Evidence], str]]:
    """Yield what is wrong, evidence of it, and the code of the refusal."""
    yield "another image on the same machine", machine.with_other_image(), "policy-not-met"
    yield "evidence for another nonce", _for_another_question(machine), "nonce-mismatch"
    if machine.board is not None:
        yield "evidence without one GPU", _without_one_gpu(machine), "binding-devices-mismatch"


def _for_another_question(machine: SimulatedMachine) -> Callable[[Binding], Evidence]:
    return lambda binding: machine(replace(binding, nonce=secrets.token_bytes(len(binding.nonce))))


def _without_one_gpu(machine: SimulatedMachine) -> Callable[[Binding], Evidence]:
    def collect(binding: Binding) -> Evidence:
        evidence = machine(binding)
        return replace(evidence, items=tuple(item for item in evidence.items if item.name != "gpu0"))

    return collect


@contextmanager
def _refusal(out: Narrator, what: str, code: str) -> Iterator[None]:
    """Expect that what the block does is refused with this code."""
    try:
        yield
    except AttestError as exc:
        out.expect(f"{what}: refused, {exc.code}", holds=exc.code == code, got=exc.message)
    else:
        out.bad(f"{what}: got the key")


@contextmanager
def _service(stage: Stage, sent: list[bytes]) -> Iterator[httpx.Client]:
    """Connect to the documents' owner; requests for keys are recorded."""

    def record(request: httpx.Request) -> None:
        if request.url.path == _RELEASES:
            sent.append(request.read())

    url = stage.programs["kms-documents"].facts("listening")["listening"]
    with httpx.Client(base_url=url, trust_env=False, timeout=_SECONDS, event_hooks={"request": [record]}) as http:
        yield http


def _send(http: httpx.Client, request: bytes) -> None:
    answer = http.post(_RELEASES, content=request, headers={"Content-Type": "application/json"})
    if answer.is_success:
        return
    problem = json_value(answer.content, what="answer")
    code = str(problem.get("code")) if isinstance(problem, dict) else ""
    raise ReleaseRefusedError(
        f"HTTP status {answer.status_code}", code=code, status=answer.status_code, failed_checks=()
    )
