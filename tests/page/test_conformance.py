"""Recorded evidence, genuine and spoiled: the page answers what the Python verifier answers."""

import importlib.util
import sys
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import vectors_root
from tests.page.browser import Question, Verifier
from tests.page.reference import answer, differences

pytestmark = pytest.mark.loopback
KINDS = ("sev-snp", "azure", "tdx", "sgx", "collateral", "ccel", "nvidia", "providers")
_METHODS = {"sev-snp": "snp"}
_BATCH = 40


def _maker(vectors: Path) -> Any:  # noqa: ANN401  a program beside the vectors, which states no types
    """Load what turns the manifests into cases: the conformance tool, which stands beside the vectors."""
    tool = vectors.parent / "tools" / "conformance"
    if not tool.is_file():
        pytest.skip("the conformance tool is not beside the recorded evidence")
    loader = SourceFileLoader("conformance_tool", str(tool))
    spec = importlib.util.spec_from_loader("conformance_tool", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    writing, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # its folder is not ours
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = writing
    return module


def _excepted(case: Any) -> str | None:  # noqa: ANN401  of the same program
    """Return why the page is not asked a case, or None."""
    if case.command != "verify":
        return "the page's verifier applies no policy; its policies have tests of their own"
    if 2 in case.exits:
        return "the options of the command line are refused, which the page does not have"
    if "/token/" in case.id:
        return "the page reads evidence and no tokens of other Verifiers: it holds no keys of issuers"
    return None


class Cases:
    """Questions of a kind of evidence, and the files that they name."""

    def __init__(self, vectors: Path, scratch: Path, kind: str) -> None:
        self.files: dict[str, bytes] = {}
        maker = _maker(vectors).Maker(vectors, scratch)
        name = _METHODS.get(kind, kind)
        if kind in ("tdx", "sgx"):
            maker.intel(kind)
        elif kind == "providers":
            maker.whole_lines(kind)
        else:
            getattr(maker, name)()
        self.questions = [(case.id, self._question(case.argv)) for case in maker.cases if _excepted(case) is None]
        self.excepted = {case.id: reason for case in maker.cases if (reason := _excepted(case)) is not None}

    def _question(self, argv: list[str]) -> Question:
        given: dict[str, list[str]] = {}
        arguments = iter(argv)
        for argument in arguments:
            if argument.startswith("--"):
                given.setdefault(argument, []).append(next(arguments))
            else:
                given.setdefault("input", []).append(argument)
        nonce = given.get("--nonce", [None])[0]
        if "--nonce-text" in given:
            nonce = given["--nonce-text"][0].encode().hex()
        return Question(
            input=list(self._read(given["input"])),
            at=given["--at"][0],
            endorsements=list(self._read(given.get("--endorsements", []))),
            nonce=nonce,
            report_data=given.get("--report-data", [None])[0],
            event_log=next(self._read(given.get("--eventlog", [])), None),
            unchecked=dict(entry.split("=", 1) for entry in given.get("--unchecked", [])),
        )

    def _read(self, paths: list[str]) -> Iterator[str]:
        for path in map(Path, paths):
            for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
                if file.is_file():
                    self.files.setdefault(str(file), file.read_bytes())
                    yield str(file)


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_answers_what_python_answers(
    kind: str, in_browser: Verifier, vectors_dir: Path, tmp_path: Path
) -> None:
    cases = Cases(vectors_dir, tmp_path, kind)
    assert cases.questions, "no case: are the vectors there?"
    in_browser.hold(cases.files)
    failed: list[str] = []
    for begin in range(0, len(cases.questions), _BATCH):
        batch = cases.questions[begin : begin + _BATCH]
        for (name, question), got in zip(batch, in_browser.ask_all([q for _, q in batch]), strict=True):
            failed += [f"{name}: {text}" for text in differences(answer(question, cases.files), got)]
    assert failed == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_case_that_the_page_is_not_asked_has_a_reason(kind: str, vectors_dir: Path, tmp_path: Path) -> None:
    cases = Cases(vectors_dir, tmp_path, kind)
    assert all(reason for reason in cases.excepted.values())
    assert not set(cases.excepted) & {name for name, _ in cases.questions}
    assert len(cases.questions) > len(cases.excepted)


def test_there_are_vectors_of_every_kind() -> None:
    vectors = vectors_root()
    if vectors is None:
        pytest.skip("no recorded evidence here")
    assert [kind for kind in KINDS if not (vectors / kind / "MANIFEST.json").is_file()] == []
