"""The JSON Schema of policies: published, current, and found by editors."""

import json
from pathlib import Path

from tests.cli.conftest import Attest

REPOSITORY = Path(__file__).resolve().parents[2]
PUBLISHED = REPOSITORY / "docs/attest-policy.schema.json"
EDITOR = "# yaml-language-server: $schema="


def test_the_published_schema_is_the_one_that_the_command_prints(attest: Attest) -> None:
    printed = attest("policy", "schema").out
    hint = "attest policy schema > docs/attest-policy.schema.json"
    assert json.loads(PUBLISHED.read_text()) == json.loads(printed), hint
    assert PUBLISHED.read_text() == printed, hint


def test_shipped_policies_tell_editors_where_the_schema_is() -> None:
    for path in (REPOSITORY / "policies").glob("*.yaml"):
        if not path.name.endswith(".tests.yaml"):
            first = path.read_text().splitlines()[0]
            assert first.startswith(EDITOR), path.name
            assert (path.parent / first.removeprefix(EDITOR)).resolve() == PUBLISHED


def test_the_line_for_editors(attest: Attest) -> None:
    assert attest("policy", "schema", "--editor-line", "./a.json").out == f"{EDITOR}./a.json\n"
    for bad in ("", "a b", "a\nb"):
        assert attest("policy", "schema", "--editor-line", bad).code == 2
