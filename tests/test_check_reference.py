"""docs/checks.md has every check that a verification can report."""

from pathlib import Path

from documentation import checks
from documentation.check_texts import GROUPS, WORDS

REPOSITORY = Path(__file__).resolve().parent.parent
PREFIXES = tuple(prefix for group in GROUPS for prefix in group.prefixes)


def test_every_step_of_every_procedure_has_its_words() -> None:
    of_verification = {name for name in checks.clauses() if name.startswith(PREFIXES)}
    assert len(of_verification) > 60
    assert of_verification - WORDS.keys() == set()


def test_every_check_of_the_page_has_a_clause() -> None:
    known = {**checks.clauses(), **checks.EXTRA}
    assert {name for name in WORDS if not known.get(name)} == set()


def test_the_page_is_what_the_code_gives() -> None:
    page = (REPOSITORY / "docs/checks.md").read_text(encoding="utf-8")
    assert page == checks.page()
    assert all(f'<a id="{name}"></a>' in page for name in WORDS)
