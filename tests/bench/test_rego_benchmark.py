"""The benchmark of Rego questions, with few of them: that it runs and what it prints. No time is judged."""

import pytest

from benchmarks import rego

pytest.importorskip("regopy", reason="needs the extra 'rego'")


def test_the_benchmark_prints_a_line_with_its_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rego, "_FEW", 1)
    monkeypatch.setattr(rego, "_MANY", 8)
    figure = rego.warm()
    assert figure.line().startswith("rego-warm-ms ")
    assert " bar <=5 " in figure.line()
    assert figure.value > 0
