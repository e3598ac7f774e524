"""Where a policy cannot be read, the place is told, and for a wrong word the right one: cases of each kind."""

import copy
import json
from typing import Any

import pytest

from attest.errors import ConfigurationError
from attest.policy import load_policy
from attest.policy.decoder import nearest
from attest.policy.positions import TextPosition, json_places
from tests.policy.documents import STRICT


def refusal(text: str, name: str = "policy.yaml") -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        load_policy(text.encode(), name=name)
    error = caught.value
    if error.line is not None:
        assert error.message.startswith(f"{name}:{error.line}:{error.column}: ")
    return error


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
    assert root.find("a.b.c[2]", key=False) == TextPosition(line=2, column=9)
    assert root.find("a.b.c[7]", key=False) == TextPosition(line=2, column=9)
    assert root.find("a.b.c.x", key=False) == TextPosition(line=2, column=9)
    assert root.find("a.b.c[x]", key=False) == TextPosition(line=2, column=9)
    assert root.find("a", key=True) == TextPosition(line=4, column=1)
    assert root.find("", key=False) == TextPosition(line=1, column=1)
    assert root.find("nowhere", key=False) == TextPosition(line=1, column=1)
