"""Print the OpenAPI document: ``python -m kms.openapi > docs/openapi.json``."""

from __future__ import annotations

import json
import sys

from kms.app import describe

__all__ = ["document_text"]


def document_text() -> str:
    """Return the document, the same on every run."""
    return json.dumps(describe().openapi(), indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    sys.stdout.write(document_text())
