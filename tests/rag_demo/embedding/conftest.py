"""The real model, loaded once: it is 90 MB."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from attest.errors import ConfigurationError
from rag_demo.enclave.embedding import PlainFolder, TextEmbedder, installed_model, load_embedder


@pytest.fixture(scope="session")
def model_folder() -> Path:
    try:
        return installed_model()
    except ConfigurationError as exc:
        # It is part of what is installed for the tests, and nothing to skip.
        pytest.fail(f"{exc.message}: {exc.hint}")


@pytest.fixture(scope="session")
def embedder(model_folder: Path) -> Iterator[TextEmbedder]:
    with load_embedder(PlainFolder(model_folder)) as opened:
        yield opened
