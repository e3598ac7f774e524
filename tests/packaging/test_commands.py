"""The commands start, or say in two lines what is missing, whatever is installed around them."""

import re
import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from attest import __version__
from attest_kms.extras import EXTRA_OF, missing_extra
from tests.packaging.documented_lines import documented_installations

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CORE_LINES, EXTRAS = PROJECT["dependencies"], PROJECT["optional-dependencies"]
WITHOUT = """
import sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
from attest_kms.commands import attest, kms
sys.argv[0] = {command!r}
sys.exit({command}())
"""
WITHOUT_SAMPLE = (
    WITHOUT.replace("import attest, kms", "import sample").rpartition("sys.argv[0]")[0]
    + "sys.exit(sample({program!r}))"
)
LIBRARIES = sorted(EXTRA_OF)


def python(*line: object, at: Path, path: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, line)],
        capture_output=True,
        cwd=at,
        check=False,
        text=True,
        timeout=60,
        env={"PYTHONPATH": f"{path}:{ROOT}", "PATH": "/usr/bin:/bin"},
    )


def refusal(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    lines = done.stderr.splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["error:", "hint:"], done.stderr
    return lines


@pytest.mark.parametrize("command", ["attest", "kms"])
def test_a_command_without_its_extra_names_it_and_the_line_that_installs_it(tmp_path: Path, command: str) -> None:
    extra = {"attest": "cli", "kms": "kms"}[command]
    done = python("-c", WITHOUT.format(absent=LIBRARIES, command=command), "--version", at=tmp_path)
    assert refusal(done) == [
        f"error: '{command}' needs the extra '{extra}' of attest-kms: the module 'click' is not installed",
        f"hint: pip install 'attest-kms[{extra}]'",
    ]


@pytest.mark.parametrize(
    ("command", "absent", "line", "extra"),
    [
        ("attest", "rich", ["verify", "report.bin", "--offline"], "cli"),
        ("attest", "markdown_it", ["docs", "cli"], "cli"),
        ("kms", "sqlalchemy", ["init", "svc", "--origin", "a.example/b"], "kms"),
        ("kms", "pydantic", ["init", "svc", "--origin", "a.example/b"], "kms"),
        ("kms", "cryptography", ["init", "svc", "--origin", "a.example/b"], "kms"),
        ("kms", "cbor2", ["init", "svc", "--origin", "a.example/b"], "kms"),
        ("attest", "cbor2", ["verify", "report.bin", "--offline"], "cli"),
    ],
)
def test_a_command_that_misses_one_library_names_the_extra_that_brings_it(
    tmp_path: Path, command: str, absent: str, line: list[str], extra: str
) -> None:
    (tmp_path / "report.bin").write_bytes(b"")
    done = python("-c", WITHOUT.format(absent=[absent], command=command), *line, at=tmp_path)
    assert refusal(done)[1] == f"hint: pip install 'attest-kms[{extra}]'"


@pytest.mark.parametrize("program", ["rag_demo", "rag_demo.client", "rag_demo.enclave"])
@pytest.mark.parametrize("absent", [LIBRARIES, ["cbor2"], ["click"]])
def test_a_program_of_the_sample_names_the_extra_that_it_needs(tmp_path: Path, program: str, absent: list[str]) -> None:
    done = python("-c", WITHOUT_SAMPLE.format(absent=absent, program=program), "--help", at=tmp_path)
    error, hint = refusal(done)
    assert error.startswith(f"error: 'python -m {program}' needs the extra 'rag' of attest-kms: the module '")
    assert hint == "hint: pip install 'attest-kms[rag]'"


def test_the_demonstration_without_the_simulator_says_what_to_install(tmp_path: Path) -> None:
    done = python("-c", WITHOUT_SAMPLE.format(absent=["attest_simulator"], program="rag_demo"), "--script", at=tmp_path)
    assert refusal(done) == [
        "error: 'python -m rag_demo' needs attest-simulator, which is not installed",
        "hint: install attest-simulator of the same version: docs/installing.md says how",
    ]


@pytest.mark.parametrize("program", ["rag_demo", "rag_demo.client", "rag_demo.enclave"])
def test_a_program_of_the_sample_starts_by_its_name(tmp_path: Path, program: str) -> None:
    done = python("-m", program, "--help", at=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"Usage: python -m {program} " in done.stdout


def test_a_defect_is_not_taken_for_a_missing_extra() -> None:
    assert missing_extra(ValueError("x"), command="attest") is None
    assert missing_extra(ModuleNotFoundError("x", name="attest.nothing"), command="attest") is None
    assert missing_extra(ModuleNotFoundError("x"), command="attest") is None


def test_every_library_of_an_extra_is_known_by_the_modules_that_it_brings() -> None:
    modules: dict[str, set[str]] = {}
    for module, names in packages_distributions().items():
        for name in names:
            modules.setdefault(canonicalize_name(name), set()).add(module)
    shipped = [lines for extra, lines in EXTRAS.items() if extra not in {"dev", "demo"}]
    for lines in (CORE_LINES, *shipped):
        for requirement in map(Requirement, lines):
            found = modules.get(canonicalize_name(requirement.name))
            if requirement.name != "attest-kms" and found is not None:  # a source archive is not installed everywhere
                assert found & EXTRA_OF.keys(), f"{requirement.name}: {sorted(found)}"
    assert set(EXTRA_OF.values()) <= EXTRAS.keys()


def test_no_line_of_the_documentation_installs_this_project_from_an_index() -> None:
    lines = documented_installations()
    assert len(lines) > 10
    named = [line for line in lines for word in shlex.split(line) if re.match(r"(attest|kms)\b", word)]
    assert named == []
    extras = {name for line in lines for group in re.findall(r"\[([a-z0-9,]+)\]", line) for name in group.split(",")}
    assert extras <= EXTRAS.keys()


@pytest.mark.parametrize("command", ["attest", "kms"])
def test_both_commands_print_their_version_in_one_form(tmp_path: Path, command: str) -> None:
    installed = Path(sys.executable).with_name(command)
    for line in (("-m", command, "--version"), ("-m", command, "-V"), (installed, "--version"), (installed, "-V")):
        done = python(*line, at=tmp_path)
        assert (done.returncode, done.stdout) == (0, f"{command} {__version__}\n"), done.stderr


@pytest.mark.parametrize("name", ["attest", "kms"])
@pytest.mark.parametrize("kind", ["a package", "a folder", "a package that fails"])
def test_a_foreign_package_of_our_name_is_said_with_its_place(tmp_path: Path, name: str, kind: str) -> None:
    place = tmp_path / "elsewhere" / name
    place.mkdir(parents=True)
    if kind != "a folder":
        (place / "__init__.py").write_text("assert_hook = None\n" if kind == "a package" else "raise SystemError\n")
    done = python("-c", WITHOUT.format(absent=[], command="kms"), "--version", at=tmp_path, path=place.parent)
    if kind == "a folder":  # without __init__.py it yields to a real package
        assert done.stdout == f"kms {__version__}\n"
        return
    error, hint = refusal(done)
    assert error == f"error: the package {name!r} is not the one of attest-kms: {place / '__init__.py'}"
    assert "PYTHONPATH" in hint


def test_an_unrelated_distribution_of_our_name_is_said_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "attest").mkdir()
    (tmp_path / "attest" / "__init__.py").write_text("from attest.collectors import Tests\n")
    information = tmp_path / "Attest-0.5.3.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: Attest\nVersion: 0.5.3\n")
    done = python("-c", WITHOUT.format(absent=[], command="kms"), "--version", at=tmp_path, path=tmp_path)
    assert refusal(done)[1] == (
        "hint: attest 0.5.3 is an unrelated distribution: pip uninstall attest, then install attest-kms again with "
        "--force-reinstall"
    )


def test_a_command_that_ends_soon_loads_no_client_and_does_not_search_all_it_loaded_for_garbage(tmp_path: Path) -> None:
    program = """
import gc, sys
from attest_kms.commands import kms
searched = []
gc.callbacks.append(lambda phase, found: searched.append(found["generation"]) if phase == "stop" else None)
sys.argv = ["kms", "init", "made", "--origin", "kms.test/unit"]
try:
    kms()
finally:
    print(searched.count(2), "httpx" in sys.modules, file=sys.stderr)
"""
    done = python("-c", program, at=tmp_path)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, "0 False"), done.stderr
