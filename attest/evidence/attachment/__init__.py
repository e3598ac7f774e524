"""Attachments: data beside a CPU's evidence that the evidence commits to, or that endorses what it states."""

from __future__ import annotations
