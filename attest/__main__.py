"""``python -m attest``: the command line."""

from __future__ import annotations

import sys

from attest_kms.commands import attest

if __name__ == "__main__":
    sys.exit(attest())
