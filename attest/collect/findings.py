"""What ``attest doctor`` finds: one thing that was looked at, how it came out, and what to do about it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from attest.errors import AttestError

__all__ = ["DoctorFinding", "Outcome", "finding_of", "may_use"]

Outcome = Literal["pass", "fail", "warning", "not evaluated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorFinding:
    """One thing that was looked at.

    Attributes:
        id: stable name (``interface``).
        outcome: only ``fail`` stands in the way.
        found: what was found, for people.
        fix: what to do about it, where there is something to do.
    """

    id: str
    outcome: Outcome
    found: str
    fix: str | None = None


def finding_of(name: str, error: AttestError, *, outcome: Outcome = "fail") -> DoctorFinding:
    """Make a finding of an error."""
    return DoctorFinding(id=name, outcome=outcome, found=error.message, fix=error.hint)


def may_use(path: Path, name: str) -> DoctorFinding:
    """Say whether this user may use a device."""
    if os.access(path, os.R_OK | os.W_OK):
        return DoctorFinding(id="permissions", outcome="pass", found=f"this user may use {name}")
    return DoctorFinding(
        id="permissions",
        outcome="fail",
        found=f"this user may not use {name}",
        fix="run as root, or give a group access to it by a udev rule",
    )
