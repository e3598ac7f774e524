"""Messages, docstrings and comments keep to the phrases of docs/style.md, as far as these can be stated as patterns."""

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGES = ("attest", "attest_kms", "kms", "rag_demo", "simulator")
SCRIPTS = ("page/src/channel", "page/src/policy", "page/src/verifier")
PHRASES: dict[str, dict[str, Any]] = {
    entry["id"]: entry for entry in YAML(typ="safe").load(REPOSITORY / "prose/phrases.yaml")
}
NOT_IN_MESSAGES = {
    "reference-value": "Google's message has a field of this name",
    "endorsement": "Intel's collateral is named without Intel where the context is Intel's",
    "is-none": "a hint may depend on the absence of something",
    "future": "a scheduled destruction is in the future",
}
PROTOCOL_TEXT = {
    "whoever gave the nonce": "an audience that bindings commit to",
    "rag_demo/demo/document.py": "a document of the demonstration",
    "rag_demo/enclave/answers/prompt.py": "instructions to a language model",
}
QUESTION_WORDS = r"(?:What(?! to\b)|Who|Whose|Whom|Which|Whether|Where|How|Is|Are|Does)\b"
DOCSTRING = re.compile(QUESTION_WORDS)
COMMENT = re.compile(rf"\s*(?:/\*\*|//|\*) (?={QUESTION_WORDS})")
BLOCK_BEGINS = re.compile(r"\s*/\*\*\s*$")


def patterns() -> Iterator[tuple[str, re.Pattern[str]]]:
    for name, entry in PHRASES.items():
        if name not in NOT_IN_MESSAGES:
            begins = entry.get("begins")
            source = rf"(?:^|(?<=[.!?:;]\s))(?:{begins})" if begins else rf"\b(?:{entry['find']})\b"
            yield name, re.compile(source, 0 if begins else re.IGNORECASE)


def python_files() -> list[Path]:
    return [file for package in PACKAGES for file in sorted((REPOSITORY / package).rglob("*.py"))]


def docstrings(tree: ast.AST) -> list[ast.Constant]:
    """Return the strings that are statements: docstrings, also those of constants and fields."""
    bodies = (getattr(node, "body", None) for node in ast.walk(tree))
    lines = (line for body in bodies if isinstance(body, list) for line in body)
    values = (line.value for line in lines if isinstance(line, ast.Expr))
    return [value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)]


def messages(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the texts of more than one word that are no docstrings; a value of an f-string is a block."""
    seen = {id(one) for one in docstrings(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            seen |= {id(value) for value in node.values}
            pieces = (value.value if isinstance(value, ast.Constant) else "\u25ae" for value in node.values)
            yield node.lineno, "".join(map(str, pieces))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in seen:
            yield node.lineno, node.value


def test_messages_use_no_phrase_that_the_style_replaces() -> None:
    rules = list(patterns())
    found = [
        f"{place}:{line}: {name}: {text[:80]!r}"
        for file in python_files()
        if (place := str(file.relative_to(REPOSITORY))) not in PROTOCOL_TEXT
        for line, text in messages(ast.parse(file.read_text(encoding="utf-8")))
        if " " in text and text not in PROTOCOL_TEXT
        for name, pattern in rules
        if pattern.search(text)
    ]
    assert found == []


def test_docstrings_begin_with_the_thing_or_a_command() -> None:
    found = [
        f"{file.relative_to(REPOSITORY)}:{one.lineno}: {str(one.value)[:80]!r}"
        for file in python_files()
        for one in docstrings(ast.parse(file.read_text(encoding="utf-8")))
        if DOCSTRING.match(str(one.value))
    ]
    assert found == []


def first_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line with which each comment begins."""
    lines = ["", *text.splitlines()]
    for at, (before, line) in enumerate(itertools.pairwise(lines), 1):
        is_first = re.match(r"\s*(?:/\*\*|//) ", line) and not re.match(r"\s*// ", before)
        if is_first or BLOCK_BEGINS.match(before):
            yield at, line


def test_comments_of_the_pages_verifier_begin_with_the_thing_or_a_command() -> None:
    found = [
        f"{file.relative_to(REPOSITORY)}:{number}: {line.strip()[:80]}"
        for folder in SCRIPTS
        for file in sorted((REPOSITORY / folder).rglob("*.ts"))
        for number, line in first_lines(file.read_text(encoding="utf-8"))
        if COMMENT.match(line)
    ]
    assert found == []


@pytest.mark.parametrize("name", [name for name, _ in patterns()])
def test_each_rule_finds_its_wrong_phrases_in_messages_too(name: str) -> None:
    pattern = dict(patterns())[name]
    assert all(pattern.search(text) for text in PHRASES[name]["wrong"])
    assert not any(pattern.search(text) for text in PHRASES[name]["right"])


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("What is known of a report.", True),
        ("Whether it is locked.", True),
        ("What to do about a failed check.", False),
        ("Claims of a report.", False),
        ("Return whether it is locked.", False),
        ("Island of trust.", False),
    ],
)
def test_question_words_are_found_at_the_beginning(text: str, is_found: bool) -> None:
    assert (DOCSTRING.match(text) is not None, COMMENT.match(f"/** {text} */") is not None) == (is_found, is_found)
