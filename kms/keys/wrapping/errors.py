"""Errors for a key-encryption key that is unavailable.

The key's location is logged for the operator, and is not part of the response to the workload.
"""

from __future__ import annotations

import logging

from kms.domain.errors import UnavailableError

_log = logging.getLogger("kms.kek")
_MORE = "the log of the service has details"


def unavailable(where: str, problem: str) -> UnavailableError:
    """Return the error for a back-end that is unavailable or answers incorrectly."""
    text = "the back-end of the key-encryption key is unavailable"
    return _error(where, problem, text, code="kek-unavailable", hint=f"try again; {_MORE}")


def refused(where: str, problem: str) -> UnavailableError:
    """Return the error for a back-end that denies the use of the key."""
    text = "the back-end of the key-encryption key denies its use"
    return _error(where, problem, text, code="kek-refused", hint=f"check PIN, token and permissions; {_MORE}")


def replaced(where: str, kek_id: bytes) -> UnavailableError:
    """Return the error for a back-end whose key was replaced."""
    problem = f"its key is not {kek_id.hex()[:16]}; restore that key: no other one can unwrap the keys under it"
    text = "the key-encryption key was replaced by a different one"
    return _error(where, problem, text, code="kek-replaced", hint=_MORE)


def not_at_hand(kek_id: bytes, problem: str) -> UnavailableError:
    """Return the error for a key whose location in the settings is missing or wrong."""
    named = f"key-encryption key {kek_id.hex()[:16]}"
    hint = "put its definition into kek_directory; 'kms kek status' shows the keys under each"
    text = f"the {named} is not available on this machine"
    return _error(named, problem, text, code="kek-not-at-hand", hint=hint, field="kek_directory")


def _error(where: str, problem: str, text: str, *, code: str, hint: str, field: str | None = None) -> UnavailableError:
    _log.warning("%s: %s", where, " ".join(problem.split())[:500])
    return UnavailableError(text, code=code, field=field, hint=hint, retryable=True)
