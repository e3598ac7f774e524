"""A Rego policy that is uploaded is compiled, and a bad one is refused with line and column, of both kinds."""

from pathlib import Path

import pytest

from attest.errors import ConfigurationError
from attest.rego import RegoForm, RegoLimits, uploaded_rego_policy
from tests.rego.fake_engines import put

pytest.importorskip("regopy", reason="needs the extra 'rego'")

HEAD = {RegoForm.RESOURCE: "allow if {", RegoForm.ATTESTATION: 'trust_claims := {"hardware": 2} if {'}


@pytest.mark.parametrize("form", list(RegoForm))
@pytest.mark.parametrize(
    ("body", "line", "column"),
    [
        ("  input.a ==\n}", 4, 11),
        ("  input.a = = 3\n}", 4, 11),
        ("  some\n}", 4, 3),
        ('  x := "open\n}', 4, 8),
        ("  é\n}", 4, 3),
        ("  'x'\n}", 4, 4),
        ("  input.a)\n}", 4, 10),
        ("  not nosuch\n}", 4, 7),
        ("  x := opa.runtime()\n}", 4, 8),
        ("  x := 1\n  y := http.send({})\n}", 5, 8),
    ],
)
def test_a_bad_policy_is_refused_with_its_place(form: RegoForm, body: str, line: int, column: int) -> None:
    with pytest.raises(ConfigurationError, match=f"line {line}, column {column}: ") as caught:
        uploaded_rego_policy(f"package policy\nimport rego.v1\n{HEAD[form]}\n{body}\n".encode(), form=form)
    assert (caught.value.code, caught.value.line, caught.value.column) == ("rego-policy-invalid", line, column)


@pytest.mark.parametrize(
    ("source", "line", "column"),
    [
        (b"", 1, 1),
        (b"\n\npackage other\nallow := true", 3, 1),
        (b"package policy\nallow { input.x", 2, 7),
        (b"package policy\nallow := true\nexecutables := 3", 3, 1),
        (b"package policy\nx := \xff", 2, 6),
        (b"package policy\nalow := true", 1, 1),
        ("package policy\nallow := true # ä\nx := é".encode(), 3, 6),
        ('package policy\nallow := "ä" == = 1'.encode(), 2, 14),
        (b"package policy\ndefault allow = false\ndefault allow = true", 1, 1),
    ],
)
def test_every_error_has_a_place(source: bytes, line: int, column: int) -> None:
    with pytest.raises(ConfigurationError) as caught:
        uploaded_rego_policy(source)
    assert (caught.value.code, caught.value.line, caught.value.column) == ("rego-policy-invalid", line, column)


def test_a_form_that_is_given_decides_between_the_rules() -> None:
    both = b"package policy\nallow := true\ntrust_claims := {}\n"
    assert uploaded_rego_policy(both, form=RegoForm.RESOURCE).rules == ("allow",)
    assert uploaded_rego_policy(both, form=RegoForm.ATTESTATION).rules == ("trust_claims",)
    for source, form in ((b"allow := true", RegoForm.ATTESTATION), (b"hardware := 2", RegoForm.RESOURCE)):
        with pytest.raises(ConfigurationError, match="it has no"):
            uploaded_rego_policy(b"package policy\n" + source, form=form)


@pytest.mark.parametrize(
    ("source", "places"),
    [
        ("allow { true }", ["line 2, column 7"]),
        ("default allow = false\nallow = true {\n  input.a\n}", ["line 3, column 14"]),
        (
            "allow { true }\nf(x) = y { y := x }\np[x] { x := 1 }",
            [f"line {n}, column {c}" for n, c in ((2, 7), (3, 10), (4, 6))],
        ),
        ("allow if { true } else = false { true }", ["line 2, column 32"]),
        ("import rego.v1\nallow if { true }\nx := {1}\ny = {}\nz := {a | a := [1][_]}\nallow if not {1}[2]", []),
        ("import rego.v1\nallow if { every x in [1] { x == 1 } }\nallow if 1 in {1}\np contains {} if true", []),
        ("allow := true # a {\nx := `b {`", []),
    ],
)
def test_an_old_body_is_accepted_with_a_warning(source: str, places: list[str]) -> None:
    warnings = uploaded_rego_policy(f"package policy\n{source}\n".encode()).warnings
    assert [one.split(":")[0] for one in warnings] == places
    assert all("without 'if'" in one for one in warnings)


def test_an_engine_that_is_not_there_is_no_fault_of_the_policy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    put(monkeypatch, tmp_path, "#!/bin/sh\nexit 3\n")
    with pytest.raises(ConfigurationError) as caught:
        uploaded_rego_policy(b"package policy\nallow := true", limits=RegoLimits(seconds=20))
    assert caught.value.code == "rego-not-evaluated"
