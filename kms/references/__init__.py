"""Documents of reference values: taken in by an operator, proved again each time, in force while they are current."""

from __future__ import annotations

from kms.domain.references import Proof, StoredDocument

__all__ = ["Proof", "StoredDocument"]
