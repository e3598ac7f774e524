"""Measured-boot event logs (TCG crypto-agile, CCEL): structure, replay, and the facts that a digest vouches for."""

from __future__ import annotations
