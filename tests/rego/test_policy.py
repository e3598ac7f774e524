"""The form of a Rego policy is found out from its text, and a text of no form is refused at load."""

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import ConfigurationError
from attest.rego import RegoForm, read_rego_policy
from attest.rego.policy import MAX_REGO_BYTES


@pytest.mark.parametrize(
    ("source", "form", "rules"),
    [
        ("package policy\ndefault allow = false\nallow { input.x }", RegoForm.RESOURCE, ("allow",)),
        ("# words\npackage policy\n\nimport rego.v1\nallow if input.x", RegoForm.RESOURCE, ("allow",)),
        ("package policy\nexecutables := 3\nhardware := 2", RegoForm.ATTESTATION, ("executables", "hardware")),
        (
            "package policy\ntrust_claims := {\n  `executables`: executables,\n}\nexecutables := 3",
            RegoForm.ATTESTATION,
            ("trust_claims",),
        ),
        ('package policy\nallow { # }\n  input.x == "}"\n}', RegoForm.RESOURCE, ("allow",)),
    ],
)
def test_the_form_is_found(source: str, form: RegoForm, rules: tuple[str, ...]) -> None:
    policy = read_rego_policy(source.encode())
    assert (policy.form, policy.rules) == (form, rules)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (b"", "package policy"),
        (b"package other\nallow := true", "package policy"),
        (b"package policy.deep\nallow := true", "package policy"),
        (b'package policy["deep"]\nallow := true', "package policy"),
        (b"package policy\nalow := true", "neither 'allow'"),
        (b"package policy\nx { allow := true }", "neither 'allow'"),
        (b"package policy\nallow := true\nexecutables := 3", "both 'allow'"),
        (b"package policy\nallow { input.x", "not closed"),
        (b"package policy\nallow } input.x", "closes nothing"),
        (b'package policy\nallow := "x', "begins no word"),
        (b'package policy\nallow := "\\q"', "line|escape|Invalid"),
        (b"package policy\nallow := \xff", "utf-8"),
        (b"package policy\nallow := true" + bytes(MAX_REGO_BYTES), "more than"),
        (b"package policy\nallow { not nosuch }", "defined nowhere"),
        (b"package policy\nallow {\n  not nosuch\n  input.x\n}", "defined nowhere"),
        (b"package policy\nallow { not nosuch; not nosuch }", "defined nowhere"),
        (b"package policy\nallow { not nosuch[1] }", "defined nowhere"),
        (b"package policy\nallow := true\nnot nosuch", "defined nowhere"),
    ],
)
def test_a_text_of_no_form_is_refused(source: bytes, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        read_rego_policy(source)
    assert caught.value.code == "rego-policy-invalid"


@pytest.mark.parametrize(
    "body", ["x := input.a; not x", "not helper", "not startswith(input.a, `b`)", "not input.a", "some x; not x == 1"]
)
def test_names_that_are_defined_may_be_negated(body: str) -> None:
    read_rego_policy(f"package policy\nallow {{ {body} }}\nhelper {{ input.b }}".encode())


@given(st.binary(max_size=200))
def test_any_bytes_are_a_policy_or_a_documented_error(data: bytes) -> None:
    for source in (data, b"package policy\nallow { not " + data + b"}"):
        with suppress(ConfigurationError):
            read_rego_policy(source)


@pytest.mark.parametrize("part", ["|", "not ", "(", "input<", "not[", "|[", "not not input\n"])
def test_a_long_text_is_read_in_time_that_grows_with_its_length(part: str) -> None:
    text = part * ((MAX_REGO_BYTES - 200) // len(part))
    closed = "".join({"(": ")", "[": "]"}[mark] for mark in reversed(text) if mark in "([")
    half = text[: len(text) // 2]
    for inner in (half + closed[: half.count("(") + half.count("[")], text):
        started = time.process_time()
        with suppress(ConfigurationError):
            read_rego_policy(f"package policy\nallow {{ {inner} }}".encode())
        assert time.process_time() - started < 20
