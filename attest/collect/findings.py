"""Findings of ``attest doctor``: a check, its outcome, and the remedy."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from attest.errors import AttestError

Outcome = Literal["pass", "fail", "warning", "not evaluated"]
OLD_FIRMWARE_FIX = "update it, or use another host; docs/firmware.md describes the table"


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorFinding:
    """Result of one check: its stable name, its outcome, the facts for people, and the remedy.

    Only ``fail`` prevents attestation.
    """

    id: str
    outcome: Outcome
    found: str
    fix: str | None = None


def finding_of(name: str, error: AttestError, *, outcome: Outcome = "fail") -> DoctorFinding:
    """Return an error as a finding."""
    return DoctorFinding(id=name, outcome=outcome, found=error.message, fix=error.hint)


def may_use(path: Path, name: str) -> DoctorFinding:
    """Return whether this user may use a device."""
    if os.access(path, os.R_OK | os.W_OK):
        return DoctorFinding(id="permissions", outcome="pass", found=f"this user may use {name}")
    return DoctorFinding(
        id="permissions",
        outcome="fail",
        found=f"this user may not use {name}",
        fix="run as root, or give a group access to it by a udev rule",
    )
