"""The page on forms names every form, as the command line and the recognition of files name it."""

import re
from pathlib import Path

import pytest

from attest.evidence.input_file import FORMS
from attest.evidence.recognition_binary import BINARY_KINDS
from attest.evidence.recognition_json import JSON_KINDS

PAGE = (Path(__file__).resolve().parent.parent / "docs/forms.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("| ")]
LABELS = {row[0]: row[1] for row in ROWS}
KINDS = {kind.label: kind.form for kind in BINARY_KINDS} | {kind.label: kind.form for kind in JSON_KINDS}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_stands_in_the_table(form: str) -> None:
    assert re.search(rf"^\| [^|]+ \| `{form}` \|", PAGE, re.MULTILINE)


@pytest.mark.parametrize("label", KINDS)
def test_every_kind_of_file_stands_in_the_table_with_its_form(label: str) -> None:
    assert label in LABELS
    if KINDS[label] is not None:
        assert LABELS[label] == f"`{KINDS[label]}`"
