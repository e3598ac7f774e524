"""A vault and a Verifier that a specification describes, for the client and its command."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.skr.fake_vault import FakeVault, Pki, served

TOKEN = "an-access-token-for-the-vault"
PKI = Pki()


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[FakeVault]:
    """A vault and a Verifier, honest unless a test changes it."""
    with served(FakeVault(PKI), tmp_path) as fake:
        yield fake
