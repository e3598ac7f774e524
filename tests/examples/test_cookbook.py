"""docs/cookbook.md: its recipes run as they stand, in their order, on a simulated machine with a real service."""

import asyncio
import json
import os
import re
import signal
import tempfile
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

import attest
from attest.agent.config import AgentConfig
from attest.errors import LeaseLostError
from attest.files import write_file
from attest.release.names import KeyReference
from attest.sealed import SealingNames, seal_directory, verify_directory
from tests.agent.running import ME, Running
from tests.agent.running import Place as AgentPlace
from tests.conftest import REPOSITORY
from tests.documentation.blocks import blocks_run_by
from tests.documentation.shell import run_script
from tests.examples.conftest import FILES, WEIGHTS
from tests.kms.support import MATERIAL
from tests.sealed.made import OWNER, private_pem, read_files
from tests.sealed.test_oms import PEER, needs_peer
from tests.sealed_access.servers import Shelf, serving

PAGE = REPOSITORY / "docs" / "cookbook.md"
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)
NAMES = SealingNames(key=KeyReference.parse("my-model@1"))


class _StoppedError(Exception):
    """Whatever interrupts."""


def shell(folder: Path, script: str) -> str:
    """Run commands as a reader's shell does, `attest run` on a machine of the simulator."""
    return run_script(script.replace("attest run", "attest simulate machine -- run"), folder=folder)


def interrupt_a_sealing(folder: Path) -> None:
    """Begin what the recipe goes on with: one file is done."""
    done: list[str] = []

    def stop(path: str, count: int) -> None:
        done.append(path)
        if len(set(done)) == 2:
            raise _StoppedError

    with suppress(_StoppedError):
        seal_directory(
            folder / "my-model",
            folder / "again.sealed",
            key=MATERIAL,
            names=NAMES,
            signer=OWNER,
            random=os.urandom,
            at=datetime.now(tz=UTC),  # noqa: TID251  as the command does
            threads=1,
            progress=stop,
        )
    assert not (folder / "again.sealed").exists()


def recipe_runs(folder: Path, kind: str, text: str, names: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> str:
    """Run one recipe, and return what commands said."""
    if kind == "sh":
        return shell(folder, text)
    with monkeypatch.context() as patched:
        if "tink.json_proto" in text:
            # The recipe before put the folder under another version, which this service does not have.
            held = (folder / "model-2.key").read_bytes()
            patched.setattr(attest, "Session", lambda: _Holding(held))
        exec(compile(text, str(PAGE), "exec"), names)  # noqa: S102  the page of this repository
    return ""


@pytest.mark.loopback
@pytest.mark.usefixtures("simulated")
def test_every_recipe_runs_as_it_stands(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_file(model / "owner.pem", private_pem(OWNER))
    write_file(model / "model.key", MATERIAL)
    interrupt_a_sealing(model)
    shelf = Shelf(files={f"/my-model/{name}": raw for name, raw in read_files(model / "my-model.sealed").items()})
    served = AgentPlace(sealed=model / "my-model.sealed", key=MATERIAL)
    config = AgentConfig(peers=(ME,), keys=(), models=(served.served(ME, name="my-model"),))
    names: dict[str, Any] = {}
    said = ""
    with (
        serving(shelf.handler()) as web,
        tempfile.TemporaryDirectory() as short,
        Running.start(Path(short), served, config=config) as agent,
    ):
        agent.session.materials["my-model@1"] = MATERIAL
        agent.ticks.ahead += 60  # It was refused when the agent began, and is asked for again.
        for kind, recipe in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
            text = recipe.replace("https://models.example", web)
            text = text.replace("/run/attest/agent.sock", str(agent.path)).replace("65532", str(os.geteuid()))
            said += recipe_runs(model, kind, text, names, monkeypatch)
    assert "32\n" in said
    assert '"kept": 1' in said
    assert "['b', 'w']" in capsys.readouterr().out
    assert np.array_equal(names["far"]["w"], WEIGHTS["w"])
    assert np.array_equal(names["arrays"]["b"], names["bias"])
    assert np.array_equal(names["rows"], WEIGHTS["w"][1:2])
    assert names["config"] == json.loads(FILES["config.json"])
    assert (model / "config.json").read_bytes() == FILES["config.json"]
    verify_directory(model / "again.sealed", trusted=(OWNER.public_key(),), digests=True)
    require_that_it_stops(names)


def require_that_it_stops(names: dict[str, Any]) -> None:
    """Call what the recipe does when a lease is lost."""
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        names["stop"](names["key"], LeaseLostError("the lease is not renewed: no", code="lease-renewal-refused"))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [signal.SIGTERM]


@pytest.mark.loopback
@pytest.mark.usefixtures("simulated")
def test_the_recipe_for_asyncio_answers(model: Path) -> None:
    recipes = [text for _, text in BLOCK.findall(PAGE.read_text(encoding="utf-8"))]
    names: dict[str, Any] = {}
    for recipe in (recipes[0], *(text for text in recipes if text.startswith("async def scores"))):
        exec(compile(recipe, str(PAGE), "exec"), names)  # noqa: S102  the page of this repository
    assert asyncio.run(names["scores"]()) == [13.0, 27.0]


class _Holding:
    """A session that has a key already."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def key(self, name: str, /) -> bytes:
        assert name == "my-model@2"
        return self._key

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@needs_peer
@pytest.mark.parametrize("page", [PAGE, REPOSITORY / "docs" / "sealed-models.md"], ids=lambda page: page.name)
def test_openssfs_own_command_verifies_as_the_page_says(model: Path, page: Path) -> None:
    texts = [block.text for named, block in blocks_run_by("tests/examples/test_cookbook.py") if named == page]
    assert len(texts) == 1
    run_script(f'model_signing() {{ "{PEER}" -m model_signing "$@"; }}\n{texts[0]}', folder=model)
    (model / "my-model.sealed" / "extra").write_bytes(b"x")
    with pytest.raises(AssertionError, match="Extra files"):
        run_script(f'model_signing() {{ "{PEER}" -m model_signing "$@"; }}\n{texts[0]}', folder=model)


def test_a_recipe_stands_for_everything_that_the_list_names() -> None:
    page = PAGE.read_text(encoding="utf-8")
    headings = {
        re.sub(r"[^\w -]", "", line[3:].lower()).replace(" ", "-") for line in page.splitlines() if line[:3] == "## "
    }
    assert set(re.findall(r"\]\(#([\w-]+)\)", page)) == headings
