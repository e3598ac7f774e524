"""The branch of the error tree for documents, ordered by who must act.

::

    AttestError
    └── DocumentError            who sent the document: it cannot be read, or is not what it says
        ├── DocumentLimitError   …it is larger, or takes more, than is allowed
        └── DocumentReaderError  the operator: documents cannot be read here, whatever they are
"""

from __future__ import annotations

from attest.errors import AttestError

__all__ = ["DocumentError", "DocumentLimitError", "DocumentReaderError"]


class DocumentError(AttestError):
    """The document cannot be read, or is not what its name or media type says."""

    exit_code = 3


class DocumentLimitError(DocumentError):
    """The document is larger, or reading it takes more, than is allowed.

    ``field`` is the name of the limit in ``DocumentLimits``, or says of what there is too much.
    """


class DocumentReaderError(DocumentError):
    """The process that reads documents cannot be started or confined, or has a defect of ours."""

    exit_code = 6
