"""Comparisons of a document's statements with what hardware signed."""

from __future__ import annotations

from attest.evidence.procedure import require_equal
from attest.evidence.providers.document import PresentedMachine, StepFacts

_OTHER_MACHINE = "the document combines parts of two answers, or of two machines: request a new one"


def equal(wanted: bytes, got: bytes, problem: str, *, code: str, field: str, hint: str = _OTHER_MACHINE) -> StepFacts:
    """Require two values to be equal.

    Raises:
        BindingError: of this code.
    """
    require_equal(wanted, got, problem, code=code, field=field, hint=hint)
    return StepFacts(wanted.hex(), got.hex())


def require_nonce(wanted: bytes, found: bytes, field: str) -> StepFacts:
    """Require the client's nonce.

    Raises:
        BindingError: ``nonce-mismatch``.
    """
    return equal(
        wanted,
        found,
        f"{field} does not commit to the nonce that was given",
        code="nonce-mismatch",
        field=field,
        hint="this document answers another challenge: an old one, or the nonce of a gateway in between",
    )


def require_gpu_nonces(presented: PresentedMachine, wanted: bytes, source: str) -> StepFacts:
    """Require every GPU and switch to answer the nonce that the CPU's report fixes.

    Raises:
        BindingError: ``provider-gpu-nonce-mismatch``.
    """
    for name, nonce in presented.gpu_nonces:
        equal(
            wanted,
            nonce,
            f"{name} answers another nonce than {source}",
            code="provider-gpu-nonce-mismatch",
            field=f"{name}: nonce",
        )
    count = len(presented.gpu_nonces)
    return StepFacts(f"{wanted.hex()}, {source}, in every GPU", f"{count} devices carry it" if count else "no device")
