"""What `make dist` makes: the same bytes each time, with manual pages, SBOM and provenance beside them."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import click
import pytest

from attest import __version__
from distribution.artifacts import build_artifacts
from distribution.provenance import provenance
from distribution.sbom import LOCK_FILES, write_sbom
from distribution.shared_files import COMMANDS, man_pages
from tests.documentation.blocks import blocks_run_by
from tests.documentation.shell import run_script
from tests.test_house import locked, tracked_files

pytestmark = pytest.mark.apart

ROOT = Path(__file__).resolve().parents[2]
EPOCH = 1_780_000_000
DATE = "2026-05-28"


@dataclass(frozen=True)
class Dist:
    folder: Path

    def only(self, pattern: str) -> Path:
        (found,) = self.folder.glob(pattern)
        return found

    @property
    def digests(self) -> dict[str, str]:
        return {path.name: sha256(path.read_bytes()).hexdigest() for path in self.folder.iterdir()}


def copied(target: Path, *, mode: int, at: int) -> Path:
    """Copy the checkout as another user's umask and clock would leave it."""
    for name in tracked_files():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, path)
        path.chmod(mode)
        os.utime(path, (at, at))
    for name in ("docs", "policies"):
        (target / "attest" / "shipped" / name).symlink_to(f"../../{name}")
    return target


def built(root: Path, target: Path) -> Dist:
    target.mkdir()
    build_artifacts(root, target, epoch=EPOCH, date=DATE)
    return Dist(target)


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Dist:
    base = tmp_path_factory.mktemp("first")
    return built(copied(base / "checkout", mode=0o644, at=EPOCH), base / "dist")


def test_two_builds_give_the_same_bytes_and_are_compared_as_the_page_says(dist: Dist, tmp_path: Path) -> None:
    ((_, block),) = blocks_run_by("tests/packaging/test_published.py")
    again = copied(tmp_path / "somewhere" / "else", mode=0o600, at=EPOCH + 86_400)
    assert len(dist.digests) == 4
    sums = "".join(f"{digest}  {name}\n" for name, digest in dist.digests.items())
    (again / "SHA256SUMS.of-theirs").write_text(sums)
    (again / ".venv").symlink_to(ROOT / ".venv")
    reader = [
        "git init --quiet && git add . && git -c user.name=it -c user.email=it@it commit --quiet --message it",
        f"export SOURCE_DATE_EPOCH={EPOCH}",
        'make() { command make --old-file=.venv/.installed-dev --silent "$@"; }',  # it is installed
    ]
    said = run_script("\n".join([*reader, block.text]), folder=again)
    assert [line for line in said.splitlines() if line.endswith(": OK")] == [f"{name}: OK" for name in dist.digests]


def test_the_source_archive_builds_the_same_wheel(dist: Dist, tmp_path: Path) -> None:
    with tarfile.open(dist.only("attest_kms-*.tar.gz")) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path / "dist")],
        cwd=source,
        check=True,
        capture_output=True,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)},
    )
    wheel = Dist(tmp_path / "dist").only("*.whl")
    assert dist.digests[wheel.name] == sha256(wheel.read_bytes()).hexdigest()


def commands(context: click.Context, path: str) -> set[str]:
    found = {path}
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            if (path, name) != ("attest", "simulate"):  # of another distribution
                command = context.command.get_command(context, name)
                assert command is not None
                found |= commands(click.Context(command, parent=context), f"{path}-{name}")
    return found


def test_the_wheel_brings_a_manual_page_for_every_command_and_completion_for_each_shell(dist: Dist) -> None:
    with zipfile.ZipFile(dist.only("attest_kms-*.whl")) as wheel:
        shared = {name.partition(".data/data/share/")[2] for name in wheel.namelist() if ".data/data/" in name}
    pages = {name.removeprefix("man/man1/").removesuffix(".1") for name in shared if name.startswith("man/")}
    wanted = set().union(*(commands(click.Context(one), name) for name, one in COMMANDS.items()))
    assert pages == wanted
    for name in COMMANDS:
        assert f"bash-completion/completions/{name}" in shared
        assert f"zsh/site-functions/_{name}" in shared
        assert f"fish/vendor_completions.d/{name}.fish" in shared


def test_a_manual_page_has_examples_options_and_the_date_of_the_source() -> None:
    pages = dict(man_pages("attest", COMMANDS["attest"], date=DATE))
    page = pages["attest-verify"]
    assert f'"{DATE}" "{__version__}"' in page
    assert page.index(".SH EXAMPLES") < page.index(".SH OPTIONS")
    assert r"\fB\-\-offline\fP" in page
    assert "attest verify report.bin --nonce" in page


def test_no_line_of_a_manual_page_is_lost_as_a_command_of_roff() -> None:
    known = {".SH", ".TH", ".TP", ".PP", ".B", ".nf", ".fi"}
    for name, command in COMMANDS.items():
        for page, text in man_pages(name, command, date=DATE):
            starts = {line.split()[0] for line in text.splitlines() if line.lstrip().startswith((".", "'"))}
            assert starts <= known, page


@pytest.mark.skipif(shutil.which("groff") is None, reason="there is no groff here (Debian: groff-base)")
def test_groff_reads_the_manual_pages() -> None:
    for name, command in COMMANDS.items():
        text = "".join(page for _, page in man_pages(name, command, date=DATE))
        done = subprocess.run(
            ["groff", "-k", "-man", "-ww", "-z"], input=text, text=True, capture_output=True, check=True
        )
        assert [line for line in done.stderr.splitlines() if "can't break line" not in line] == []


@pytest.mark.parametrize("name", ["run", "service"])
def test_a_bill_of_materials_has_every_package_of_its_lock_file_with_its_digests(tmp_path: Path, name: str) -> None:
    write_sbom(ROOT, name, tmp_path / "bill.json")
    bill = json.loads((tmp_path / "bill.json").read_bytes())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["name"] == "attest-kms"
    found = {
        one["name"]: (one["version"], sum(len(place["hashes"]) for place in one["externalReferences"]))
        for one in bill["components"]
    }
    assert found == locked(f"requirements/{name}.txt")


def test_there_is_a_bill_of_materials_for_every_lock_file_that_is_installed_from() -> None:
    there = {path.stem for path in (ROOT / "requirements").glob("*.txt")}
    assert set(LOCK_FILES) == there - {"build", "dev", "docs", "model", "mutants", "tpm-build"}


def test_a_bill_of_materials_is_the_same_each_time(tmp_path: Path) -> None:
    for target in ("one.json", "two.json"):
        write_sbom(ROOT, "service", tmp_path / target)
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


def test_the_provenance_names_every_artifact_its_commit_and_what_built_it(tmp_path: Path) -> None:
    artifact = tmp_path / "it.whl"
    artifact.write_bytes(b"wheel")
    lock_file = ROOT / "requirements" / "dev.txt"
    statement = provenance(
        [artifact], commit="ab" * 20, epoch=EPOCH, lock_file=lock_file, parameters={"python": "3.11"}
    )
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    assert statement["subject"] == [{"name": "it.whl", "digest": {"sha256": sha256(b"wheel").hexdigest()}}]
    definition = statement["predicate"]["buildDefinition"]
    assert definition["externalParameters"] == {"SOURCE_DATE_EPOCH": str(EPOCH), "python": "3.11"}
    source, lock, *packages = definition["resolvedDependencies"]
    assert source["digest"] == {"gitCommit": "ab" * 20}
    assert lock["digest"] == {"sha256": sha256(lock_file.read_bytes()).hexdigest()}
    pins = locked("requirements/dev.txt")
    assert f"pkg:pypi/hatchling@{pins['hatchling'][0]}" in {one["uri"] for one in packages}


def test_a_provenance_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="subject"):
        provenance([], commit="ab" * 20, epoch=EPOCH, lock_file=ROOT / "requirements" / "dev.txt", parameters={})
