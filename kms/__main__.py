"""``python -m kms``: the command line."""

from __future__ import annotations

import sys

from attest_kms.commands import kms

if __name__ == "__main__":
    sys.exit(kms())
