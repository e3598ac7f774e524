"""The transparency log of decisions and changes, append-only and tamper-evident."""

from __future__ import annotations

from kms.domain.log_entries import GENESIS, LogEntry, LogHead, make_entry
from kms.domain.log_verification import LogState, verify_log

__all__ = ["GENESIS", "LogEntry", "LogHead", "LogState", "make_entry", "verify_log"]
