"""Telemetry of a request: stages with their time, decisions, limits.

Observers are set once, at the start of the request, and are available in all of its code, including its threads.
Without observers, as at the command line, nothing is observed. They receive names from closed sets; never a key's id, a
tenant, a chip, a token or a secret (MC-33).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar, copy_context
from typing import Final, Literal, ParamSpec, Protocol, TypeVar

from attest import Evidence
from attest.errors import (
    AppraisalError,
    AttestError,
    EndorsementError,
    EvidenceError,
    VerificationError,
)
from attest.evidence import (
    MEDIA_AZURE_CVM,
    MEDIA_CONFIGFS_TSM,
    MEDIA_INTEL_QUOTE,
    MEDIA_NVIDIA_DEVICE,
    MEDIA_NVIDIA_REPORT,
    MEDIA_SNP_EXTENDED,
    MEDIA_SNP_REPORT,
)
from attest.release import Passport
from kms.domain.errors import IntegrityError, LogBrokenError, ReleaseDeniedError, UnavailableError
from kms.domain.passports import PresentedToken

Stage = Literal["challenge", "verify", "decide", "unwrap", "wrap", "log", "prove", "read", "write"]
"""``read`` and ``write`` are transactions of the database; ``wrap`` seals to the workload, within ``log``."""
Outcome = Literal["allow", "deny", "refused", "undecided", "failed"]
RELEASED: Final = "released"
"""Placeholder for a code if there was no error."""

_CPUS: Final = {
    MEDIA_SNP_REPORT: "snp",
    MEDIA_SNP_EXTENDED: "snp",
    MEDIA_CONFIGFS_TSM: "tsm",
    MEDIA_INTEL_QUOTE: "intel",
    MEDIA_AZURE_CVM: "azure",
}
_GPUS: Final = frozenset({MEDIA_NVIDIA_REPORT, MEDIA_NVIDIA_DEVICE})
_PASSPORT: Final = "passport"
TEES: Final = (
    *(f"{cpu}{gpu}" for cpu in (*dict.fromkeys(_CPUS.values()), "none") for gpu in ("", "+gpu")),
    _PASSPORT,
)
T = TypeVar("T")
P = ParamSpec("P")


class Observer(Protocol):
    """An observer of requests. It must not raise, and must not wait."""

    def stage(self, name: Stage, *, tee: str | None) -> AbstractContextManager[None]:
        """Return a context manager that spans a stage."""
        ...

    def decided(self, outcome: Outcome, code: str) -> None:
        """Record the end of a request for keys."""
        ...

    def state_refused(self, code: str) -> None:
        """Record stored state that differs from the state that this service stored last."""
        ...


_observers: ContextVar[tuple[Observer, ...]] = ContextVar("kms_observers", default=())


def observe(observers: tuple[Observer, ...]) -> None:
    """Set the observers of this task and of the threads that it starts."""
    _observers.set(observers)


@contextmanager
def stage(name: Stage, *, tee: str | None = None) -> Iterator[None]:
    """Observe a stage, with one of ``TEES`` if it reads evidence."""
    with ExitStack() as stack:
        for observer in _observers.get():
            stack.enter_context(observer.stage(name, tee=tee))
        yield


def state_refused(code: str) -> bool:
    """Report stored state that differs from the state stored last; return True if there are observers."""
    observers = _observers.get()
    for observer in observers:
        observer.state_refused(code)
    return bool(observers)


def carried(work: Callable[P, T]) -> Callable[P, T]:
    """Return work for another thread, with the observers of this one."""
    context = copy_context()

    def work_there(*args: P.args, **kwargs: P.kwargs) -> T:
        return context.copy().run(work, *args, **kwargs)

    return work_there


def counted(work: Callable[[], T]) -> T:
    """Do the work that decides on a request for keys, and report its outcome."""
    try:
        done = work()
    except AttestError as exc:
        _decided(_outcome_of(exc), exc.code)
        raise
    except BaseException:
        _decided("failed", "internal-error")
        raise
    _decided("allow", RELEASED)
    return done


def tee_of(evidence: Evidence | Passport | PresentedToken) -> str:
    """Return the kind of evidence: one of ``TEES``."""
    if not isinstance(evidence, Evidence):
        return _PASSPORT
    kinds = {item.media_type for item in evidence.items}
    cpu = next((name for media_type, name in _CPUS.items() if media_type in kinds), "none")
    return f"{cpu}+gpu" if kinds & _GPUS else cpu


def _decided(outcome: Outcome, code: str) -> None:
    for observer in _observers.get():
        observer.decided(outcome, code)


_OUTCOME_OF: Final[tuple[tuple[type[AttestError], Outcome], ...]] = (
    (ReleaseDeniedError, "deny"),
    (UnavailableError, "undecided"),
    (EndorsementError, "undecided"),
    (IntegrityError, "failed"),
    (LogBrokenError, "failed"),
    (EvidenceError, "deny"),
    (VerificationError, "deny"),
    (AppraisalError, "deny"),
)


def _outcome_of(error: AttestError) -> Outcome:
    """Distinguish a denial from a request that was never examined, and both from a failure."""
    return next((outcome for kind, outcome in _OUTCOME_OF if isinstance(error, kind)), "refused")
