"""The rules of the page's sources and of the bundle that is checked in."""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

from tests.page.browser import BUNDLE, REPOSITORY

SOURCES = sorted((REPOSITORY / "page" / "src").rglob("*.ts"))
VERIFIER = sorted((REPOSITORY / "page" / "src" / "verifier").rglob("*.ts"))
IMPORTED = re.compile(r'(?:from|import\(|import)\s*"\./([^"]+)"')
CODE = re.compile(r'"([a-z0-9]+(?:-[a-z0-9]+)+)"')
# What an error is made of: its kind, then its code. Those of a quote put their prefix before it (`refused`).
MADE = re.compile(
    r'(?<!refused\()"(?:malformed|unsupported|verification|signature|chain|revoked|binding|endorsement)",\s*("[a-z0-9]+(?:-[a-z0-9]+)+")'
)
LONGEST_FILE = 400


def _codes() -> Iterator[str]:
    for path in VERIFIER:
        for made in MADE.findall(path.read_text()):
            yield from CODE.findall(made)


def test_every_code_of_the_page_is_one_that_the_documentation_explains() -> None:
    documented = set(re.findall(r"`([a-z0-9-]+)`", (REPOSITORY / "docs" / "errors.md").read_text()))
    raised = set(_codes())
    assert len(raised) > 40
    assert raised - documented == set()


def test_the_bundle_is_what_its_manifest_says() -> None:
    manifest = json.loads((BUNDLE / "manifest.json").read_text())["sha256"]
    files = {path.name: path for path in BUNDLE.iterdir() if path.suffix in {".js", ".ts", ".css", ".html"}}
    assert set(manifest) == set(files)
    assert {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()} == manifest


def _reached(name: str) -> dict[str, str]:
    """Return the files that an entry point imports, at once or later, with their text."""
    found: dict[str, str] = {}
    todo = [name]
    while todo:
        name = todo.pop()
        if name not in found:
            found[name] = (BUNDLE / name).read_text()
            todo += IMPORTED.findall(found[name])
    return found


def test_every_file_of_the_bundle_is_imported_from_its_entry_points_and_nothing_else_is() -> None:
    entries = {path.name for path in BUNDLE.glob("*.js") if not re.search(r"-[A-Z0-9]{8}\.js$", path.name)}
    assert "verifier.js" in entries
    assert set().union(*map(_reached, entries)) == {path.name for path in BUNDLE.glob("*.js")}
    for path in BUNDLE.glob("*.js"):
        imported = re.findall(r'(?<!")\bimport\(?(?:[\w*{}\s,$]+from)?"([^"]+)"', path.read_text())
        assert [name for name in imported if not name.startswith("./")] == []


def test_the_verifier_asks_nobody_and_runs_nothing_that_it_reads() -> None:
    for name, text in _reached("verifier.js").items():
        for word in ("fetch(", "XMLHttpRequest", "WebSocket", "eval(", "new Function", "innerHTML", "localStorage"):
            assert word not in text, f"{name}: {word}"


def test_the_verifier_reads_no_clock_and_no_randomness() -> None:
    for path in VERIFIER:
        text = path.read_text()
        for word in ("Date.now", "new Date()", "Math.random", "getRandomValues", "DOMParser", "console."):
            assert word not in text, f"{path.name}: {word}"


def test_a_source_file_is_short() -> None:
    long = {path.name: lines for path in SOURCES if (lines := path.read_text().count("\n")) > LONGEST_FILE}
    assert long == {}


def test_development_packages_are_pinned_and_none_is_shipped() -> None:
    package = json.loads((REPOSITORY / "page" / "package.json").read_text())
    assert "dependencies" not in package
    assert [v for v in package["devDependencies"].values() if not re.fullmatch(r"\d+\.\d+\.\d+", v)] == []
    lock = json.loads(Path(REPOSITORY / "page" / "package-lock.json").read_text())["packages"]
    assert [name for name, entry in lock.items() if name and "integrity" not in entry] == []
    assert [name for name, entry in lock.items() if "resolved" in entry] == []
