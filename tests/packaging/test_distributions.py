"""Two distributions come out of this repository, and only attest-simulator can make evidence."""

import ast
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

pytestmark = pytest.mark.apart

ROOT = Path(__file__).resolve().parents[2]
PROJECTS = {"attest-kms": ROOT, "attest-simulator": ROOT / "simulator"}
ATTEST = "from attest.cli.main import main; raise SystemExit(main())"
KMS = "import sys; from kms.cli.main import main; sys.argv[0] = 'kms'; main()"
HINT = "hint: install attest-simulator of the same version: see 'attest docs installing'"
PEM = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\s+[A-Za-z0-9+/=\s]{40,}")
LABEL = b"attest simulator v1"
"""Every private key of the simulator is derived from a label that begins so."""
FORM = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
NEVER_SIGN = ("attest/evidence/", "attest/collect/", "attest/fetch/", "attest/verification.py", "attest/appraisal.py")


@dataclass(frozen=True)
class Built:
    """Both wheels, each installed into a folder of its own, and everything else that is installed here."""

    wheels: dict[str, Path]
    folders: dict[str, Path]
    libraries: Path

    def files(self, name: str) -> Iterator[tuple[str, bytes]]:
        with zipfile.ZipFile(self.wheels[name]) as wheel:
            for member in wheel.namelist():
                yield member, wheel.read(member)

    def python(
        self, code: str, line: str = "", *, at: Path, simulator: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Run code with arguments where one or both distributions are installed, and the checkout is not."""
        having = ("attest-kms", "attest-simulator") if simulator else ("attest-kms",)
        paths = [str(self.folders[name]) for name in having] + [str(self.libraries)]
        return subprocess.run(
            [sys.executable, "-S", "-P", "-c", code, *line.split()],
            capture_output=True,
            cwd=at,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(paths), "HOME": str(at)},
            timeout=120,
            check=False,
            text=True,
        )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    base = tmp_path_factory.mktemp("built")
    wheels, folders = {}, {}
    for name, project in PROJECTS.items():
        wheel, folders[name] = base / f"{name}-wheel", base / name
        run(project, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(wheel))
        (wheels[name],) = wheel.glob("*.whl")
        run(
            base,
            "-m",
            "pip",
            "install",
            *["-q", "--no-index", "--no-deps", "--target"],
            str(folders[name]),
            str(wheels[name]),
        )
    libraries = base / "libraries"
    libraries.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "attest" not in entry.name and entry.suffix != ".pth":
            (libraries / entry.name).symlink_to(entry)
    return Built(wheels=wheels, folders=folders, libraries=libraries)


def run(folder: Path, *arguments: str) -> None:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, cwd=folder, check=False, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def sources(built: Built) -> Iterator[tuple[str, ast.Module]]:
    for name, data in built.files("attest-kms"):
        if name.endswith(".py"):
            yield name, ast.parse(data)


def imports_of(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def methods_called(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node.func.attr


def has_private_key(data: bytes) -> bool:
    return LABEL in data or PEM.search(data) is not None


def test_the_two_are_released_together() -> None:
    main, simulator = (tomllib.loads((path / "pyproject.toml").read_text())["project"] for path in PROJECTS.values())
    assert simulator["version"] == main["version"]
    locked = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["simulator"]
    assert simulator["dependencies"] == [f"attest-kms[cli]=={main['version']}", *locked]
    assert len({(path / "LICENSE").read_bytes() for path in PROJECTS.values()}) == 1


def test_the_production_wheel_holds_its_packages_and_nothing_of_the_simulator(built: Built) -> None:
    names = [name for name, _ in built.files("attest-kms")]
    assert {name.split("/")[0] for name in names if not re.search(r"\.(?:dist-info|data)/", name)} == {
        "attest",
        "attest_kms",
        "kms",
        "rag_demo",
    }
    assert [name for name in names if "simulator" in name] == []


def test_the_production_wheel_carries_policies_documentation_schemas_and_the_page(built: Built) -> None:
    names = {name for name, _ in built.files("attest-kms")}
    for folder in ("docs", "policies"):
        tracked = {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*") if path.is_file()}
        assert {f"attest/shipped/{name}" for name in tracked} <= names
    assert "attest/shipped/docs/attest-policy.schema.json" in names
    assert "attest/page/bundle/index.html" in names


def test_documentation_and_policies_are_shown_from_the_wheel(built: Built, tmp_path: Path) -> None:
    page = built.python(ATTEST, "docs getting-started", at=tmp_path)
    assert page.stdout == (ROOT / "docs/getting-started.md").read_text()
    template = built.python(ATTEST, "policy template snp-production", at=tmp_path)
    (tmp_path / "mine.yaml").write_text(template.stdout)
    assert built.python(ATTEST, "policy check mine.yaml", at=tmp_path).returncode == 0


def test_the_production_wheel_holds_no_private_key(built: Built) -> None:
    assert [name for name, data in built.files("attest-kms") if has_private_key(data)] == []
    assert any(has_private_key(data) for _, data in built.files("attest-simulator"))
    assert has_private_key(ec.generate_private_key(ec.SECP256R1()).private_bytes(*FORM))


def test_what_reads_and_collects_evidence_signs_nothing(built: Built) -> None:
    methods = {name: set(methods_called(tree)) for name, tree in sources(built)}
    assert [name for name, called in methods.items() if "sign" in called and name.startswith(NEVER_SIGN)] == []
    assert len([name for name in methods if name.startswith(NEVER_SIGN)]) > 50
    assert "sign" in methods["attest/results/issuer.py"]


def test_the_demonstration_alone_imports_the_simulator(built: Built) -> None:
    imports = {name: set(imports_of(tree)) for name, tree in sources(built)}
    using = {name for name, found in imports.items() if any(one.startswith("attest_simulator") for one in found)}
    assert {name.rpartition("/")[0] for name in using} == {"rag_demo/demo"}


def test_without_the_simulator_the_command_says_what_to_install(built: Built, tmp_path: Path) -> None:
    refused = built.python(ATTEST, "simulate evidence --nonce-text hello -o evidence.bin", at=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr.splitlines() == ["error: 'simulate' needs the distribution attest-simulator", HINT]
    assert list(tmp_path.iterdir()) == []
    assert "simulate" in built.python(ATTEST, "--help", at=tmp_path).stdout


def test_with_the_simulator_beside_it_evidence_is_made_that_the_production_wheel_verifies(
    built: Built, tmp_path: Path
) -> None:
    made = built.python(ATTEST, "simulate evidence --nonce-text hello -o it.bin", at=tmp_path, simulator=True)
    assert made.returncode == 0, made.stderr
    verified = built.python(ATTEST, "verify it.bin --nonce-text hello --allow-simulated --offline", at=tmp_path)
    assert verified.returncode == 0, verified.stderr


@pytest.mark.parametrize("tee", ["simulated-snp", "simulated-tdx"])
def test_a_service_that_is_to_prove_a_simulated_machine_does_not_start_without_it(
    built: Built, tmp_path: Path, tee: str
) -> None:
    made = built.python(KMS, "init svc --origin a.example/b --allow-simulated", at=tmp_path)
    assert made.returncode == 0, made.stderr
    refused = built.python(KMS, f"serve --config svc/kms.toml --port 0 --self-evidence {tee}", at=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[-2:] == [
        f"error: {tee!r} needs the distribution attest-simulator [distribution-missing]",
        HINT,
    ]


def test_the_enclave_of_the_sample_does_not_simulate_without_it(built: Built, tmp_path: Path) -> None:
    code = """
from attest.errors import ConfigurationError
from rag_demo.enclave.service.assembly import attester_of
from attest.clock import system_clock
from rag_demo.enclave.service.settings import MachineSettings
try:
    attester_of(MachineSettings(simulate="tdx"), clock=system_clock)
except ConfigurationError as exc:
    print(exc.code, exc.hint)
"""
    assert built.python(code, at=tmp_path).stdout == f"distribution-missing {HINT.removeprefix('hint: ')}\n"
    assert built.python(code, at=tmp_path, simulator=True).stdout == ""


def test_completion_leaves_out_a_command_that_is_not_installed(built: Built, tmp_path: Path) -> None:
    code = (
        "from click.shell_completion import ShellComplete; from attest.cli.main import cli;"
        "print([item.value for item in ShellComplete(cli, {}, 'attest', 'X').get_completions([], 'sim')])"
    )
    assert built.python(code, at=tmp_path).stdout == "[]\n"
    assert built.python(code, at=tmp_path, simulator=True).stdout == "['simulate']\n"
