"""What a new user does: an empty environment, the wheel or the source archive, and the first commands.

Each supported version of Python that is here is tried; a skip names each one that is not.
"""

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

import pytest

from attest import __version__
from tests.documentation.blocks import blocks_run_by
from tests.documentation.first_hour import PAGE, RECORDED
from tests.documentation.shell import Command, commands_of_page, free_port, require_shown, run, run_script
from tests.packaging.documented_lines import documented_installations
from tests.packaging.throwaway_root import checkout

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
TSS = ("pkg-config", "--exists", "tss2-esys")
UV = Path(sys.executable).with_name("uv")
REQUIRED = os.environ.get("ATTEST_REQUIRE_REGISTRY") == "1"
pytestmark = [pytest.mark.registry, pytest.mark.timeout(600)]


@cache
def interpreter(version: str) -> Path | None:
    """Find an interpreter of a version: this one, on the path, or among pyenv's."""
    named = shutil.which(f"python{version}")
    candidates = [Path(sys.base_prefix) / "bin" / f"python{version}", *([Path(named)] if named else [])]
    candidates += sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python{version}"))
    for one in candidates:
        if (
            one.exists()
            and subprocess.run([one, "-c", "import venv"], capture_output=True, check=False).returncode == 0
        ):
            return one
    return None


@dataclass(frozen=True)
class Archives:
    """The wheel and the source archive of one distribution, and the wheel of the other."""

    wheel: Path
    source: Path
    simulator: Path

    def line(self, extra: str, *, source: bool = False) -> str:
        return _pinned(f"attest-kms{extra}", self.source if source else self.wheel)

    @property
    def simulator_line(self) -> str:
        return _pinned("attest-simulator", self.simulator)


def _pinned(name: str, path: Path) -> str:
    return f"{name} @ {path.as_uri()} --hash=sha256:{sha256(path.read_bytes()).hexdigest()}\n"


@dataclass(frozen=True)
class Environment:
    """An environment with nothing in it but what a test installs."""

    folder: Path

    def run(self, *line: str, at: Path) -> subprocess.CompletedProcess[str]:
        program, *arguments = line
        return subprocess.run(
            [self.folder / "bin" / program, *arguments],
            capture_output=True,
            cwd=at,
            check=False,
            env={"PATH": os.environ["PATH"], "HOME": str(at), "LC_ALL": "C.UTF-8"},
            text=True,
            timeout=120,
        )

    def install(self, requirements: str, *, hashed: bool = True) -> None:
        """Install with uv: of every file, the lock file has the digest."""
        named = self.folder / "requirements.txt"
        named.write_text(requirements)
        wanted = ["--require-hashes", "--constraint", str(ROOT / "requirements" / "run.txt")] if hashed else []
        builds = ["--build-constraints", str(ROOT / "requirements" / "build.txt")]
        uv("pip", "install", "--python", str(self.folder / "bin" / "python"), *wanted, *builds, "-r", str(named))

    def refusal(self, *line: str, at: Path) -> list[str]:
        done = self.run(*line, at=at)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        return done.stderr.splitlines()


def uv(*arguments: str) -> str:
    done = subprocess.run([UV, "--no-config", "--quiet", *arguments], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def environment(folder: Path, version: str, *, pip: bool = False) -> Environment:
    found = interpreter(version)
    if found is None:
        pytest.skip(f"there is no Python {version} here")
    if pip:
        subprocess.run([found, "-m", "venv", folder], check=True)
    else:
        uv("venv", "--python", str(found), str(folder))
    return Environment(folder)


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Archives:
    """Build them, where the index that pip uses can be reached."""
    base = tmp_path_factory.mktemp("archives")
    asked = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--no-cache-dir",
        "-d",
        str(base),
        "rfc8785",
    ]
    answer = subprocess.run(asked, capture_output=True, check=False, text=True)
    if answer.returncode != 0:
        assert not REQUIRED, answer.stderr
        pytest.skip("no package index can be reached from here")
    for project in (ROOT, ROOT / "simulator"):
        line = [sys.executable, "-m", "hatchling", "build", "--directory", str(base)]
        subprocess.run(line, cwd=project, check=True, capture_output=True)
    (wheel,), (source,) = base.glob("attest_kms-*.whl"), base.glob("attest_kms-*.tar.gz")
    (simulator,) = base.glob("attest_simulator-*.whl")
    return Archives(wheel=wheel, source=source, simulator=simulator)


def first_commands(installed: Environment, at: Path) -> None:
    """Make evidence, verify it, and print a policy and a page."""
    question = ("--nonce-text", "my-question", "--at", "2026-06-01T00:00:00Z")
    assert installed.run("attest", "simulate", "evidence", *question, "-o", "evidence.bin", at=at).returncode == 0
    line = ("attest", "verify", "evidence.bin", *question, "--offline")
    assert installed.run(*line, at=at).returncode == 4, "simulated evidence passed for genuine"
    verified = installed.run(*line, "--allow-simulated", at=at)
    assert verified.returncode == 0, verified.stderr
    assert "VERIFIED (SIMULATED)" in verified.stdout
    (at / "policy.yaml").write_text(installed.run("attest", "policy", "template", "snp-lab-simulated", at=at).stdout)
    judged = ("evidence.bin", *question, "--offline", "--allow-simulated", "--policy", "policy.yaml")
    assert installed.run("attest", "appraise", *judged, at=at).returncode == 0
    assert installed.run("attest", "docs", "getting-started", at=at).stdout.startswith("# Getting started\n")


@pytest.mark.parametrize("version", VERSIONS)
def test_from_an_empty_environment_to_a_verdict_and_a_service(archives: Archives, tmp_path: Path, version: str) -> None:
    installed = environment(tmp_path / "env", version)
    installed.install(archives.line(""))
    for command, extra in (("attest", "cli"), ("kms", "kms")):
        assert installed.refusal(command, "--version", at=tmp_path)[-1] == f"hint: pip install 'attest-kms[{extra}]'"
    installed.install(archives.line("[cli]") + archives.simulator_line)
    first_commands(installed, tmp_path)
    refused = installed.refusal("kms", "init", "svc", "--origin", "kms.example/prod", at=tmp_path)
    assert refused[-1] == "hint: pip install 'attest-kms[kms]'"
    installed.install(archives.line("[kms]"))
    made = installed.run("kms", "init", "svc", "--origin", "kms.example/prod", at=tmp_path)
    assert made.returncode == 0, made.stderr
    assert installed.run("kms", "fsck", "--config", "svc/kms.toml", at=tmp_path).returncode == 0


def test_the_source_archive_installs_what_the_wheel_does(archives: Archives, tmp_path: Path) -> None:
    installed = environment(tmp_path / "env", HERE)
    installed.install(archives.line("[cli]", source=True) + archives.simulator_line)
    first_commands(installed, tmp_path)


def test_the_line_that_a_refusal_gives_installs_what_is_missing(archives: Archives, tmp_path: Path) -> None:
    installed = environment(tmp_path / "env", HERE, pip=True)
    assert installed.run("pip", "install", "--quiet", str(archives.wheel), at=tmp_path).returncode == 0
    hint = installed.refusal("attest", "--version", at=tmp_path)[-1]
    program, *arguments = hint.removeprefix("hint: ").replace("'", "").split()
    done = subprocess.run([tmp_path / "env" / "bin" / program, *arguments], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    assert installed.run("attest", "--version", at=tmp_path).returncode == 0


def test_the_lowest_versions_that_are_asked_for_are_enough(archives: Archives, tmp_path: Path) -> None:
    installed = environment(tmp_path / "env", HERE)
    lowest = ("--resolution", "lowest-direct", "--only-binary", ":all:", "--python-version", HERE, "--extra", "kms")
    installed.install(uv("pip", "compile", str(ROOT / "pyproject.toml"), *lowest), hashed=False)
    installed.install(archives.line("[kms]") + archives.simulator_line, hashed=False)
    first_commands(installed, tmp_path)
    assert installed.run("attest", "policy", at=tmp_path).returncode == 2  # the help of a group
    made = installed.run("kms", "init", "svc", "--origin", "kms.example/prod", at=tmp_path)
    assert made.returncode == 0, made.stderr
    listed = installed.run("kms", "key", "list", "--config", "svc/kms.toml", at=tmp_path)
    assert listed.returncode == 0, listed.stderr


@pytest.mark.parametrize("line", documented_installations())
def test_every_installation_of_the_documentation_works_from_a_checkout(
    archives: Archives, tmp_path: Path, line: str
) -> None:
    installed = environment(tmp_path / "env", HERE)
    if "[tpm]" in line and (shutil.which("pkg-config") is None or subprocess.run(TSS, check=False).returncode != 0):
        pytest.skip("the TSS libraries are not here")
    words = [word for word in shlex.split(line)[2:] if word not in {"--quiet", "--no-index"}]
    done = subprocess.run(
        [UV, "--no-config", "pip", "install", "--dry-run", "--python", installed.folder / "bin" / "python", *words],
        capture_output=True,
        check=False,
        cwd=ROOT,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def blocks_of(name: str) -> str:
    """Return the text of a page's blocks that install."""
    found = blocks_run_by("tests/packaging/test_installation.py")
    return "".join(block.text for page, block in found if page.name == name)


def in_a_checkout(script: str) -> str:
    """Run commands of a reader who has a checkout and nothing else."""
    version = interpreter(HERE)
    own = f'python3() {{ {version} "$@"; }}; unset PYTHONPATH; PATH=${{PATH#*:}}\n'  # without our environment
    own += "export PIP_NO_COMPILE=1 PIP_QUIET=1\n"
    with checkout() as folder:
        return run_script(own + script, folder=folder, timeout=500)


def test_a_checkout_is_installed_as_the_pages_say(archives: Archives) -> None:
    script = [
        blocks_of("getting-started.md"),
        "attest --version",
        "python3 -m venv own && . own/bin/activate",
        blocks_of("installing.md"),
        "kms --version",
        "attest simulate anchors",
        blocks_of("sealed-access.md"),
        "python -c 'import fsspec, numpy'",
        "command -v attest",
    ]
    said = in_a_checkout("\n".join(script))
    assert f"attest {__version__}" in said
    assert f"kms {__version__}" in said
    assert said.rstrip().endswith("/own/bin/attest")


def test_the_tutorial_is_begun_as_it_says(archives: Archives) -> None:
    script = [
        blocks_of("tutorial-sealed-model.md"),
        "python -c 'import numpy, safetensors.numpy'",
        "kms --version",
        "pwd",
    ]
    said = in_a_checkout("\n".join(script))
    assert f"kms {__version__}" in said
    assert said.rstrip().endswith("/tutorial")


@pytest.mark.loopback
def test_the_first_hour_runs_as_it_stands(archives: Archives, tmp_path: Path, vectors_dir: Path) -> None:
    for path in (archives.wheel, archives.simulator):
        shutil.copy(path, tmp_path)
    for name, recorded in RECORDED.items():
        shutil.copy(vectors_dir / recorded, tmp_path / name)
    service, server = str(free_port()), str(free_port())  # the page's own may be in use here
    commands = [
        Command(command.line, command.text.replace("8750", service).replace("8760", server), command.expected)
        for command in commands_of_page(PAGE)
    ]
    ours = ("ATTEST", "KMS", "PYTHON", "COV", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    env = kept | {"COLUMNS": "80", "LC_ALL": "C.UTF-8", "KMS_PORT": service}
    for command, got in run(commands, folder=tmp_path, env=env, timeout=500):
        require_shown(command, got)
