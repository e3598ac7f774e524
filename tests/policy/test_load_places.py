"""What is wrong with a policy is told with its file, line and column: every place of the policies that are shipped."""

import copy
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from attest.errors import ConfigurationError
from attest.policy import load_policy
from attest.policy.positions import json_places
from tests.policy.documents import STRICT
from tests.policy.test_places import refusal

POLICIES = sorted(
    path for path in (Path(__file__).parents[2] / "policies").glob("*.yaml") if not path.name.endswith(".tests.yaml")
)
SHIPPED = [pytest.param(path.read_text(), id=path.stem) for path in POLICIES]
Steps = tuple[str | int, ...]


def refused_or_none(text: str) -> ConfigurationError | None:
    try:
        load_policy(text.encode(), name="p.json")
    except ConfigurationError as error:
        return error
    return None


# -- an independent reading of where things stand: the keys of block YAML, by indentation


def keys_of(text: str) -> Iterator[tuple[int, int, str]]:
    """Line, column and name of each key that starts a line, or a member of a list."""
    for number, line in enumerate(text.splitlines(), 1):
        start = len(line) - len(line.lstrip(" -"))
        name, colon, _ = line[start:].partition(":")
        if colon and name.replace("_", "").replace("-", "").replace(".", "").isalnum():
            yield number, start + 1, name


def lines_of(text: str) -> list[str]:
    return text.splitlines(keepends=True)


MAY_BE_EMPTY = {"devices", "event_log"}
"""Sections whose every key has a strict default: an empty one demands all of them."""
FREE_KEYS = {"reference_values"}
"""Below these the author chooses the names."""


def is_free(text: str, number: int) -> bool:
    """Whether the key of a line is a name that the author chose."""
    lines = text.splitlines()
    here = len(lines[number - 1]) - len(lines[number - 1].lstrip(" -"))
    for line in reversed(lines[: number - 1]):
        indent = len(line) - len(line.lstrip(" "))
        if line.strip() and not line.lstrip().startswith("#") and indent < here:
            return line.strip().rstrip(":") in FREE_KEYS
    return False


@pytest.mark.parametrize("text", SHIPPED)
def test_every_misspelt_key_is_refused_where_it_stands_and_the_right_word_named(text: str) -> None:
    tried = 0
    for line, column, name in keys_of(text):
        if is_free(text, line):
            continue
        wrong = name + name[-1]
        changed = lines_of(text)
        changed[line - 1] = changed[line - 1].replace(name, wrong, 1)
        error = refusal("".join(changed))
        assert (error.line, error.column) == (line, column), (name, error.message)
        assert f"did you mean {name!r}?" in error.message, error.message
        tried += 1
    assert tried > 5


@pytest.mark.parametrize("text", SHIPPED)
def test_every_doubled_key_is_refused_where_it_stands_a_second_time(text: str) -> None:
    lines = lines_of(text)
    for line, column, name in keys_of(text):
        again = " " * (column - 1) + f"{name}: 1\n"
        block = line
        indent = column - 1
        while block < len(lines) and (not lines[block].strip() or _indent(lines[block]) > indent):
            block += 1
        error = refusal("".join([*lines[:block], again, *lines[block:]]))
        assert (error.code, error.line, error.column) == ("policy-unreadable", block + 1, column), error.message
        assert "duplicate" in error.message


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


# -- the same in JSON, where every place of the document is tried


def places(value: object, steps: Steps = ()) -> Iterator[tuple[Steps, object]]:
    """Every value below the document, with the way to it."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, member in members:
        yield (*steps, step), member
        yield from places(member, (*steps, step))


def at(document: Any, steps: Steps) -> Any:  # noqa: ANN401  any JSON
    for step in steps:
        document = document[step]
    return document


def path_of(steps: Steps) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).lstrip(".")


def document_of(text: str) -> Any:  # noqa: ANN401  any JSON
    return copy.deepcopy(_parsed(text))


@cache
def _parsed(text: str) -> Any:  # noqa: ANN401  any JSON
    return YAML(typ="safe", pure=True).load(text)


class Writer:
    """Writes JSON with one key or member a line, and notes the line of each."""

    def __init__(self, document: object) -> None:
        self.lines: list[str] = []
        self.line: dict[Steps, int] = {}
        self._write(document, (), "", "")
        self.text = "\n".join(self.lines)

    def _write(self, value: object, steps: Steps, before: str, after: str) -> None:
        self.lines.append(" " * len(steps) + before)
        self.line[steps] = len(self.lines)
        members: list[tuple[str | int, str, object]] = (
            [(name, json.dumps(name) + ": ", member) for name, member in value.items()]
            if isinstance(value, dict)
            else [(index, "", member) for index, member in enumerate(value)]
            if isinstance(value, list)
            else []
        )
        if not members:
            self.lines[-1] += json.dumps(value) + after
            return
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        self.lines[-1] += opening
        for index, (step, start, member) in enumerate(members):
            self._write(member, (*steps, step), start, "," * (index + 1 < len(members)))
        self.lines.append(" " * len(steps) + closing + after)


def refused_at(document: Any, steps: Steps) -> ConfigurationError:  # noqa: ANN401  any JSON
    """Require a refusal on the line of this place."""
    written = Writer(document)
    error = refusal(written.text)
    assert error.line == written.line[steps], (path_of(steps), error.message)
    assert error.field == path_of(steps), error.message
    return error


@pytest.mark.parametrize("text", SHIPPED)
def test_a_value_of_another_type_is_refused_on_its_line(text: str) -> None:
    for steps, _ in places(document_of(text)):
        wrongs: tuple[Any, ...] = (1.5, None, [[]], [[[1]]])
        for wrong in wrongs:
            changed = document_of(text)
            at(changed, steps[:-1])[steps[-1]] = wrong
            with pytest.raises(ConfigurationError) as caught:
                load_policy(json.dumps(changed).encode())
            field = caught.value.field
            assert field is not None
            assert field.startswith(path_of(steps)), (field, steps)
            if wrong in (1.5, None):
                refused_at(changed, steps)


@pytest.mark.parametrize("text", SHIPPED)
def test_every_emptied_list_and_mapping_is_refused_on_its_line(text: str) -> None:
    emptied = 0
    for steps, value in places(document_of(text)):
        if isinstance(value, list | dict) and steps[-1] not in MAY_BE_EMPTY:
            changed = document_of(text)
            at(changed, steps[:-1])[steps[-1]] = type(value)()
            written = Writer(changed)
            error = refusal(written.text)
            assert error.line == written.line[steps], error.message
            emptied += 1
    assert emptied > 5


@pytest.mark.parametrize("text", SHIPPED)
def test_a_missing_key_is_refused_where_it_is_missing_or_was_demanded_anyway(text: str) -> None:
    required = 0
    for steps, _ in places(document_of(text)):
        if isinstance(steps[-1], int):
            continue
        changed = document_of(text)
        del at(changed, steps[:-1])[steps[-1]]
        written = Writer(changed)
        error = refused_or_none(written.text)
        assert error is None or error.line is not None
        required += error is not None
    assert required > 5


@pytest.mark.parametrize("text", SHIPPED)
def test_an_impossible_version_is_refused_on_its_line(text: str) -> None:
    for name, wrongs in (
        ("version", (0, -1, 2**31 + 1, 1.0, "1", True, None, [1])),
        ("schema", ("attest.policy/2", "attest.policy", "", 1)),
    ):
        for wrong in wrongs:
            document = document_of(text)
            document[name] = wrong
            refused_at(document, (name,))


# -- any document at all


json_documents = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab.[1", max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(json_documents)
def test_every_value_of_any_json_document_is_found(document: object) -> None:
    written = Writer({"x": document})
    root = json_places(written.text)
    for steps, line in written.line.items():
        here = root
        for step in steps:
            here = here.items[step] if isinstance(step, int) else here.members[step]
        assert here.value.line == here.key.line == line


@given(json_documents, st.data())
def test_any_damage_to_a_policy_loads_or_is_refused_with_a_place(document: object, data: st.DataObject) -> None:
    whole = copy.deepcopy(STRICT)
    steps = data.draw(st.sampled_from([steps for steps, _ in places(whole)]))
    at(whole, steps[:-1])[steps[-1]] = document
    error = refused_or_none(json.dumps(whole))
    assert error is None or error.message.startswith(f"p.json:{error.line}:{error.column}: ")
