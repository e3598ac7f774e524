"""The error tree, ordered by the party that must act.

::

    AttestError
    ├── EvidenceError                the Attester: its evidence is malformed               exit 3
    │   └── UnsupportedError         well formed, but of a kind that is not verified       exit 3
    ├── VerificationError            the Attester: its evidence does not hold              exit 4
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
    │   └── LeaseEndedError          its lease can no longer be renewed
    ├── LeaseLostError               the workload: a held key must not be used any more    exit 1
    ├── AgentRefusedError            the caller of the agent: not permitted, or not there  exit 1
    ├── AgentUnavailableError        the agent does not answer, or its answer broke off    exit 5
    └── ConfigurationError           the operator: a file, flag or setting is wrong        exit 2
        ├── InvalidValueError        …a value or a key of a document
        └── OutputError              …the place of a file that is to be written

Wrong use by a programmer is ``TypeError`` or ``ValueError``. Callers match on the type and on ``code``; the text may
change.
"""

from __future__ import annotations

import copyreg
from dataclasses import KW_ONLY, dataclass
from dataclasses import field as dataclass_field
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from attest.checks import Check
    from attest.json_types import JsonValue

_CONTEXT = ("check", "field", "offset", "line", "column", "expected", "got", "clause", "hint")
_HTTP_ASK_AGAIN = frozenset({409, 410, 429, 502, 503, 504})
"""A challenge that was used or is too old, too many requests, and a service or a proxy that cannot answer now."""
_HTTP_UNAVAILABLE = 503


@dataclass(eq=False, repr=False)
class AttestError(Exception):
    """A documented refusal.

    Attributes:
        message: the text, lower case and without a full stop.
        code: stable name of the refusal, lower case with hyphens (``snp-signature-invalid``).
        check: id of the check that failed (``snp.signature``), if one did.
        field: name or path of the field (``REPORTED_TCB``, ``tcbInfo.tcbLevels[3]``).
        offset: byte offset of the field in its structure.
        line: line of a text file, from 1.
        column: column of that line, from 1, in characters.
        expected: the value that the rule accepts.
        got: the value found.
        clause: the place of the rule in the specification.
        hint: the next step for the reader.
        retryable: the same call may succeed later without any change.
        checks: every check of the procedure up to and including the failed one, when a procedure ran.
    """

    exit_code: ClassVar[int] = 70

    message: str
    _: KW_ONLY
    code: str
    check: str | None = None
    field: str | None = None
    offset: int | None = None
    line: int | None = None
    column: int | None = None
    expected: str | None = None
    got: str | None = None
    clause: str | None = None
    hint: str | None = None
    retryable: bool = False
    checks: tuple[Check, ...] = dataclass_field(default=(), init=False)

    def __post_init__(self) -> None:
        super().__init__(self.message)

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuild a copy from the state, with its cause only if that is an error of this tree and so can be pickled."""
        cause = {"__cause__": self.__cause__} if isinstance(self.__cause__, AttestError) else {}
        return copyreg.__newobj__, (type(self), *self.args), {**self.__dict__, **cause}  # type: ignore[attr-defined]

    def context(self) -> dict[str, str | int | bool]:
        """Return every known fact except the text, for JSON output and problem details."""
        known = {name: value for name in _CONTEXT if (value := getattr(self, name)) is not None}
        return {**known, "retryable": True} if self.retryable else known


class EvidenceError(AttestError):
    """The bytes violate their format."""

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
    """The evidence commits to something other than the expected values."""


class LogForkedError(VerificationError):
    """The service's log is not, or not provably, the one seen before.

    Two notes of the same size with different roots prove that the service signed two logs. Two notes of different
    sizes prove it if no consistency proof leads from one to the other.
    """

    def __init__(self, *, remembered: str, received: str) -> None:
        super().__init__(
            "the service does not prove that its log continues the one seen before",
            code="log-forked",
            expected=remembered,
            got=received,
            clause="RFC 9162, section 2.1.4",
            hint="keep both signed checkpoints; do not get keys from this service until it is explained",
        )


class ServiceNotGenuineError(VerificationError):
    """The answer does not come from the configured service, or is false; ``code`` and the cause give the evidence."""

    def __init__(self, cause: AttestError, *, url: str) -> None:
        super().__init__(
            f"the server at {url} does not prove that it is the configured service: {cause.message}",
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
    """The service could not be reached, or did not answer, before the timeout.

    Attributes:
        url: address of the service.
        tried: the result of each attempt, in order.
    """

    def __init__(self, message: str, *, url: str, tried: tuple[str, ...], hint: str | None = None) -> None:
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
    """A sealed file has a size, a header or a key that the format does not allow."""

    exit_code = 3


class SealedTamperError(SealedFileError):
    """The bytes of a sealed file differ from those sealed under this key for this place."""

    exit_code = 4


class SealedSourceError(SealedFileError):
    """A sealed file or its source cannot be read or written, or it changed meanwhile."""

    exit_code = 6


class ChannelError(AttestError):
    """A message of the encrypted channel, sealed or opened, violates its format."""

    exit_code = 3


class ChannelTamperError(ChannelError):
    """The message does not open to its end: it was altered, cut or reordered, or is for another recipient."""

    exit_code = 4


class ChannelRefusedError(ChannelError):
    """The request was not answered through the channel; any other answer proves nothing."""

    exit_code = 5


@dataclass(eq=False, repr=False, kw_only=True)
class ReleaseRefusedError(AttestError):
    """A refusal of the service, with its code, text and failed checks.

    Attributes:
        status: HTTP status of the answer.
        failed_checks: the failed checks of this workload, as far as the key's owner lets the service report them.
        retry_after: seconds until the next attempt, if the service states them.
    """

    exit_code = 1

    status: int
    failed_checks: tuple[JsonValue, ...]
    retry_after: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.retryable = self.status in _HTTP_ASK_AGAIN

    @property
    def failed_check_ids(self) -> tuple[str, ...]:
        """The ids of the failed checks, each once, in the service's order."""
        ids = (check.get("id") for check in self.failed_checks if isinstance(check, dict))
        return tuple(dict.fromkeys(one for one in ids if isinstance(one, str)))


class PolicyNotMetError(ReleaseRefusedError):
    """This machine, or its software, does not meet the key's policy, or a floor of the service."""


class KeyUnknownError(ReleaseRefusedError):
    """The key does not exist, or its owner hides it from this workload."""


class LeaseEndedError(ReleaseRefusedError):
    """A lease cannot be renewed: it ended, or the operator stopped its renewals."""


class LeaseLostError(AttestError):
    """A held key must not be used any more; the cause gives the reason.

    Attributes:
        failed_checks: the failed checks of this workload, if the service refused.
    """

    exit_code = 1

    def __init__(self, message: str, *, code: str, cause: AttestError | None = None, hint: str | None = None) -> None:
        super().__init__(message, code=code, got=None if cause is None else cause.code, hint=hint)
        self.failed_checks: tuple[JsonValue, ...] = (
            cause.failed_checks if isinstance(cause, ReleaseRefusedError) else ()
        )
        self.__cause__ = cause


@dataclass(eq=False, repr=False, kw_only=True)
class AgentRefusedError(AttestError):
    """A refusal of the agent.

    Attributes:
        status: HTTP status.
        headers: HTTP headers of the refusal, such as ``Allow``.
        failed_checks: the failed checks of this machine, if the key-release service refused.
        retry_after: seconds until the next attempt, if the agent states them.
    """

    exit_code = 1

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    failed_checks: tuple[JsonValue, ...] = ()
    retry_after: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.retryable = self.status == _HTTP_UNAVAILABLE


@dataclass(eq=False, repr=False, kw_only=True)
class AgentUnavailableError(AttestError):
    """The socket does not answer, or an answer broke off; a partial answer is discarded."""

    exit_code = 5

    retryable: bool = True


class ConfigurationError(AttestError):
    """A file, a flag or a setting is wrong."""

    exit_code = 2


class InvalidValueError(ConfigurationError):
    """A value or a key that is not allowed in its place.

    Attributes:
        at_key: the key is wrong, not its value.
    """

    at_key = False


@dataclass(eq=False, repr=False, kw_only=True)
class OutputError(ConfigurationError):
    """A file that cannot be written: the name is taken, or the place refuses it.

    Attributes:
        reason: the system's message.
        written: the whole file is in its place, but the disk failed to confirm that the name lasts. Otherwise
            nothing of it is there.
    """

    reason: str
    written: bool = False
