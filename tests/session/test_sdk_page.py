"""The examples of docs/sdk.md run as they stand, on a simulated machine, against a real service."""

import asyncio
import re
import sys
import tomllib
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import attest
from attest import load_policy
from attest.clock import system_clock
from attest.session.settings import VARIABLES, load_settings
from tests.documentation.blocks import blocks_run_by
from tests.documentation.shell import run_script
from tests.kms.process import REPOSITORY, ServedProcess
from tests.kms.support import MATERIAL
from tests.session.serving import machine, url_of

pytestmark = pytest.mark.loopback
PAGE = (REPOSITORY / "docs/sdk.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
MACHINE = machine("tdx")


class Shim(ModuleType):
    """`attest` on a machine that the simulator makes; nothing else is different."""

    def __getattr__(self, name: str) -> object:
        found: Any = getattr(attest, name)
        if name not in {"Session", "AsyncSession"}:
            return found
        return lambda **more: found(**({"attester": MACHINE} | more))


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs_as_it_stands(
    number: int, served: ServedProcess, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ATTEST_KMS_URL", url_of(served))
    monkeypatch.setenv("ATTEST_KMS_KEY", served.identity)
    shim = Shim("attest")
    shim.__path__ = attest.__path__
    monkeypatch.setitem(sys.modules, "attest", shim)
    decrypted: list[bytes] = []
    names: dict[str, Any] = {
        "attest": shim,
        "decrypt": lambda _, material: decrypted.append(bytes(material)),
        "weights": b"",
        "now": system_clock(),
    }
    code = EXAMPLES[number]
    exec(compile(code, f"docs/sdk.md, example {number}", "exec"), names)  # noqa: S102  our own page
    if "serve" in names:
        asyncio.run(names["serve"]())
    if "decrypt(" in code:
        assert decrypted == [MATERIAL]
    if "nobody-gets-this" in code:
        assert capsys.readouterr().out == "not with this image: policy.tdx.mr_td\n"
    if "session" in names and "with " not in code:
        names["session"].close()


def test_a_program_gets_its_key_from_the_command_of_the_page(
    tmp_path: Path, served: ServedProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTEST_KMS_URL", url_of(served))
    monkeypatch.setenv("ATTEST_KMS_KEY", served.identity)
    ((_, block),) = blocks_run_by("tests/session/test_sdk_page.py")
    server = tmp_path / "server"
    server.write_text('#!/bin/sh\nexec sha256sum "/proc/self/fd/$ATTEST_KEY_FD_MODEL"\n')
    server.chmod(0o755)
    simulated = 'attest() { command attest simulate machine --kind tdx -- attest "$@"; }'
    said = run_script(f"{simulated}\n{block.text}", folder=tmp_path)
    assert said.startswith(f"{sha256(MATERIAL).hexdigest()}  ")


def test_the_page_has_examples_and_every_setting() -> None:
    assert len(EXAMPLES) == 7
    assert all(f"`{variable}`" in PAGE for variable in VARIABLES.values())
    settings = attest.session.SessionSettings.__dataclass_fields__.keys() - {"service", "origins"}
    assert {name for name in settings if f"`{name}`" not in PAGE} == set()


def test_the_settings_of_the_page_are_read(tmp_path: Path, served: ServedProcess) -> None:
    (block,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    text = block.replace("kms.example/prod+0f3a…", served.identity)
    assert tomllib.loads(text)
    (tmp_path / "attest.toml").write_text(text)
    found = load_settings({}, environ={}, files=(tmp_path / "attest.toml",))
    assert found.policy == tmp_path / "kms-policy.yaml"


@pytest.mark.parametrize("gpus", [0, 1])
@pytest.mark.parametrize("kind_", ["snp", "tdx", "azure-snp", "azure-tdx"])
def test_the_policies_of_simulated_machines_load(kind_: Any, gpus: int) -> None:  # noqa: ANN401  a literal
    assert load_policy(machine(kind_, gpus).policy(name="mine")).name == "mine"


def test_there_is_no_other_kind_of_machine() -> None:
    with pytest.raises(ValueError, match="not a kind of machine"):
        machine("sgx")  # type: ignore[arg-type]  # the point
