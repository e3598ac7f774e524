"""The policy document is closed: what it does not understand, it refuses, with the path."""

import contextlib
import copy
import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.checks import Unchecked
from attest.errors import ConfigurationError
from attest.policy import Policy, load_policy
from attest.policy.document import MAX_POLICY_BYTES, MAX_POLICY_NODES
from attest.policy.snp import BASELINE_SNP_RULES
from tests.policy.documents import MEASUREMENT, STRICT, document

GENOA = STRICT["snp"]["minimum_tcb"]["Genoa"]


def load(value: object) -> Policy:
    """Load a document as JSON."""
    return load_policy(json.dumps(value).encode())


def refused(value: object) -> ConfigurationError:
    """Return the refusal of a document."""
    with pytest.raises(ConfigurationError) as outcome:
        load(value)
    assert outcome.value.exit_code == 2
    return outcome.value


YAML = f"""
schema: attest.policy/1
name: test
version: 1
simulated: {{unchecked: the tests have no hardware}}
reference_values:
  image:
    values: ["{MEASUREMENT}"]
    origin: the simulator
snp:
  products: [Genoa]
  measurement: [image]
  minimum_tcb:
    Genoa: {{bootloader: 10, tee: 0, snp: 27, microcode: 84}}
"""


def test_yaml_and_json_of_one_content_are_one_policy() -> None:
    first, second = load_policy(YAML.encode()), load(STRICT)
    assert (first.name, first.version, first.digest) == (second.name, second.version, second.digest)
    assert len(first.digest) == 32
    assert [rule.id for rule in first.rules["sev-snp"]] == [rule.id for rule in second.rules["sev-snp"]]


def test_the_digest_ignores_layout_and_key_order_and_notices_every_value() -> None:
    backwards = json.dumps(STRICT, indent=7)
    assert load_policy(backwards.encode()).digest == load(dict(reversed(STRICT.items()))).digest
    assert load({**STRICT, "version": 2}).digest != load(STRICT).digest


def test_what_is_left_out_is_demanded_strictly() -> None:
    rules = {rule.id: rule for rule in load(STRICT).rules["sev-snp"]}
    for name in (
        "vmpl",
        "guest_policy.debug",
        "guest_policy.migrate_ma",
        "platform_info.alias_check_complete",
        "provisional_firmware",
        "masked_chip_id",
        "firmware_rollback_protected",
        "rolled_back_since_launch",
    ):
        assert rules[f"policy.snp.{name}"].relaxed is None


def test_the_baseline_demands_of_a_guest_that_nobody_debugs_or_moves_it() -> None:
    found = {rule.id: (rule.expected, rule.relaxed) for rule in BASELINE_SNP_RULES}
    strict = {rule.id: (rule.expected, rule.relaxed) for rule in load(STRICT).rules["sev-snp"]}
    assert set(found) == {
        "policy.snp.guest_policy.debug",
        "policy.snp.guest_policy.migrate_ma",
        "policy.snp.product_known_broken",
    }
    assert found.items() <= strict.items()


@pytest.mark.parametrize("name", ["major", "minor"])
@pytest.mark.parametrize(("number", "loads"), [(-1, False), (0, True), (255, True), (256, False)])
def test_a_version_of_the_abi_is_two_numbers_of_one_byte(name: str, number: int, loads: bool) -> None:
    written = document(minimum_abi={"major": 1, "minor": 51, name: number})
    if loads:
        load(written)
    else:
        assert refused(written).field == f"snp.minimum_abi.{name}"


@pytest.mark.parametrize(
    "path", ["schema", "name", "version", "snp", "snp.products", "snp.measurement", "snp.minimum_tcb"]
)
def test_a_missing_key_is_named(path: str) -> None:
    changed = copy.deepcopy(STRICT)
    *parents, leaf = path.split(".")
    place: Any = changed
    for parent in parents:
        place = place[parent]
    del place[leaf]
    assert refused(changed).field == path


@pytest.mark.parametrize(
    ("where", "wrong", "meant"),
    [("snp", "measurements", "measurement"), ("snp", "minimum_tbc", "minimum_tcb"), ("", "unckecked", "unchecked")],
)
def test_a_typing_error_in_a_key_is_refused_and_the_right_key_suggested(where: str, wrong: str, meant: str) -> None:
    changed = copy.deepcopy(STRICT)
    (changed[where] if where else changed)[wrong] = {"revocation": "x"}
    error = refused(changed)
    assert wrong in str(error.field)
    assert meant in error.message


@pytest.mark.parametrize(
    ("key", "lowest", "highest"),
    [("minimum_guest_svn", 0, 2**32 - 1), ("mitigations_at_launch", 1, 2**53 - 1), ("mitigations_now", 1, 2**53 - 1)],
)
def test_an_integer_is_read_up_to_its_bounds(key: str, lowest: int, highest: int) -> None:
    for number in (lowest, highest):
        load(document(**{key: number}))
    for number in (lowest - 1, highest + 1):
        assert refused(document(**{key: number})).field == f"snp.{key}"


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"products": []}, "snp.products"),
        ({"products": "Genoa"}, "snp.products"),
        ({"products": ["genoa"]}, "snp.products[0]"),
        ({"products": ["Rome"]}, "snp.products[0]"),
        ({"measurement": []}, "snp.measurement"),
        ({"measurement": ["other"]}, "snp.measurement[0]"),
        ({"minimum_tcb": {}}, "snp.minimum_tcb"),
        ({"minimum_tcb": {"Rome": {}}}, "snp.minimum_tcb.Rome"),
        ({"minimum_tcb": {"Genoa": {"bootloader": 1}}}, "snp.minimum_tcb.Genoa.tee"),
        (
            {"minimum_tcb": {"Genoa": {"fmc": 0, "bootloader": 1, "tee": 0, "snp": 1, "microcode": 1}}},
            "snp.minimum_tcb.Genoa.fmc",
        ),
        (
            {"minimum_tcb": {"Turin": {"bootloader": 1, "tee": 0, "snp": 1, "microcode": 1}}},
            "snp.minimum_tcb.Turin.fmc",
        ),
        (
            {"minimum_tcb": {"Genoa": {"bootloader": 256, "tee": 0, "snp": 1, "microcode": 1}}},
            "snp.minimum_tcb.Genoa.bootloader",
        ),
        (
            {"minimum_tcb": {"Genoa": {"bootloader": True, "tee": 0, "snp": 1, "microcode": 1}}},
            "snp.minimum_tcb.Genoa.bootloader",
        ),
        (
            {"minimum_tcb": {"Genoa": {"bootloader": "1", "tee": 0, "snp": 1, "microcode": 1}}},
            "snp.minimum_tcb.Genoa.bootloader",
        ),
        ({"minimum_tcb": {"Genoa": None}}, "snp.minimum_tcb.Genoa"),
        ({"exact_tcb": {}}, "snp.exact_tcb"),
        ({"exact_tbc": {"Genoa": [GENOA]}, "minimum_tcb": None}, "snp.exact_tbc"),
        ({"exact_tcb": {"Rome": [GENOA]}}, "snp.exact_tcb.Rome"),
        ({"exact_tcb": {"Genoa": GENOA}}, "snp.exact_tcb.Genoa"),
        ({"exact_tcb": {"Genoa": []}}, "snp.exact_tcb.Genoa"),
        ({"exact_tcb": {"Genoa": [GENOA, {}]}}, "snp.exact_tcb.Genoa[1].bootloader"),
        ({"exact_tcb": {"Genoa": [GENOA | {"fmc": 0}]}}, "snp.exact_tcb.Genoa[0].fmc"),
        ({"exact_tcb": {"Turin": [GENOA]}}, "snp.exact_tcb.Turin[0].fmc"),
        ({"exact_tcb": {"Genoa": [GENOA, GENOA | {"tee": 1}, GENOA]}}, "snp.exact_tcb.Genoa[2]"),
        ({"exact_committed_tcb": {"Genoa": []}}, "snp.exact_committed_tcb.Genoa"),
        ({"exact_launch_tcb": [GENOA]}, "snp.exact_launch_tcb"),
        ({"vmpl": [4]}, "snp.vmpl[0]"),
        ({"vmpl": 0}, "snp.vmpl"),
        ({"signing_key": ["VCEK"]}, "snp.signing_key[0]"),
        ({"guest_policy": {"debug": True}}, "snp.guest_policy.debug"),
        ({"guest_policy": {"debugging": False}}, "snp.guest_policy.debugging"),
        ({"guest_policy": {"smt": "no"}}, "snp.guest_policy.smt"),
        ({"guest_policy": {}}, "snp.guest_policy"),
        ({"platform_info": {"alias_check_complete": False}}, "snp.platform_info.alias_check_complete"),
        ({"provisional_firmware": True}, "snp.provisional_firmware"),
        ({"masked_chip_id": True}, "snp.masked_chip_id"),
        ({"rollback_protection": False}, "snp.rollback_protection"),
        ({"rolled_back_since_launch": True}, "snp.rolled_back_since_launch"),
        ({"provisional_firmware": {"unchecked": ""}}, "snp.provisional_firmware.unchecked"),
        ({"provisional_firmware": {"unchecked": "\u200b"}}, "snp.provisional_firmware.unchecked"),
        ({"provisional_firmware": {"unchecked": "x", "why": "y"}}, "snp.provisional_firmware.why"),
        ({"chip_ids": ["00"]}, "snp.chip_ids[0]"),
        ({"chip_ids": [7]}, "snp.chip_ids[0]"),
        ({"host_data": ["zz" * 32]}, "snp.host_data[0]"),
        ({"minimum_guest_svn": -1}, "snp.minimum_guest_svn"),
        ({"mitigations_now": 2**53}, "snp.mitigations_now"),
    ],
)
def test_a_wrong_value_is_refused_with_its_path(change: dict[str, Any], path: str) -> None:
    assert refused(document(**change)).field == path


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"schema": "attest.policy/2"}, "schema"),
        ({"name": "With Spaces"}, "name"),
        ({"version": 0}, "version"),
        ({"version": 1.5}, "version"),
        ({"simulated": "allow"}, "simulated"),
        ({"unchecked": {"everything": "because"}}, "unchecked.everything"),
        ({"unchecked": {"revocation": " "}}, "unchecked.revocation"),
        ({"unchecked": {"revocation": "\u200b\u2800"}}, "unchecked.revocation"),
        ({"reference_values": {}}, "reference_values"),
        ({"reference_values": {"image": {"values": [], "origin": "x"}}}, "reference_values.image.values"),
        ({"reference_values": {"image": {"values": [MEASUREMENT]}}}, "reference_values.image.origin"),
        (
            {"reference_values": {"image": {"values": [MEASUREMENT], "origin": "x", "expires": "tomorrow"}}},
            "reference_values.image.expires",
        ),
        ({"snp": []}, "snp"),
        ({"description": None}, "description"),
        ({"zebra": 1, "aardvark": 1, "yak": 1}, "aardvark"),
    ],
)
def test_a_wrong_value_at_the_top_is_refused_with_its_path(change: dict[str, Any], path: str) -> None:
    assert refused({**STRICT, **change}).field == path


def test_a_required_key_that_is_misspelt_is_refused_where_it_stands_and_the_right_word_named() -> None:
    image = {"values": STRICT["reference_values"]["image"]["values"], "origine": "a build"}
    error = refused({**STRICT, "reference_values": {"image": image}})
    assert error.field == "reference_values.image.origine"
    assert "did you mean 'origin'?" in error.message


def test_a_key_that_stands_twice_in_json_is_refused_where_it_stands_again() -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_policy(b'{"schema": "attest.policy/1",\n "schema": "attest.policy/1"}')
    assert (caught.value.code, caught.value.line, caught.value.column) == ("policy-unreadable", 2, 2)


@pytest.mark.parametrize("text", [b'{"schema": "\xff"}', b'{"a":' * 5000 + b"1" + b"}" * 5000], ids=["bytes", "depth"])
def test_json_that_nobody_can_read_is_refused_without_a_place(text: bytes) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_policy(text)
    assert (caught.value.code, caught.value.line) == ("policy-unreadable", None)


def test_a_measurement_without_any_reference_values_says_so() -> None:
    changed = copy.deepcopy(STRICT)
    del changed["reference_values"]
    assert refused(changed).field == "snp.measurement[0]"


def test_the_caller_of_verify_is_told_what_a_policy_leaves_unchecked() -> None:
    policy = load({**STRICT, "unchecked": {"revocation": "no network"}})
    assert policy.unchecked == (Unchecked(check="revocation", reason="no network"),)


@pytest.mark.parametrize("text", [b"", b"[]", b"null", b"just words", b"{", b'{"a": 1, "a": 2}', b"\xff\xfe", b"- 1"])
def test_what_is_no_policy_is_refused(text: bytes) -> None:
    with pytest.raises(ConfigurationError):
        load_policy(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\na: 2\n", "duplicate key 'a': it occurs twice in one mapping"),
        ("a: {<<: {b: 1}}\n", "merge keys"),
        ("a: 1\n<<: {a: 2}\n", "merge keys"),
        ("a: [1\nb: 2\n", "while parsing a flow sequence that begins in line 1: expected ',' or ']', but got ':'"),
        ("a: &x [1]\nb: *x\n", "anchors"),
        ("a: &x 1\n", "anchors"),
        ("a: !!python/object:os.system 1\n", "tag"),
        ("a: 2026-01-01\n", "quotes"),
        ("a: 1.5\n", "quotes"),
        ("1: a\n", "keys are text"),
        ("- - ? - - ? -", "unhashable"),
        ("? [a, b]\n: 1\n", "keys are text"),
        ("? {a: 1}\n: 1\n", "cannot be read"),
        ("---\na: 1\n---\nb: 2\n", "single document"),
        ("a: [" * 2000, "cannot be read"),
    ],
)
def test_yaml_that_two_readers_could_read_differently_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError) as outcome:
        load_policy(text.encode())
    assert outcome.value.code == "policy-unreadable"
    assert problem in outcome.value.message


@pytest.mark.parametrize("text", ["a: 1\na: 2\n", "a: [1\nb: 2\n", "a: \x00", "a: 1\n---\nb: 2\n", "a: 'x\n"])
def test_what_is_wrong_with_yaml_is_told_without_the_librarys_marks_and_advice(text: str) -> None:
    with pytest.raises(ConfigurationError) as outcome:
        load_policy(text.encode())
    for noise in ("<byte string>", "<unicode string>", "http", "^", "original value"):
        assert noise not in outcome.value.message


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        ([], "an empty list"),
        ([1], "a list"),
        ({}, "an empty mapping"),
        ({"a": 1}, "a mapping"),
        (False, "false"),
        (7, "7"),
        ("x", "'x'"),
    ],
)
def test_what_stands_in_the_wrong_place_is_told_in_the_words_of_a_document(value: object, shown: str) -> None:
    with pytest.raises(ConfigurationError) as outcome:
        load(STRICT | {"version" if value == "x" else "simulated": value})
    assert outcome.value.got == shown


def test_a_misspelt_unchecked_is_told_as_such() -> None:
    with pytest.raises(ConfigurationError) as outcome:
        load(STRICT | {"simulated": {"uncheked": "a laboratory"}})
    assert "did you mean 'unchecked'?" in outcome.value.message


def test_without_the_yaml_library_a_json_policy_still_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ruamel.yaml", None)
    assert load(STRICT).name == "test"
    with pytest.raises(ConfigurationError) as outcome:
        load_policy(YAML.encode())
    assert "extra 'cli'" in outcome.value.message


def test_a_policy_may_have_as_many_bytes_as_the_limit_and_no_more() -> None:
    data = json.dumps(STRICT).encode().ljust(MAX_POLICY_BYTES)
    assert load_policy(data).name == "test"
    with pytest.raises(ConfigurationError) as caught:
        load_policy(data + b" ")
    assert caught.value.message == "policy: cannot be read: more than 1048576 bytes"


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        (
            "a: 1\nb:\n  - [1, 2\nc: 3\n",
            (4, 2),
            "while parsing a flow sequence that begins in line 3: expected ',' or ']', but got ':'",
        ),
        ("a:\n\t- b", (2, 1), "while scanning for the next token: found character '\\t' that cannot start any token"),
        (
            f"a: !{'x' * 400}!b c",
            (1, 4),
            f"while parsing a node that begins in line 1: found undefined tag handle '!{'x' * 400}!'"[:300],
        ),
        ("a: \x01", (1, 4), "special characters are not allowed"),
        ("b: c\na:   2001-01-01", (2, 6), "a: expected a value in quotes, got date 2001-01-01"),
        ("b: c\na:\n  1:   [2]", (3, 3), "a.1: expected a key in quotes: keys are text, got int 1"),
        (
            f"{'1' * 90}:   [2]",
            (1, 1),
            f"{'1' * 90}: expected a key in quotes: keys are text, got int {'1' * 76}",
        ),
    ],
)
def test_what_yaml_says_of_a_text_comes_with_its_place(text: str, place: tuple[int, int], problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_policy(text.encode())
    line, column = place
    assert caught.value.code == "policy-unreadable"
    assert caught.value.message == f"policy:{line}:{column}: cannot be read: {problem}"
    assert (caught.value.line, caught.value.column) == place
    assert caught.value.hint == "see docs/policy.md"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"[" * 100_000, ":1:65: cannot be read: nested deeper than 64"),
        (b"a: [" + b"1," * 300_000 + b"1]", "more than 20000 keys and values"),
        (b"a: [" + b"[]," * 300_000 + b"1]", "more than 20000 keys and values"),
        (b'{"a": [' + b"1," * 300_000 + b"1]}", "more than 20000 keys and values"),
        (b'{"a": {' + b",".join(b'"%d": 1' % number for number in range(10_000)) + b"}}", "more than 20000"),
    ],
)
def test_a_document_that_would_take_long_is_refused_before_it_is_built(text: bytes, problem: str) -> None:
    """The first took minutes: the library looks again at every list that is open."""
    with pytest.raises(ConfigurationError) as outcome:
        load_policy(text)
    assert outcome.value.code == "policy-unreadable"
    assert problem in outcome.value.message


@pytest.mark.parametrize(("head", "tail"), [("a: [", "1]"), ('{"a": [', "1]}")], ids=["YAML", "JSON"])
def test_a_document_of_exactly_so_many_keys_and_values_is_read(head: str, tail: str) -> None:
    for more, code in ((0, "policy-invalid"), (1, "policy-unreadable")):
        with pytest.raises(ConfigurationError) as outcome:
            load_policy((head + "1, " * (MAX_POLICY_NODES - 4 + more) + tail).encode())
        assert outcome.value.code == code


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


@given(st.binary(max_size=300))
def test_any_bytes_give_a_policy_or_a_configuration_error(data: bytes) -> None:
    with contextlib.suppress(ConfigurationError):
        load_policy(data)


@given(st.sampled_from([*STRICT["snp"], "vmpl", "guest_policy", "chip_ids", "platform_info"]), JSON)
def test_any_value_in_any_place_gives_a_policy_or_a_configuration_error(name: str, value: object) -> None:
    with contextlib.suppress(ConfigurationError):
        load({**STRICT, "snp": {**STRICT["snp"], name: value}})
