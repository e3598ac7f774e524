"""The service's branch of the error tree, ordered by who must act.

::

    AttestError
    └── KmsError
        ├── RequestError              the caller: the request breaks the protocol        400
        │   ├── BodyTooLargeError     …it is too long                                    413
        │   ├── MediaTypeError        …it is of another media type                       415
        │   └── SchemaError           …it is JSON of another shape                       422
        ├── ChallengeError            the caller: not a challenge of this service        400
        │   ├── ChallengeUsedError    …or one that was used before                       409
        │   └── ChallengeExpiredError …or one that is too old                            410
        ├── UnauthenticatedError      the caller: no known identity                      401
        ├── ForbiddenError            the caller: no role allows this                    403
        ├── ReleaseDeniedError        the key's owner or the Attester: a denial          403
        │   └── KeyUnknownError       …there is no such key                              404
        ├── LogTileUnknownError       the caller: the log has no such part               404
        ├── AttestationOffError       the caller: the service has no self-evidence       404
        ├── PolicyUnknownError        an administrator: no such policy of the tenant     404
        ├── GrantUnknownError         an administrator: there is no such grant           404
        ├── GrantConflictError        an administrator: it contradicts what is granted   409
        ├── KeyConflictError          the operator: it conflicts with the stored state
        ├── QuorumRequiredError       the operator: one person does not suffice              403
        ├── UnavailableError          the caller, later: retry in a moment               503
        │   └── RateLimitedError      …it requests too often                             429
        ├── LogBrokenError            the operator: the log was altered or damaged       500
        └── IntegrityError            the operator: stored data was altered or damaged   500

Malformed and unverifiable evidence, missing endorsements and wrong settings keep their classes of ``attest.errors``.
``kms/api/problems.py`` maps each class to a status.
"""

from __future__ import annotations

from attest.errors import AttestError


class KmsError(AttestError):
    """A documented refusal of the key-release service."""

    exit_code = 1


class RequestError(KmsError):
    """The request breaks the protocol."""


class BodyTooLargeError(RequestError):
    """The body is longer than the service reads."""


class MediaTypeError(RequestError):
    """The body has another media type than JSON."""


class SchemaError(RequestError):
    """The body is JSON of another shape."""


class ChallengeError(KmsError):
    """The challenge is not one that this service issued."""


class ChallengeUsedError(ChallengeError):
    """The challenge was used before."""


class ChallengeExpiredError(ChallengeError):
    """The challenge is too old."""


class UnauthenticatedError(KmsError):
    """The request has no known identity."""


class ForbiddenError(KmsError):
    """The caller is known, but has no role that allows the operation."""


class ReleaseDeniedError(KmsError):
    """The release was denied; ``checks`` has the failed checks."""


class KeyUnknownError(ReleaseDeniedError):
    """There is no such key."""


class KeyConflictError(KmsError):
    """The operation conflicts with the stored state."""


class PolicyUnknownError(KmsError):
    """No key of the tenant is guarded by such a policy."""


class GrantUnknownError(KmsError):
    """There is no such grant."""


class GrantConflictError(KmsError):
    """The operation conflicts with existing grants."""


class QuorumRequiredError(KmsError):
    """One person does not suffice for this change."""


class UnavailableError(KmsError):
    """Nothing was decided and nothing was used up; the same request may succeed in a moment."""


class RateLimitedError(UnavailableError):
    """The identity or the machine requests too often; ``retry_seconds`` is the wait until its next request."""

    def __init__(self, message: str, *, retry_seconds: int) -> None:
        super().__init__(message, code="rate-limited", retryable=True)
        self.retry_seconds = retry_seconds


class LogBrokenError(KmsError):
    """The log was altered or damaged."""


class LogTileUnknownError(KmsError):
    """The log has no such part, or not yet."""


class AttestationOffError(KmsError):
    """The service gives no evidence of the machine that it runs on."""


class IntegrityError(KmsError):
    """A stored secret does not open, or a record was altered. Nothing is released from it."""


def damaged(problem: str, *, code: str, field: str) -> IntegrityError:
    """Return the error for a record that was altered or damaged."""
    hint = "the database was altered or damaged; restore it from a backup"
    return IntegrityError(problem, code=code, field=field, hint=hint)
