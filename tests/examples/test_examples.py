"""Every program of `examples/` runs as it stands: a real service, a simulated machine, and stand-ins for GPU programs.

vLLM and llama.cpp need GPUs and gigabytes, so two scripts stand in for them. They look at what they are given: the
plaintext of the model, in memory, to a program that has neither the key nor a descriptor of it.
"""

import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import attest
from attest import sealed
from tests.conftest import REPOSITORY
from tests.examples.conftest import FILES, WEIGHTS
from tests.kms.support import MATERIAL
from tests.sealed.made import read_files
from tests.sealed_access.servers import Shelf, serving

EXAMPLES = REPOSITORY / "examples"
STAND_IN = f"""#!{sys.executable}
import os, sys
from pathlib import Path
from attest.sealed.staging import is_memory
arguments = sys.argv[1:]
given = Path(arguments[1])
assert arguments == {{expected}}, arguments
assert is_memory(given.parent)
wanted = Path("my-model" if given.is_dir() else "my-model/model.gguf")
for one in [wanted] if wanted.is_file() else [path for path in wanted.rglob("*") if path.is_file()]:
    found = given / one.relative_to(wanted) if given.is_dir() else given
    assert found.read_bytes() == one.read_bytes()
    assert found.stat().st_mode & 0o077 == 0
assert not [name for name in os.environ if name.startswith("ATTEST_KEY")]
links = [os.readlink(f"/proc/self/fd/{{{{fd}}}}") for fd in range(3, 64) if os.path.exists(f"/proc/self/fd/{{{{fd}}}}")]
assert not [link for link in links if "memfd" in link], links
# What 'attest run' ends when a lease is lost is this process, and no shell above it.
assert b"\\0run\\0" in Path(f"/proc/{{{{os.getppid()}}}}/cmdline").read_bytes()
print("serving", given.name)
"""


def start(folder: Path, program: str, expected: str, command: list[str], *, plain: Path) -> str:
    """Start an example on a simulated machine with a stand-in for a program; return what it says."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    (programs / program).write_text(STAND_IN.format(expected=expected).replace("{{", "{").replace("}}", "}"))
    (programs / program).chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    done = subprocess.run(
        ["attest", "simulate", "machine", "--", "run", "--key", "MODEL=my-model", "--", *command],
        env=kept
        | {
            "PATH": os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": str(REPOSITORY),
            "PLAIN": str(plain),
        },
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    return f"{done.returncode} {done.stdout}{done.stderr}"


def start_vllm(folder: Path, plain: Path) -> str:
    command = [str(EXAMPLES / "vllm.sh"), "my-model.sealed", "owner.pub", "--port", "8000"]
    expected = "['serve', str(given), '--served-model-name', 'my-model', '--port', '8000']"
    return start(folder, "vllm", expected, command, plain=plain)


def start_llama(folder: Path, plain: Path) -> str:
    command = [str(EXAMPLES / "llama.sh"), "my-model.sealed", "model.gguf", "owner.pub", "--port", "8000"]
    expected = "['--model', str(given), '--offline', '--port', '8000']"
    return start(folder, "llama-server", expected, command, plain=plain)


@pytest.mark.loopback
def test_vllm_starts_with_the_plaintext_in_memory_and_without_the_key(model: Path, memory: Path) -> None:
    (memory / "plain").mkdir()
    (memory / "plain" / "of-a-life-before").touch()
    said = start_vllm(model, memory / "plain")
    assert said.startswith("0 serving plain\n"), said
    assert read_files(memory / "plain") == FILES


@pytest.mark.loopback
def test_llama_starts_with_its_one_file_in_memory_and_without_the_key(model: Path, memory: Path) -> None:
    said = start_llama(model, memory / "plain")
    assert said.startswith("0 serving plain.gguf\n"), said
    assert read_files(memory) == {"plain.gguf": FILES["model.gguf"]}


@pytest.mark.loopback
@pytest.mark.parametrize("start_one", [start_vllm, start_llama])
def test_neither_starts_with_an_altered_model(model: Path, memory: Path, start_one: Callable[..., str]) -> None:
    altered = model / "my-model.sealed" / "model.gguf.sealed"
    content = bytearray(altered.read_bytes())
    content[1 << 20] ^= 1
    altered.write_bytes(content)
    said = start_one(model, memory / "plain")
    assert said.startswith("4 "), said
    assert "serving" not in said


@pytest.mark.loopback
def test_llama_is_not_started_from_a_disk(model: Path) -> None:
    plain = Path("/proc/plain")  # neither tmpfs nor a place to write to
    said = start_llama(model, plain)
    assert said.startswith("2 "), said
    assert "is on a disk" in said


@pytest.mark.loopback
@pytest.mark.usefixtures("simulated")
def test_a_service_answers_with_a_sealed_models_weights(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = runpy.run_path(str(EXAMPLES / "inference_service.py"))["app"]
    with TestClient(app) as web:
        answer = web.post("/v1/scores", json=[1, 1])
        assert (answer.status_code, answer.json()) == (200, list(WEIGHTS["w"].sum(axis=1) + WEIGHTS["b"]))
        assert web.post("/v1/scores", json=["one"]).status_code == 422


@pytest.mark.loopback
@pytest.mark.usefixtures("simulated")
def test_a_service_ends_when_its_lease_is_lost(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Callable[[object, object], None]] = []
    heard: list[str] = []
    usual = attest.Session

    def session(**given: Any) -> attest.Session:  # noqa: ANN401  what a session takes
        told.append(given["on_lost"])
        return usual(**given)

    monkeypatch.setattr(attest, "Session", session)
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append("SIGTERM"))
    try:
        with TestClient(runpy.run_path(str(EXAMPLES / "inference_service.py"))["app"]):
            told[0](None, None)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == ["SIGTERM"]


@pytest.mark.loopback
@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize("far", [False, True], ids=["folder", "http"])
def test_a_batch_job_reads_sealed_documents_and_writes_an_encrypted_result(
    model: Path, monkeypatch: pytest.MonkeyPatch, far: bool
) -> None:
    shelf = Shelf(files={f"/docs/{name}": content for name, content in read_files(model / "my-model.sealed").items()})
    with serving(shelf.handler()) as web:
        place = f"{web}/docs" if far else "my-model.sealed"
        monkeypatch.setattr(sys, "argv", ["batch_job.py", place, "owner.pub", "batch-results", "counts.sealed"])
        runpy.run_path(str(EXAMPLES / "batch_job.py"), run_name="__main__")
    assert bool(shelf.seen) == far
    assert b"notes" not in (model / "counts.sealed").read_bytes()
    with sealed.open("counts.sealed", key=MATERIAL, associated_data=b"word counts") as file:
        assert b'"notes/en.txt": 3' in file.read()


@pytest.mark.parametrize("program", ["vllm.sh", "llama.sh"])
@pytest.mark.parametrize("arguments", [(), ("a", "b", "c")])
def test_a_program_that_is_started_wrongly_says_how(program: str, arguments: tuple[str, ...]) -> None:
    ran = subprocess.run([EXAMPLES / program, *arguments], capture_output=True, text=True, check=False)
    assert ran.returncode != 0
    assert ("attest run --key MODEL=KEY --" if arguments else f"usage: {program} SEALED") in ran.stderr


@pytest.mark.loopback
@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["x"], "usage: batch_job.py"),
        (["my-model.seald", "owner.pub", "batch-results", "out"], "is not a sealed model"),
        (["my-model.sealed", "owner.pub", "batch-result", "out"], "check the name"),
    ],
)
def test_a_batch_job_that_is_started_wrongly_says_what_is_wrong(
    model: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], told: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["batch_job.py", *arguments])
    with pytest.raises(SystemExit, match=told):
        runpy.run_path(str(EXAMPLES / "batch_job.py"), run_name="__main__")
    assert not (model / "out").exists()


def code_lines(path: Path) -> list[str]:
    """Lines that do something: no blank ones, comments or docstrings."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        import ast

        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node):
                node.body = node.body[1:] or [ast.Pass()]
        text = ast.unparse(tree)
    return [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def test_each_example_has_fewer_than_thirty_lines_of_code() -> None:
    found = {path.name: len(code_lines(path)) for path in EXAMPLES.iterdir() if path.suffix in {".py", ".sh"}}
    assert found.keys() == {"batch_job.py", "inference_service.py", "llama.sh", "vllm.sh"}
    assert max(found.values()) < 30, found


def test_each_example_is_told_of_in_its_page() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in EXAMPLES.iterdir() if path.suffix in {".py", ".sh"} and path.name not in page] == []
