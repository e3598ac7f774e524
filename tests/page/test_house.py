"""The rules of the page's sources and of the bundle that is checked in."""

import base64
import gzip
import hashlib
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.page.browser import BUNDLE, REPOSITORY
from tests.pages import page_text

PAGE = REPOSITORY / "page"
SOURCES = sorted((REPOSITORY / "page" / "src").rglob("*.ts"))
VERIFIER = sorted((REPOSITORY / "page" / "src" / "verifier").rglob("*.ts"))
IMPORTED = re.compile(r'(?:from|import\(|import)\s*"\./([^"]+)"')
CODE = re.compile(r'"([a-z0-9]+(?:-[a-z0-9]+)+)"')
# What an error is made of: its kind, then its code. Those of a quote put their prefix before it (`refused`).
MADE = re.compile(
    r'(?<!refused\()"(?:malformed|unsupported|verification|signature|chain|revoked|binding|endorsement)",\s*("[a-z0-9]+(?:-[a-z0-9]+)+")'
)
LONGEST_FILE = 400
LONGEST_LINE = 120
FIRST_LOAD_BYTES = 60_000
FORMAT_BYTES = 15_000


def _codes() -> Iterator[str]:
    for path in VERIFIER:
        for made in MADE.findall(path.read_text()):
            yield from CODE.findall(made)


def test_every_code_of_the_page_is_one_that_the_documentation_explains() -> None:
    documented = set(re.findall(r"`([a-z0-9-]+)`", page_text("errors")))
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


def _at_once(*names: str) -> set[str]:
    """Return these files and what they import at once."""
    found: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += re.findall(r'(?:from|import)"\./([^"]+)"', (BUNDLE / name).read_text())
    return found


def _weight(names: set[str]) -> int:
    return sum(len(gzip.compress((BUNDLE / name).read_bytes(), 9)) for name in names)


def _imported_on_demand() -> set[str]:
    return {name for path in BUNDLE.glob("*.js") for name in re.findall(r'import\("\./([^"]+)"\)', path.read_text())}


def _largest(on_demand: set[str], *kinds: str) -> set[str]:
    """Return the largest file of each kind: words are there once for each language."""
    return {max((n for n in on_demand if n.startswith(f"{kind}-")), key=lambda n: _weight({n})) for kind in kinds}


def test_the_page_fetches_little_at_first_and_little_for_each_format() -> None:
    on_demand = _imported_on_demand()
    assert {name.partition("-")[0] for name in on_demand} >= {"intel", "azure", "gpu", "eventlog", "files", "roots"}
    begun = _at_once("page.js")
    assert on_demand & begun == set()
    # Until the first verdict: the words for it, and what judges by a policy.
    shown = begun | _at_once(*_largest(on_demand, "first", "draft"))
    assert _weight(shown | {"index.html", "style.css"}) <= FIRST_LOAD_BYTES
    # Without a click: that, what is shown beside the verdict, and what tries a key under a policy that is met.
    beside = shown | _at_once(*_largest(on_demand, "record", "view", "seen", "trial"))
    assert _weight(beside | {"index.html", "style.css"}) <= FIRST_LOAD_BYTES
    # The page about files has parts of its own, which are fetched after its own beginning.
    alone = _at_once("evidence.js")
    assert _weight(alone | {"evidence.html", "style.css"}) <= FIRST_LOAD_BYTES
    there = (begun, shown, beside, alone)
    assert [name for name in on_demand if min(_weight(_at_once(name) - had) for had in there) > FORMAT_BYTES] == []


def _ever(name: str) -> set[str]:
    """Return the files that an entry point may fetch, without itself."""
    return set(_reached(name)) - {name}


@pytest.mark.parametrize(("document", "entry"), [("index.html", "page.js"), ("evidence.html", "evidence.js")])
def test_a_page_fetches_ahead_what_it_begins_with_and_names_all_else_by_digest(document: str, entry: str) -> None:
    html = (BUNDLE / document).read_text()
    ahead = set(re.findall(r'<link rel="modulepreload" href="([^"]+)"', html))
    assert ahead == _at_once(entry) - {entry}
    named = json.loads(re.findall(r'<script type="importmap">(.+?)</script>', html)[0])["integrity"]
    modules = {name: BUNDLE / name for name in _ever(entry)}
    digests = {name: base64.b64encode(hashlib.sha256(path.read_bytes()).digest()) for name, path in modules.items()}
    assert named == {f"./{name}": f"sha256-{digest.decode()}" for name, digest in digests.items()}


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


def test_no_line_of_a_source_is_long() -> None:
    lines = (
        (path.name, number, line) for path in SOURCES for number, line in enumerate(path.read_text().splitlines(), 1)
    )
    assert [(name, number) for name, number, line in lines if len(line) > LONGEST_LINE] == []


@pytest.mark.parametrize(
    ("golfed", "rule"),
    [
        ("export const f = (a: number): number => (a++, a);", "no-sequences"),
        ("let a = 1; let b = 2; a = b = 3; export { a, b };", "no-multi-assign"),
        ("export const f = (a: number): number => (a ? (a > 1 ? 2 : 1) : 0);", "no-nested-ternary"),
        ("export const [a, b] = [1, 2];", "page/no-parallel-declaration"),
        ("export const a = 1, b = 2;", "one-var"),
        (f"export const a = '{'x' * LONGEST_LINE}';", "max-len"),
    ],
)
def test_golf_is_refused(golfed: str, rule: str) -> None:
    if not (PAGE / "node_modules" / ".bin" / "eslint").is_file():
        pytest.skip("no page/node_modules here: make page installs the linters")
    command = ["node_modules/.bin/eslint", "--stdin", "--stdin-filename", "build.mjs", "--format", "json"]
    source = re.sub(r": number", "", golfed)
    done = subprocess.run(command, cwd=PAGE, input=source, capture_output=True, text=True, check=False)
    [found] = json.loads(done.stdout)
    assert rule in {message["ruleId"] for message in found["messages"]}


def test_development_packages_are_pinned_and_none_is_shipped() -> None:
    package = json.loads((REPOSITORY / "page" / "package.json").read_text())
    assert "dependencies" not in package
    assert [v for v in package["devDependencies"].values() if not re.fullmatch(r"\d+\.\d+\.\d+", v)] == []
    lock = json.loads(Path(REPOSITORY / "page" / "package-lock.json").read_text())["packages"]
    assert [name for name, entry in lock.items() if name and "integrity" not in entry] == []
    assert [name for name, entry in lock.items() if "resolved" in entry] == []
