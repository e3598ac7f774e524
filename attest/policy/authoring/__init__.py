"""What people do with policies: draft, explain, compare, lint, test and sign them."""

from __future__ import annotations
