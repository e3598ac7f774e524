"""Print an OpenAPI document.

::

    python -m kms.cli.openapi > docs/openapi.json
    python -m kms.cli.openapi admin > docs/openapi-admin.json
"""

from __future__ import annotations

import json
import sys

from fastapi import FastAPI

from kms.admin_api.app import describe_admin
from kms.api.app import describe


def document_text(app: FastAPI | None = None) -> str:
    """Return the OpenAPI document of an application (default: the release plane); the same on every run."""
    return json.dumps((app or describe()).openapi(), indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    sys.stdout.write(document_text(describe_admin() if sys.argv[1:] == ["admin"] else None))
