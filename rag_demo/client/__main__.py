"""``python -m rag_demo.client``."""

from __future__ import annotations

import sys

from rag_demo.client.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
