"""``python -m rag_demo.enclave --config FILE``: the service, until SIGTERM."""

from __future__ import annotations

import sys

from attest_kms.commands import sample

if __name__ == "__main__":
    sys.exit(sample("rag_demo.enclave"))
