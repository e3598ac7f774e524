"""What a program is told that gets no key, or loses one, sorted by what it does next.

::

    AttestError
    ├── ReleaseRefusedError        the service said no: its code and failed checks tell why          exit 1
    │   ├── PolicyNotMetError      …this machine is not what the key's policy asks for
    │   ├── KeyUnknownError        …there is no such key for this workload
    │   └── LeaseEndedError        …its lease is not renewed any more
    ├── LeaseLostError             a key that was held is to be used no more; the cause says why     exit 1
    ├── ServiceUnreachableError    nothing answered in time: try later (``tried`` says what was)     exit 5
    ├── ServiceNotGenuineError     something answered that is not the configured service             exit 4
    ├── CollectionError            this machine gives no evidence                                    exit 6
    └── ConfigurationError         the settings are wrong                                            exit 2
"""

from __future__ import annotations

from attest.errors import AppraisalError, AttestError, EndorsementError, EvidenceError, VerificationError
from attest.release.refusals import LeaseLostError, ReleaseRefusedError

__all__ = ["LeaseLostError", "ServiceNotGenuineError", "ServiceUnreachableError", "is_busy", "may_pass", "told"]

_BUSY = frozenset({429, 502, 503, 504})
_AWAY = frozenset({"service-unreachable", "service-evidence-unavailable"})


class ServiceUnreachableError(EndorsementError):
    """The service could not be asked, or could not answer, until the time was over.

    Attributes:
        url: whom was tried.
        tried: what each attempt came to, in order.
    """

    def __init__(self, message: str, *, url: str, tried: tuple[str, ...], hint: str | None = None) -> None:
        """Keep what was tried."""
        super().__init__(message, code="service-unreachable", got="; ".join(tried) or None, hint=hint, retryable=True)
        self.url = url
        self.tried = tried


class ServiceNotGenuineError(VerificationError):
    """What answers is not the service that is configured, or lies; ``code`` and the cause say how it was found out."""

    def __init__(self, cause: AttestError, *, url: str) -> None:
        """Keep the code and the checks of the cause."""
        super().__init__(
            f"what answers at {url} does not prove to be the configured service: {cause.message}",
            code=cause.code,
            field=cause.field,
            expected=cause.expected,
            got=cause.got,
            clause=cause.clause,
            hint=cause.hint,
        )
        self.url = url
        self.checks = cause.checks


def is_busy(error: AttestError) -> bool:
    """Say whether the service could not be asked or could not say, which may be another thing in a moment."""
    if isinstance(error, ReleaseRefusedError):
        return error.status in _BUSY
    return isinstance(error, EndorsementError) and error.code in _AWAY


def may_pass(error: AttestError) -> bool:
    """Say whether it is worth asking again at once.

    What a vendor says of the service's machine and is missing stays missing: who fetches it has asked again already.
    """
    return is_busy(error) or (error.retryable and not isinstance(error, EndorsementError))


def told(error: AttestError, *, url: str) -> AttestError:
    """Return the error that a program is to see in place of one of the protocol."""
    if isinstance(error, ServiceNotGenuineError | ServiceUnreachableError | ReleaseRefusedError):
        return error
    if isinstance(error, AppraisalError | EvidenceError | VerificationError):
        return ServiceNotGenuineError(error, url=url)
    return error
