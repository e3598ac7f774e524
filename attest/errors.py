"""The one error tree, ordered by who must act.

::

    AttestError
    ├── EvidenceError                the Attester: what it sent is malformed               exit 3
    │   └── UnsupportedError         well formed, but of a kind that is not verified       exit 3
    ├── VerificationError            the Attester: what it sent does not hold              exit 4
    │   ├── SignatureError           a signature over evidence does not verify
    │   ├── ChainError               no path to an anchor, or a certificate does not fit
    │   ├── RevokedError             the vendor withdrew a certificate
    │   ├── BindingError             fresh for another challenge, or not fresh at all
    │   ├── LogForkedError           the service's log is not the one that was seen before
    │   └── ServiceNotGenuineError   the answer is not from the configured service
    ├── EndorsementError             the Verifier: fetch what is missing or stale          exit 5
    │   └── ServiceUnreachableError  the service did not answer in time: try later
    ├── AppraisalError               the policy's owner or the Attester: not acceptable    exit 1
    ├── CollectionError              the Attester's machine: it gives no evidence          exit 6
    ├── SealedFileError              the storage of the sealed file: not a sealed file     exit 3
    │   ├── SealedTamperError        its bytes are not those that were sealed              exit 4
    │   └── SealedSourceError        it cannot be read or written, or it changes           exit 6
    ├── ChannelError                 the sender of the message: not a message              exit 3
    │   ├── ChannelTamperError       altered, cut, or for another recipient                exit 4
    │   └── ChannelRefusedError      the service, or a hop on the way: no answer           exit 5
    ├── ReleaseRefusedError          the key's owner or the workload: no key               exit 1
    │   ├── PolicyNotMetError        this machine does not meet the key's policy
    │   ├── KeyUnknownError          there is no such key for this workload
    │   └── LeaseEndedError          its lease is not renewed any more
    ├── LeaseLostError               the workload: a held key must not be used any more    exit 1
    ├── AgentRefusedError            the caller of the agent: not permitted, or not there  exit 1
    ├── AgentUnavailableError        the agent does not answer, or its answer broke off    exit 5
    └── ConfigurationError           the operator: a file, flag or setting is wrong        exit 2
        ├── InvalidValueError        …a value or a key of a document
        └── OutputError              …the place of a file that is to be written

Wrong use by a programmer is ``TypeError`` or ``ValueError`` and is not part of this tree. Callers match on the
type and on ``code``; the text is for people and may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from attest.checks import Check
    from attest.json_types import JsonValue

__all__ = [
    "AgentRefusedError",
    "AgentUnavailableError",
    "AppraisalError",
    "AttestError",
    "BindingError",
    "ChainError",
    "ChannelError",
    "ChannelRefusedError",
    "ChannelTamperError",
    "CollectionError",
    "ConfigurationError",
    "EndorsementError",
    "EvidenceError",
    "InvalidValueError",
    "KeyUnknownError",
    "LeaseEndedError",
    "LeaseLostError",
    "LogForkedError",
    "OutputError",
    "PolicyNotMetError",
    "ReleaseRefusedError",
    "RevokedError",
    "SealedFileError",
    "SealedSourceError",
    "SealedTamperError",
    "ServiceNotGenuineError",
    "ServiceUnreachableError",
    "SignatureError",
    "UnsupportedError",
    "VerificationError",
]

_HTTP_ASK_AGAIN = frozenset({409, 410, 429, 502, 503, 504})
"""A challenge that was used or is too old, too many requests, and a service or a proxy that cannot answer now."""
_HTTP_UNAVAILABLE = 503


class AttestError(Exception):
    """A documented refusal.

    Attributes:
        code: stable name of the refusal, lower case with hyphens (``snp-signature-invalid``).
        check: id of the check that failed (``snp.signature``), if one did.
        field: name or path of the field (``REPORTED_TCB``, ``tcbInfo.tcbLevels[3]``).
        offset: byte offset of the field in its structure.
        line: line of a text file, from 1.
        column: column of that line, from 1, in characters.
        expected: what would have been accepted.
        got: what was found.
        clause: where the rule stands in the specification.
        hint: what the person who sees this can do next.
        retryable: the same call may succeed later without any change.
        checks: every check of the procedure up to and including the failed one, when a procedure ran.
    """

    exit_code: ClassVar[int] = 70

    def __init__(
        self,
        message: str,
        *,
        code: str,
        check: str | None = None,
        field: str | None = None,
        offset: int | None = None,
        line: int | None = None,
        column: int | None = None,
        expected: str | None = None,
        got: str | None = None,
        clause: str | None = None,
        hint: str | None = None,
        retryable: bool = False,
    ) -> None:
        """Describe the refusal; see the class for the meaning of each argument."""
        super().__init__(message)
        self.code = code
        self.check = check
        self.field = field
        self.offset = offset
        self.line = line
        self.column = column
        self.expected = expected
        self.got = got
        self.clause = clause
        self.hint = hint
        self.retryable = retryable
        self.checks: tuple[Check, ...] = ()

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuild a copy from the state: the constructors ask for more than the text that ``Exception`` keeps.

        A copy keeps its cause if that is an error of this tree. Any other cause may hold what cannot be pickled.
        """
        cause = {"__cause__": self.__cause__} if isinstance(self.__cause__, AttestError) else {}
        return _blank, (type(self), self.args), {**self.__dict__, **cause}

    @property
    def message(self) -> str:
        """The text, lower case and without a full stop."""
        return str(self.args[0])

    def context(self) -> dict[str, str | int | bool]:
        """Return what is known beside the text, for JSON output and problem details."""
        facts = {
            "check": self.check,
            "field": self.field,
            "offset": self.offset,
            "line": self.line,
            "column": self.column,
            "expected": self.expected,
            "got": self.got,
            "clause": self.clause,
            "hint": self.hint,
        }
        known: dict[str, str | int | bool] = {name: value for name, value in facts.items() if value is not None}
        if self.retryable:
            known["retryable"] = True
        return known


def _blank(kind: type[AttestError], args: tuple[object, ...]) -> AttestError:
    return kind.__new__(kind, *args)


class EvidenceError(AttestError):
    """The bytes are not what their format says."""

    exit_code = 3


class UnsupportedError(EvidenceError):
    """The bytes are well formed and of a kind that this version does not verify."""


class VerificationError(AttestError):
    """The evidence is readable and does not hold."""

    exit_code = 4


class SignatureError(VerificationError):
    """A signature over evidence does not verify."""


class ChainError(VerificationError):
    """No path to an anchor, or a certificate that does not fit its place."""


class RevokedError(VerificationError):
    """The vendor revoked a certificate of the chain."""


class BindingError(VerificationError):
    """The evidence commits to something other than what was asked for."""


class LogForkedError(VerificationError):
    """The log that is shown now is not the one that was seen before, or is not shown to be.

    Two notes of the same size with different roots prove by themselves that the service signed two logs. Of different
    sizes they prove it to whoever finds that no consistency proof leads from the one to the other.

    Attributes:
        remembered: the signed note seen before.
        received: the signed note seen now.
    """

    def __init__(self, *, remembered: str, received: str) -> None:
        """Keep both notes."""
        super().__init__(
            "the service does not show that its log is still the one that was seen before",
            code="log-forked",
            expected=remembered,
            got=received,
            clause="RFC 9162, section 2.1.4",
            hint="keep both checkpoints, which the service signed; get no more keys from it until this is explained",
        )
        self.remembered = remembered
        self.received = received


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


class EndorsementError(AttestError):
    """An endorsement is missing, stale, not yet valid or of another platform."""

    exit_code = 5


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


class AppraisalError(AttestError):
    """The verified evidence does not meet the policy."""

    exit_code = 1


class CollectionError(AttestError):
    """This machine could not produce evidence."""

    exit_code = 6


class SealedFileError(AttestError):
    """A sealed file has a size, a header or a key that no sealed file of ours has."""

    exit_code = 3


class SealedTamperError(SealedFileError):
    """The bytes of a sealed file are not those that were sealed under this key for this place."""

    exit_code = 4


class SealedSourceError(SealedFileError):
    """A sealed file, or what shall become one, cannot be read or written, or it changed meanwhile."""

    exit_code = 6


class ChannelError(AttestError):
    """A message of the encrypted channel, or what was opened of it, is not what its format says."""

    exit_code = 3


class ChannelTamperError(ChannelError):
    """The message does not open, or not to its end: it was altered, cut, reordered, or is for somebody else."""

    exit_code = 4


class ChannelRefusedError(ChannelError):
    """The request was not answered through the channel; whatever came back instead proves nothing."""

    exit_code = 5


class ReleaseRefusedError(AttestError):
    """The service refused; code, text and failed checks are its own words.

    Attributes:
        status: HTTP status of the answer.
        failed_checks: the checks that stood against this workload, as the service reports them; which of them it
            tells, and with what, is the key owner's choice.
        retry_after: seconds after which the service wants to be asked again, if it says so.
    """

    exit_code = 1

    def __init__(
        self,
        message: str,
        *,
        code: str,
        status: int,
        failed_checks: tuple[JsonValue, ...],
        retry_after: float | None = None,
        hint: str | None = None,
    ) -> None:
        """Keep the service's problem details."""
        super().__init__(message, code=code, hint=hint, retryable=status in _HTTP_ASK_AGAIN)
        self.status = status
        self.failed_checks = failed_checks
        self.retry_after = retry_after

    @property
    def failed_check_ids(self) -> tuple[str, ...]:
        """The ids of the failed checks, each once, in the service's order."""
        ids = (check.get("id") for check in self.failed_checks if isinstance(check, dict))
        return tuple(dict.fromkeys(one for one in ids if isinstance(one, str)))


class PolicyNotMetError(ReleaseRefusedError):
    """This machine, or what runs on it, is not what the key's policy asks for."""


class KeyUnknownError(ReleaseRefusedError):
    """There is no such key, or its owner tells this workload nothing of it."""


class LeaseEndedError(ReleaseRefusedError):
    """A lease that was to be renewed counts no more, or the operator stopped its renewals."""


class LeaseLostError(AttestError):
    """A key that was held is to be used no more; the cause says why.

    Attributes:
        failed_checks: what the service says that stood against this workload, if it refused.
    """

    exit_code = 1

    def __init__(self, message: str, *, code: str, cause: AttestError | None = None, hint: str | None = None) -> None:
        """Keep what the service said."""
        super().__init__(message, code=code, got=None if cause is None else cause.code, hint=hint)
        self.failed_checks: tuple[JsonValue, ...] = (
            cause.failed_checks if isinstance(cause, ReleaseRefusedError) else ()
        )
        self.__cause__ = cause


class AgentRefusedError(AttestError):
    """The agent does not give what was asked for.

    Attributes:
        status: of HTTP.
        headers: that belong to the refusal, such as ``Allow``.
        failed_checks: what the key-release service says that stands against this machine, if that is the reason.
        retry_after: seconds after which it is worth asking again, if the agent says so.
    """

    exit_code = 1

    def __init__(
        self,
        message: str,
        *,
        code: str,
        status: int,
        expected: str | None = None,
        hint: str | None = None,
        headers: tuple[tuple[str, str], ...] = (),
        failed_checks: tuple[JsonValue, ...] = (),
        retry_after: float | None = None,
    ) -> None:
        """Keep what HTTP says beside the error."""
        super().__init__(message, code=code, expected=expected, hint=hint, retryable=status == _HTTP_UNAVAILABLE)
        self.status = status
        self.headers = headers
        self.failed_checks = failed_checks
        self.retry_after = retry_after


class AgentUnavailableError(AttestError):
    """Nobody answers at the socket, or an answer broke off: what was received of it counts for nothing."""

    exit_code = 5

    def __init__(self, message: str, *, code: str, hint: str | None = None) -> None:
        """Keep it retryable: it may be another thing in a moment."""
        super().__init__(message, code=code, hint=hint, retryable=True)


class ConfigurationError(AttestError):
    """A file, a flag or a setting is wrong."""

    exit_code = 2


class InvalidValueError(ConfigurationError):
    """A value or a key that cannot stand where it stands.

    Attributes:
        at_key: it is the key that is wrong.
    """

    at_key = False


class OutputError(ConfigurationError):
    """A file is not written: one is there already, or the place does not take it.

    Attributes:
        reason: why not, in the system's words.
        written: the whole file is there under its name all the same; the disk failed to confirm that the name lasts.
            Otherwise nothing of it is there.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        field: str,
        reason: str,
        got: str | None = None,
        hint: str | None = None,
        written: bool = False,
    ) -> None:
        """Keep the system's words."""
        super().__init__(message, code=code, field=field, got=got, hint=hint)
        self.reason = reason
        self.written = written
