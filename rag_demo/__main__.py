"""``python -m rag_demo``: the demonstration; ``make demo`` runs it."""

from __future__ import annotations

import sys

from attest_kms.commands import sample

if __name__ == "__main__":
    sys.exit(sample("rag_demo"))
