from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kms.support import Harness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    made = Harness.make(tmp_path)
    yield made
    made.close()
