"""The rules of the repository itself: lock files, names that must not appear, imports that must stay cheap."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).resolve().parent.parent
LOCKED = ("build", "dev", "docs", "models", "mutants", "run", "s3", "service", "tpm", "tpm-build")
LOCK_FILES = tuple(f"requirements/{name}.txt" for name in LOCKED)
SOURCE_ONLY = {"tpm2-pytss"}
"""Packages without wheels, which stand beside what the checks need and not among it."""

# Put together from halves, so that this file passes its own tests.
REGISTRY_HOSTS = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pypi", "python", "org"),
        ("files", "pythonhosted", "org"),
        ("registry", "npmjs", "org"),
        ("registry", "yarnpkg", "com"),
        ("static", "crates", "io"),
        ("proxy", "golang", "org"),
    )
)
# Folders of somebody's machine; a path that a document tells its reader to make (/etc/attest, /tmp/x) is none.
MACHINE_PATHS = re.compile(r"(?<![\w./-])/" + r"(?:work|home|root|Users|farm|builds?|opt/wheels)/[\w.@-]+")

PURE_IMPORT = """
import sys
import {module}
print("\\n".join(sorted(name for name in sys.modules if "." not in name)))
"""
# Web, terminal and service parts: an enclave that only wants to verify must not load them.
HEAVY = {"alembic", "click", "fastapi", "httpx", "pydantic", "requests", "rich", "sqlalchemy", "starlette", "uvicorn"}


def tracked_files() -> list[str]:
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
    )
    if listing.returncode != 0:
        pytest.skip("not a git checkout (a source archive, say): what is tracked is not known here")
    return [name for name in listing.stdout.decode().split("\0") if name and (REPOSITORY / name).is_file()]


def text_of(name: str) -> str:
    # Binary files are read too: a path inside recorded bytes would be a leak all the same.
    return (REPOSITORY / name).read_bytes().decode("utf-8", errors="replace")


def locked(name: str) -> dict[str, tuple[str, int]]:
    """Read a lock file: canonical name to (version, number of hashes)."""
    found: dict[str, tuple[str, int]] = {}
    for entry in text_of(name).replace("\\\n", " ").splitlines():
        if not entry or entry.startswith("#"):
            continue
        requirement = Requirement(entry.split("--hash=")[0].strip())
        (pin,) = requirement.specifier
        assert pin.operator == "==", entry
        found[canonicalize_name(requirement.name)] = (
            pin.version,
            len(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", entry)),
        )
    return found


def direct_requirements(*extras: str) -> list[Requirement]:
    project = tomllib.loads(text_of("pyproject.toml"))["project"]
    lines = [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]
    requirements = [Requirement(line) for line in lines]
    return [requirement for requirement in requirements if requirement.name != project["name"]]


def test_no_tracked_file_names_a_package_registry() -> None:
    named = [f"{name}: {host}" for name in tracked_files() for host in REGISTRY_HOSTS if host in text_of(name).lower()]
    assert named == []


def test_no_tracked_file_holds_a_path_of_somebodys_machine() -> None:
    held = [f"{name}: {match.group()}" for name in tracked_files() for match in MACHINE_PATHS.finditer(text_of(name))]
    assert held == []


@pytest.mark.parametrize("name", LOCK_FILES)
def test_a_lock_file_pins_every_requirement_by_hash_and_names_no_place(name: str) -> None:
    pins = locked(name)
    assert pins
    assert [package for package, (_, hashes) in pins.items() if hashes == 0] == []
    assert not re.search(
        r"://|^\s*(?:-i|-f|--index-url|--extra-index-url|--find-links|-e)\b", text_of(name), re.MULTILINE
    )


@pytest.mark.parametrize(
    ("name", "extras"),
    [
        ("requirements/run.txt", ("cli", "kms")),
        ("requirements/service.txt", ("cli", "kms", "otel", "pkcs11", "postgres", "transit")),
        ("requirements/dev.txt", ("cli", "kms", "otel", "pkcs11", "postgres", "transit", "dev")),
        ("requirements/models.txt", ("cli", "models")),
        ("requirements/s3.txt", ("cli", "models", "s3")),
        ("requirements/tpm.txt", ("tpm",)),
    ],
)
def test_a_lock_file_satisfies_what_the_project_asks_for(name: str, extras: tuple[str, ...]) -> None:
    pins = locked(name)
    unmet = [
        str(requirement)
        for requirement in direct_requirements(*extras)
        if (pin := pins.get(canonicalize_name(requirement.name))) is None or not requirement.specifier.contains(pin[0])
    ]
    assert unmet == [], "run `make lock`"


@pytest.mark.parametrize("name", [f"requirements/{name}.txt" for name in ("build", "models", "run", "s3", "service")])
def test_the_lock_files_agree_with_each_other(name: str) -> None:
    everything = locked("requirements/dev.txt")
    assert {package: pin for package, pin in locked(name).items() if everything.get(package) != pin} == {}


def test_what_is_built_here_changes_no_package_that_is_there() -> None:
    everything = locked("requirements/dev.txt")
    pins = locked("requirements/tpm.txt")
    assert {name: pin for name, pin in pins.items() if everything.get(name) != pin}.keys() == SOURCE_ONLY
    build = locked("requirements/tpm-build.txt")
    assert {name: pin for name, pin in build.items() if everything.get(name, pin) != pin} == {}
    assert SOURCE_ONLY.isdisjoint(everything)


@pytest.mark.parametrize("module", ["attest", "kms.domain.decide"])
def test_importing_the_core_loads_no_web_terminal_or_service_part(module: str) -> None:
    listing = subprocess.run(
        [sys.executable, "-c", PURE_IMPORT.format(module=module)], cwd=REPOSITORY, capture_output=True, check=True
    )
    assert HEAVY.isdisjoint(listing.stdout.decode().split())


def test_importing_the_core_opens_no_file_socket_or_process() -> None:
    # Standard library and dependencies may do as they like; an audit hook would see their file reads too, so this
    # looks only at frames of the package.
    script = """
import sys
seen = []
def hook(event, args):
    if event in {"socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.system", "open"}:
        frame = sys._getframe(1)
        if frame.f_globals.get("__name__", "").split(".")[0] in {"attest", "kms"}:
            seen.append((event, frame.f_globals["__name__"]))
sys.addaudithook(hook)
import attest
print(seen)
"""
    listing = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, check=True)
    assert listing.stdout.decode().strip() == "[]"
