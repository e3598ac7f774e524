"""What can go wrong with answers, ordered by who must act.

::

    AttestError
    └── AnswerError             …                                                             exit 6
        └── LanguageModelError  the operator: the server that words answers does not do so    exit 6

No text of these quotes a question, a passage or an answer.
"""

from __future__ import annotations

from attest.errors import AttestError

__all__ = ["AnswerError", "LanguageModelError"]


class AnswerError(AttestError):
    """No answer could be made."""

    exit_code = 6


class LanguageModelError(AnswerError):
    """The server of the language model refused, broke off, or said what is no answer."""
