"""Errors for a key-encryption key that is unavailable.

The key's location goes to standard error for the operator, not into the answer to the workload.
"""

from __future__ import annotations

import logging

from kms.domain.errors import UnavailableError

_log = logging.getLogger("kms.kek")


def unavailable(where: str, problem: str) -> UnavailableError:
    """Return the error for a back-end that does not answer, or not as it should."""
    _warn(where, problem)
    return UnavailableError(
        "what holds the key-encryption key does not answer",
        code="kek-unavailable",
        hint="try again; standard error of the service says more",
        retryable=True,
    )


def refused(where: str, problem: str) -> UnavailableError:
    """Return the error for a back-end that denies this service the use of the key."""
    _warn(where, problem)
    return UnavailableError(
        "what holds the key-encryption key does not let this service use it",
        code="kek-refused",
        hint="PIN, token, permissions? standard error of the service says more",
        retryable=True,
    )


def replaced(where: str, kek_id: bytes) -> UnavailableError:
    """Return the error for a back-end that holds another key now."""
    _warn(where, f"it holds another key than {kek_id.hex()[:16]}; put that one back, no other opens what it wrapped")
    return UnavailableError(
        "the key-encryption key is another one than before",
        code="kek-replaced",
        hint="standard error of the service says more",
        retryable=True,
    )


def not_at_hand(kek_id: bytes, problem: str) -> UnavailableError:
    """Return the error for a key that the settings do not locate, or not correctly."""
    _warn(f"key-encryption key {kek_id.hex()[:16]}", problem)
    return UnavailableError(
        f"the key-encryption key {kek_id.hex()[:16]} is not at hand here",
        code="kek-not-at-hand",
        field="kek_directory",
        hint="put its definition into kek_directory; 'kms kek status' shows what is wrapped under which",
        retryable=True,
    )


def _warn(where: str, problem: str) -> None:
    _log.warning("%s: %s", where, " ".join(problem.split())[:500])
