"""Modes and time limits of transactions, for every database."""

from __future__ import annotations

from typing import Final

__all__ = ["BUSY_MILLISECONDS", "WRITING"]

WRITING: Final = "kms_writing"
"""Execution option of a connection that takes the write lock when its transaction begins, not at its first write."""
BUSY_MILLISECONDS: Final = 5000
