"""What the pages show of the demonstration and of its service runs as it stands."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import httpx
import pytest

import rag_demo.client
from attest.clock import system_clock
from rag_demo.demo.parties import NAME, Options, Stage, staged
from tests.conftest import REPOSITORY
from tests.documentation.blocks import Block, blocks_run_by, command_lines
from tests.documentation.shell import run_script, shell_environment
from tests.rag_demo.documents.samples import pdf

pytestmark = [pytest.mark.loopback, pytest.mark.timeout(300), pytest.mark.apart]
BLOCKS = [(page.name, block) for page, block in blocks_run_by("tests/rag_demo/demo/test_pages.py")]
MADE = [line for _, block in BLOCKS for line in command_lines(block) if line.startswith("make ")]
INSTALLED = 'make() { command make --old-file=.venv/.installed-run --old-file=.venv/.installed-model "$@"; }'
"""It installs nothing into the environment of the tests that run beside this one."""
GPUS = 2


def blocks_of_page(name: str) -> list[Block]:
    """Return the blocks of a page but those of `make`."""
    return [block for page, block in BLOCKS if page == name and "make " not in block.text]


def until(holds: Callable[[], object], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


@contextmanager
def running(command: str, folder: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command of a shell until the end, in a session of its own, as a terminal has it."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["bash", "-c", command],
            cwd=folder,
            env=shell_environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


# -- make


def test_the_pages_show_these_commands_of_make_and_no_others() -> None:
    assert set(MADE) == {"make demo", "make demo ARGS=--script", "make test"}
    script = (REPOSITORY / ".ci/run").read_text(encoding="utf-8").splitlines()
    assert "make test" in script  # which runs this test


def test_make_demo_waits_for_ctrl_c_and_ends(tmp_path: Path) -> None:
    log = tmp_path / "said"
    with running(f"{INSTALLED}; TMPDIR={tmp_path} make demo", REPOSITORY, log) as process:
        until(lambda: b"Ctrl-C" in log.read_bytes() or process.poll() is not None)
        os.killpg(process.pid, signal.SIGINT)
        process.wait(60)
    assert log.read_text().splitlines()[-1].strip() == "ending"
    assert list(tmp_path.iterdir()) == [log]


def test_make_demo_with_the_script_has_every_expected_result(tmp_path: Path) -> None:
    said = run_script(f"{INSTALLED}; TMPDIR={tmp_path} make demo ARGS=--script", folder=REPOSITORY, timeout=280)
    assert "every step had the expected result" in said


# -- the service and its client


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """The demonstration's parties without their enclave, and what a reader has in the documents' owner's folder."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with staged(Options(gpus=GPUS)) as found:
        found.programs["enclave"].stop()
        (found.document_owner / "policy.yaml").write_bytes((found.document_owner / "policy.json").read_bytes())
        (found.document_owner / "contract.pdf").write_bytes(pdf([["The contract ends on 31 March 2027."]]))
        yield found


@contextmanager
def enclave(stage: Stage, command: str) -> Iterator[str]:
    """Run a command that serves, until its machine has got its keys; yield its address."""
    log = stage.folder / "enclave.said"
    with running(command, stage.operator, log) as process:
        until(lambda: b"listening: " in log.read_bytes() or process.poll() is not None)
        (url,) = re.findall(r"^listening: (.*)$", log.read_text(), re.MULTILINE)
        until(lambda: httpx.get(f"{url}/readyz", trust_env=False).is_success)
        yield url


def on_a_confidential_machine(stage: Stage, command: str) -> None:
    """Run the service's command on a machine that only a program outside of it simulates."""
    config = stage.operator / "enclave.toml"
    text = config.read_text()
    config.write_text(re.sub(r"^\[machine\]\n.*\n", "", text, flags=re.MULTILINE))
    with enclave(stage, f"exec attest simulate machine --gpus {GPUS} -- {command}") as url:
        assert httpx.get(f"{url}/v1/state", trust_env=False).json()["state"] == "ready"
    config.write_text(text)


def ask_as_the_page_does(owner: Path, url: str) -> tuple[str, object]:
    """Run the client's blocks, and return what commands print and what the program asked."""
    given = f"--service {NAME} --allow-simulated --offline --endorsements vendors --token token"
    said = ""
    chat, scripted, program = blocks_of_page("rag-demo.md")
    for block in (chat, scripted):
        text = block.text.replace("https://rag.example", f"{url} {given}")
        said += run_script(text, folder=owner, typed="/check\n/quit\n")
    text = program.text.replace("https://rag.example", url).replace("rag.example", NAME)
    names: dict[str, object] = {"Path": Path, "os": os, "now": system_clock()}
    exec(compile(text, "docs/rag-demo.md", "exec"), names)  # noqa: S102  our own page
    return said, names["asking"]


def test_the_service_runs_as_its_page_says_and_the_client_asks_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = stage.document_owner
    known = partial(rag_demo.client.read_demands, allow_simulated=True, offline=True, endorsements=(owner / "vendors",))
    monkeypatch.setattr(rag_demo.client, "read_demands", known)
    monkeypatch.chdir(owner)
    (block,) = blocks_of_page("rag.md")
    confidential, simulated = command_lines(block)
    on_a_confidential_machine(stage, confidential)
    with enclave(stage, f"exec {simulated}") as url:
        said, asking = ask_as_the_page_does(owner, url)
    assert "AFFIRMED, SIMULATED" in said
    assert '"known": true' in said
    assert "31 March 2027" in asking.answer.text  # type: ignore[attr-defined]  # whatever the page made
