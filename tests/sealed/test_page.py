"""docs/sealed-files.md: what it shows runs, from the first block to the last."""

import re
from pathlib import Path

import pytest

from tests.sealed.segments import content

PAGE = (Path(__file__).resolve().parents[2] / "docs/sealed-files.md").read_text()


def test_the_python_of_the_page_runs_in_one_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plaintext = content((3 << 20) + 7)
    Path("weights.bin").write_bytes(plaintext)
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 5
    exec(compile("\n".join(blocks), "sealed-files.md", "exec"), {})  # noqa: S102 - our own page
    assert Path("weights.again").read_bytes() == plaintext
