"""What is wrong with a policy is told with its file, line and column, and with the word that was probably meant."""

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
from attest.policy.decoder import nearest
from attest.policy.positions import TextPosition, json_places
from tests.policy.documents import STRICT

POLICIES = sorted(
    path for path in (Path(__file__).parents[2] / "policies").glob("*.yaml") if not path.name.endswith(".tests.yaml")
)
SHIPPED = [pytest.param(path.read_text(), id=path.stem) for path in POLICIES]
Steps = tuple[str | int, ...]


def refusal(text: str, name: str = "policy.yaml") -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        load_policy(text.encode(), name=name)
    error = caught.value
    if error.line is not None:
        assert error.message.startswith(f"{name}:{error.line}:{error.column}: ")
    return error


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


def test_a_policy_of_a_later_version_of_the_language_names_the_one_that_is_read() -> None:
    error = refusal(json.dumps(STRICT | {"schema": "attest.policy/2"}))
    assert error.expected == "'attest.policy/1'"
    assert "did you mean 'attest.policy/1'?" in error.message


@pytest.mark.parametrize(
    ("section", "key", "wrong", "right"),
    [
        ("snp", "products", ["Genoaa"], "Genoa"),
        ("snp", "products", ["genoa"], "Genoa"),
        ("snp", "signing_key", ["vcck"], "vcek"),
        ("snp", "measurement", ["imgae"], "image"),
        ("snp", "minimum_tcb", {"Gneoa": {}}, "Genoa"),
        ("snp", "guest_policy", {"debgu": False}, "debug"),
        ("snp", "platform_info", {"alias_check_completed": True}, "alias_check_complete"),
        ("tdx", "tcb_status", ["UptoDate"], "UpToDate"),
        ("tdx", "tcb_status", ["SWHardeningNeded"], "SWHardeningNeeded"),
        ("gpu", "architectures", ["hoper"], "hopper"),
        ("gpu", "modes", ["protected_pcie"], "protected-pcie"),
        ("unchecked", "revocaton", "no network", "revocation"),
    ],
)
def test_a_misspelt_word_names_the_right_one(section: str, key: str, wrong: object, right: str) -> None:
    document: Any = copy.deepcopy(STRICT)
    base: dict[str, Any] = {
        "snp": document["snp"],
        "tdx": {"mr_td": ["image"]},
        "gpu": {
            "architectures": ["hopper"],
            "driver_versions": {"at_least": "570"},
            "vbios_versions": {"at_least": "96"},
        },
        "unchecked": {},
    }
    document[section] = base[section] | {key: wrong}
    error = refusal(json.dumps(document, indent=1))
    assert f"did you mean {right!r}?" in error.message
    assert error.line is not None
    assert error.line > 1


def test_nonsense_is_like_nothing() -> None:
    assert nearest("xyzzy", ["products", "measurement"]) is None
    assert nearest(5, ["5"]) is None
    assert "did you mean" not in refusal(json.dumps(STRICT | {"xyzzy": 1})).message


def test_of_a_long_word_the_first_eighty_characters_are_compared() -> None:
    word = "w" * 80
    assert nearest(word + "x" * 1000, [word], alike=1.0) == word
    assert nearest(word + "x" * 1000, [f"{word}x"], alike=1.0) is None
    assert nearest(word[:79], [word], alike=1.0) is None


# -- texts that cannot be read


def test_of_a_long_text_a_refusal_shows_the_beginning() -> None:
    tagged = refusal(f"a: !{'t' * 400}!x y").message
    words = tagged.removeprefix("policy.yaml:1:4: cannot be read: ")
    assert words.startswith("while parsing a node that begins in line 1: found undefined tag handle '!ttt")
    assert len(words) == 300
    assert refusal(f"{'1' * 400}: x").got == f"int {'1' * 76}"


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ('{"schema": "attest.policy/1",\n "name": }', 2, 10),
        ('{"a": {"b": 1},\n "c": [1, {"d": "\\"", "e": 1,\n   "d": 2}]}', 3, 4),
        ('{"a": 1,\n "a": 2, "a": 3}', 2, 2),
        ('{"a": 1, "\\u0061": 2}', 1, 10),
        ("a: 1\nb:\n  c: 1\n  c: 2\n", 4, 3),
        ("a: 1\nb: [1, 2\nc: 1\n", 3, 2),
        ("a: 1\nb:\n  c: 2026-01-01\n", 3, 6),
        ("a: 1\nb:\n  - 1.5\n", 3, 5),
        ("a: 1\nb: {3: x}\n", 2, 5),
        ("a: 1\nb: &x 2\n", 2, 4),
        ("a: 1\nb: !t 2\n", 2, 4),
        ("1.5", 1, 1),
        ("a: 1\nb: \x00", 2, 4),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(text: str, line: int, column: int) -> None:
    error = refusal(text)
    assert (error.code, error.line, error.column) == ("policy-unreadable", line, column), error.message
    assert error.context()["line"] == line


@pytest.mark.parametrize(
    "text", [b'{"a": "\xff"}', b'{"a": ' + b"[" * 80 + b"]" * 80 + b"}", b'{"\\u0061": ' + b"[" * 99999]
)
def test_where_there_is_no_place_to_tell_none_is_told(text: bytes) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_policy(text)
    assert caught.value.code == "policy-unreadable"
    assert caught.value.line is None or caught.value.line == 1


def test_keys_with_dots_and_paths_that_lead_nowhere() -> None:
    text = '{\n"a.b": {"c": [1,\n2]},\n"a": {"b": {"d": 3}}}'
    root = json_places(text)
    assert root.find("a.b.c[1]", key=False) == TextPosition(line=3, column=1)
    assert root.find("a.b.c[7]", key=False) == TextPosition(line=2, column=9)
    assert root.find("a.b.c.x", key=False) == TextPosition(line=2, column=9)
    assert root.find("a.b.c[x]", key=False) == TextPosition(line=2, column=9)
    assert root.find("a", key=True) == TextPosition(line=4, column=1)
    assert root.find("", key=False) == TextPosition(line=1, column=1)
    assert root.find("nowhere", key=False) == TextPosition(line=1, column=1)


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
