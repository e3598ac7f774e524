"""``python -m rag_demo``: the demonstration; ``make demo`` runs it."""

from __future__ import annotations

import sys

from rag_demo.demo.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
