"""Measured-boot event logs (TCG crypto-agile, CCEL): structure, replay, and the facts that a digest authenticates."""

from __future__ import annotations
