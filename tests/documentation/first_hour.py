"""What the reader of docs/first-hour.md saves before its first command."""

from types import MappingProxyType

from tests.conftest import REPOSITORY

PAGE = REPOSITORY / "docs" / "first-hour.md"
RECORDED = MappingProxyType(
    {"live-evidence.json": "azure/az-snp-milan-v3/evidence.json", "ask.der": "sev-snp/certs/milan/ask.der"}
)
"""The recorded file that each is."""
