"""The style linter finds what `prose/phrases.yaml` says that it finds, and nothing in the better form."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

REPOSITORY = Path(__file__).resolve().parent.parent
PROSE = REPOSITORY / "prose"
TEXTLINT = PROSE / "node_modules/.bin/textlint"
ENTRIES: list[dict[str, Any]] = YAML(typ="safe").load(PROSE / "phrases.yaml")

pytestmark = pytest.mark.skipif(
    not os.environ.get("ATTEST_REQUIRE_PROSE") and not (TEXTLINT.exists() and shutil.which("node")),
    reason="textlint is not installed here: make prose",
)


def findings(page: Path) -> set[tuple[int, str]]:
    """Lint one page; return the line and the rule of each finding."""
    done = subprocess.run(
        [TEXTLINT, "--config", PROSE / ".textlintrc.json", "--rulesdir", PROSE / "rules", "-f", "json", page],
        capture_output=True,
        check=False,
    )
    (report,) = json.loads(done.stdout)
    return {(found["line"], found["message"].split("(")[1].split(")")[0]) for found in report["messages"]}


def test_each_rule_finds_its_wrong_sentences_and_passes_the_right_ones(tmp_path: Path) -> None:
    cases = [(entry["id"], text, kind) for entry in ENTRIES for kind in ("wrong", "right") for text in entry[kind]]
    (tmp_path / "page.md").write_text("".join(f"{text}\n\n" for _, text, _ in cases))
    found = findings(tmp_path / "page.md")
    expected = {(2 * at + 1, name) for at, (name, _, kind) in enumerate(cases) if kind == "wrong"}
    right = {2 * at + 1 for at, (_, _, kind) in enumerate(cases) if kind == "right"}
    assert expected - found == set()
    assert {line for line, _ in found} & right == set()


def test_code_addresses_and_html_are_no_prose(tmp_path: Path) -> None:
    text = "Run `verdict` [here](verdict.md).\n\n```\nverdict\n```\n\n<!-- verdict -->\n\nA **verdict**\nof nobody.\n"
    (tmp_path / "page.md").write_text(text)
    assert findings(tmp_path / "page.md") == {(9, "attestation-result"), (10, "person")}
