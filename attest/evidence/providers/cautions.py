"""Texts of the warnings about gaps of a document.

Spec: specs/providers.md, section 6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attest.checks import Caution
from attest.evidence.providers.document import PresentedMachine, StatedMachine

MESSAGES: Mapping[str, str] = {
    "freshness-not-evaluated": "no nonce was given: the document may be of any age, even if it names a nonce",
    "nonce-not-carried": "this form of document carries no nonce: it may be of any age",
    "keys-not-bound": "without a nonce REPORT_DATA could not be computed: nothing shows that a key belongs to the "
    "machine; do not encrypt to its keys, and verify with the nonce of your request",
    "tls-not-bound": "REPORT_DATA names no TLS key: TLS ends outside the machine, and only content that is encrypted "
    "to a key in the claim binding is hidden from the service in between",
    "key-of-app": "a key service gives the signing key to every machine of the application: it does not identify "
    "this machine, and stays the same after an update",
    "gpus-by-nonce": "only an equal nonce ties the GPUs to the CPU: GPUs of another machine that answer the same "
    "nonce pass",
    "gpus-not-shown": "a machine that serves a model gave no evidence of a GPU",
    "switches-not-shown": "several GPUs were given without evidence of NVSwitches",
    "code-by-compose-hash": "the compose hash covers app-compose, but not the values of its "
    "environment, images without "
    "a digest, or data that containers fetch",
    "code-reported": "the compose hash covers a manager; the list of containers that it started is its own statement",
    "code-not-shown": "the measurements have no published reference values: the operator of the machine decides which "
    "software runs",
    "measurements-not-compared": "the measurements were not compared with the signed ones of a release",
    "weights-not-proven": "no measurement covers the weights of the model",
    "instances-without-evidence": "keys were given for instances without evidence: these instances are not verified",
    "never-proven": "a document of this kind does not prove the model's name, the physical place of a machine, an "
    "answer, or that developer tools of the GPUs are off",
}
"""Text of each code."""


def cautions_of(
    codes: tuple[str, ...], machines: Sequence[tuple[StatedMachine, PresentedMachine]], *, nonce: bytes | None
) -> tuple[Caution, ...]:
    """Return what a document does not prove, each once, with the machines that it is about where not all are.

    Args:
        codes: of the document as a whole.
        machines: its machines.
        nonce: the client's nonce, or None.
    """
    about: dict[str, list[str]] = {}
    for machine, presented in machines:
        for code in _of_machine(machine, presented, nonce):
            about.setdefault(code, []).append(machine.name)
    whole = () if nonce is not None else ("freshness-not-evaluated",)
    count = len(machines)
    return (
        *(_caution(code, ()) for code in (*whole, *codes)),
        *(_caution(code, names if len(names) < count else ()) for code, names in about.items()),
        _caution("never-proven", ()),
    )


def _of_machine(machine: StatedMachine, presented: PresentedMachine, nonce: bytes | None) -> tuple[str, ...]:
    switches = any(name.startswith("nvswitch") for name, _ in presented.gpu_nonces)
    gpus = sum(name.startswith("gpu") for name, _ in presented.gpu_nonces)
    found = list(machine.commitment.cautions)
    if not machine.commitment.construct(presented, nonce).keys.to_document():
        found.insert(0, "keys-not-bound")
    if presented.gpu_nonces and machine.commitment.gpu_binding == "nonce":
        found.append("gpus-by-nonce")
    if not gpus and machine.role == "model":
        found.append("gpus-not-shown")
    if gpus > 1 and not switches:
        found.append("switches-not-shown")
    return tuple(found)


def _caution(code: str, names: tuple[str, ...] | list[str]) -> Caution:
    where = f" (machine {', '.join(names)})" if names else ""
    return Caution(code=code, message=f"{MESSAGES[code]}{where}")
