"""Errors for a key-encryption key that is unavailable.

The key's location goes to standard error for the operator, not into the answer to the workload.
"""

from __future__ import annotations

import logging

from kms.domain.errors import UnavailableError

_log = logging.getLogger("kms.kek")
_MORE = "standard error of the service says more"


def unavailable(where: str, problem: str) -> UnavailableError:
    """Return the error for a back-end that does not answer, or not as it should."""
    text = "what holds the key-encryption key does not answer"
    return _error(where, problem, text, code="kek-unavailable", hint=f"try again; {_MORE}")


def refused(where: str, problem: str) -> UnavailableError:
    """Return the error for a back-end that denies this service the use of the key."""
    text = "what holds the key-encryption key does not let this service use it"
    return _error(where, problem, text, code="kek-refused", hint=f"PIN, token, permissions? {_MORE}")


def replaced(where: str, kek_id: bytes) -> UnavailableError:
    """Return the error for a back-end that holds another key now."""
    problem = f"it holds another key than {kek_id.hex()[:16]}; put that one back, no other opens what it wrapped"
    text = "the key-encryption key is another one than before"
    return _error(where, problem, text, code="kek-replaced", hint=_MORE)


def not_at_hand(kek_id: bytes, problem: str) -> UnavailableError:
    """Return the error for a key that the settings do not locate, or not correctly."""
    named = f"key-encryption key {kek_id.hex()[:16]}"
    hint = "put its definition into kek_directory; 'kms kek status' shows what is wrapped under which"
    text = f"the {named} is not at hand here"
    return _error(named, problem, text, code="kek-not-at-hand", hint=hint, field="kek_directory")


def _error(where: str, problem: str, text: str, *, code: str, hint: str, field: str | None = None) -> UnavailableError:
    _log.warning("%s: %s", where, " ".join(problem.split())[:500])
    return UnavailableError(text, code=code, field=field, hint=hint, retryable=True)
