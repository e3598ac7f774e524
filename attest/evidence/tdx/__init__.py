"""Intel TDX: the TD report that a quote carries."""

from __future__ import annotations
