"""The examples of docs/rag-embedding.md, run as they stand."""

import re
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.sealed.made import KEY, OWNER

PAGE = REPOSITORY / "docs" / "rag-embedding.md"


def test_every_example_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(examples) == 2
    names: dict[str, object] = {"key": KEY, "owner": OWNER}
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), names)  # noqa: S102  the page of this repository
    assert (tmp_path / "minilm.sealed" / "model.sig").is_file()
