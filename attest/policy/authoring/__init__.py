"""Authoring of policies: draft, explain, compare, lint, test and sign."""

from __future__ import annotations
