"""The one error tree, ordered by who must act.

::

    AttestError
    ├── EvidenceError            the Attester: what it sent is malformed            exit 3
    │   └── UnsupportedError     nobody: well formed, but outside what we verify    exit 3
    ├── VerificationError        the Attester: what it sent does not hold           exit 4
    │   ├── SignatureError       a signature over evidence does not verify
    │   ├── ChainError           no path to an anchor, or a certificate does not fit
    │   ├── RevokedError         the vendor withdrew a certificate
    │   └── BindingError         fresh for somebody else, or not fresh at all
    ├── EndorsementError         the Verifier: fetch what is missing or stale       exit 5
    ├── AppraisalError           the policy's owner or the Attester: not acceptable exit 1
    ├── CollectionError          the Attester's machine: no evidence to be had      exit 6
    ├── SealedFileError          who stores the sealed file: it is none             exit 3
    │   ├── SealedTamperError    its bytes are not those that were sealed           exit 4
    │   └── SealedSourceError    it cannot be read or written, or it changes        exit 6
    ├── ChannelError             who sent the message: it is none                   exit 3
    │   ├── ChannelTamperError   it was altered, cut, or is for somebody else       exit 4
    │   └── ChannelRefusedError  the service, or somebody on the way: no answer     exit 5
    └── ConfigurationError       the operator: a file, flag or setting is wrong     exit 2

Wrong use by a programmer is ``TypeError`` or ``ValueError`` and is not part of this tree. Callers match on the
type and on ``code``; the text is for people and may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from attest.checks import Check

__all__ = [
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
    "RevokedError",
    "SealedFileError",
    "SealedSourceError",
    "SealedTamperError",
    "SignatureError",
    "UnsupportedError",
    "VerificationError",
]


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


class EndorsementError(AttestError):
    """An endorsement is missing, stale, not yet valid or of another platform."""

    exit_code = 5


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


class ConfigurationError(AttestError):
    """A file, a flag or a setting is wrong."""

    exit_code = 2
