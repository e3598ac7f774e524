"""The enclave's branch of the error tree, ordered by who must act.

::

    AttestError
    ├── DocumentError             the sender: the document cannot be read, or is not what it says  exit 3
    │   ├── DocumentLimitError    …it is larger, or takes more, than is allowed
    │   └── DocumentReaderError   the operator: this machine reads no documents at all             exit 6
    ├── StoreError                …                                                                exit 6
    │   ├── StoreInputError       the sender: a name or a passage is not what a document has       exit 3
    │   ├── StoreLimitError       the user: the collection is full                                 exit 3
    │   ├── StoreConflictError    the user: there already, or deleted while it came                exit 3
    │   ├── StoreDamagedError     the operator: not what was written, or another key               exit 4
    │   ├── StoreVersionError     the operator: of another version or another model                exit 2
    │   ├── StoreInUseError       the operator: another process has it
    │   ├── StoreUnavailableError the operator: no space, no permission
    │   └── StoreClosedError      the service was locked, and has forgotten its key                exit 5
    ├── AnswerError               no answer could be made                                          exit 6
    │   └── LanguageModelError    the operator: the server of the language model failed
    └── RefusedError              the caller: the service does not do what was asked               exit 1

No text of these names a document, a word, a passage, a question, an answer or a key.
"""

from __future__ import annotations

from http import HTTPStatus

from attest.errors import AttestError


class DocumentError(AttestError):
    """The document cannot be read, or is not what its name or media type says."""

    exit_code = 3


class DocumentLimitError(DocumentError):
    """The document is larger, or reading it takes more, than is allowed.

    ``field`` is the name of the limit in ``DocumentLimits``, or says of what there is too much.
    """


class DocumentReaderError(DocumentError):
    """The process that reads documents cannot be started or confined, or has a defect."""

    exit_code = 6


class StoreError(AttestError):
    """Stored documents could not be reached, read or changed."""

    exit_code = 6


class StoreInputError(StoreError):
    """A name, an id or a passage is not what a document has."""

    exit_code = 3


class StoreLimitError(StoreError):
    """The collection, or the store, is full."""

    exit_code = 3


class StoreConflictError(StoreError):
    """The document is there already, or it was deleted while it came."""

    exit_code = 3


class StoreDamagedError(StoreError):
    """The stored bytes were not written under this key."""

    exit_code = 4


class StoreVersionError(StoreError):
    """The stored bytes were written by another version, or for another model."""

    exit_code = 2


class StoreInUseError(StoreError):
    """Another process has the store."""


class StoreUnavailableError(StoreError):
    """The file system of the store refuses to read or write."""


class StoreClosedError(StoreError):
    """The store was closed, and its key and vectors are wiped."""

    exit_code = 5


class AnswerError(AttestError):
    """No answer could be made."""

    exit_code = 6


class LanguageModelError(AnswerError):
    """The server of the language model refused, stopped, or returned an invalid answer."""


class RefusedError(AttestError):
    """The service refuses a request.

    Attributes:
        retry_seconds: after how many seconds it is worth while to ask again.
    """

    exit_code = 1

    def __init__(
        self,
        message: str,
        *,
        code: str,
        status: HTTPStatus,
        field: str | None = None,
        expected: str | None = None,
        got: str | None = None,
        hint: str | None = None,
        retry_seconds: int | None = None,
    ) -> None:
        super().__init__(
            message,
            code=code,
            field=field,
            expected=expected,
            got=got,
            hint=hint,
            retryable=retry_seconds is not None,
        )
        self.status = status
        self.retry_seconds = retry_seconds
