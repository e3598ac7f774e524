"""TPM 2.0 quotes: their structure, and what makes one genuine."""

from __future__ import annotations
