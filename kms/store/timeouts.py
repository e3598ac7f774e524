"""Modes and time limits of transactions, for every database."""

from __future__ import annotations

from typing import Final

WRITING: Final = "kms_writing"
"""Execution option of a connection that takes the write lock when its transaction begins, not at its first write."""
BUSY_MILLISECONDS: Final = 5000
