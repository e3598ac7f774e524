"""Where NVIDIA's Python SDK is looked for, and how it is installed, with a stand-in for Python and pip."""

import sys
from pathlib import Path

import pytest

from attest.errors import ConfigurationError
from attest.nvsdk import find_environment, install, install_commands, installation_folder

_PYTHON = """#!{python} -I
import os, pathlib, shutil, sys
words = sys.argv[1:]
with open({log!r}, "a") as log:
    log.write(" ".join(words) + "\\n")
if words[0] == "-c":
    print("{version}")
elif words[:2] == ["-m", "venv"]:
    folder = pathlib.Path(words[2])
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    (folder / "pyvenv.cfg").write_text("")
    shutil.copy(sys.argv[0], folder / "bin" / "python")
elif {pip_fails}:
    sys.exit("no such index")
"""


def stand_in(folder: Path, *, version: str = "3 11", pip_fails: bool = False) -> str:
    python = folder / "python"
    log = str(folder / "log")
    python.write_text(_PYTHON.format(python=sys.executable, log=log, version=version, pip_fails=pip_fails))
    python.chmod(0o755)
    return str(python)


def test_the_folder_is_named_or_in_the_data_directory() -> None:
    assert installation_folder({"ATTEST_NVSDK": "/opt/x", "HOME": "/h"}) == Path("/opt/x")
    assert installation_folder({"XDG_DATA_HOME": "/data", "HOME": "/h"}) == Path("/data/attest/nvsdk")
    assert installation_folder({"XDG_DATA_HOME": "relative", "HOME": "/h"}) == Path("/h/.local/share/attest/nvsdk")
    with pytest.raises(ConfigurationError) as caught:
        installation_folder({})
    assert caught.value.code == "nvsdk-missing"


def test_an_environment_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="not installed") as caught:
        find_environment(tmp_path)
    assert caught.value.code == "nvsdk-missing"
    assert "attest nvsdk install" in (caught.value.hint or "")


def test_both_packages_are_pinned() -> None:
    first, second = install_commands(Path("/x"), python="/usr/bin/python3")
    assert first == ("/usr/bin/python3", "-m", "venv", "/x")
    assert second[0] == "/x/bin/python"
    assert second[-2:] == ("nv-attestation-sdk==2.7.3", "nv-local-gpu-verifier==2.7.3")


def test_installing_runs_what_was_announced_and_twice_does_no_harm(tmp_path: Path) -> None:
    said: list[str] = []
    python, folder = stand_in(tmp_path), tmp_path / "sdk"
    for _ in range(2):
        assert install(folder, environ={}, python=python, say=said.append).folder == folder
    assert said[:2] == [" ".join(command) for command in install_commands(folder, python=python)]
    ran = (tmp_path / "log").read_text()
    assert "install nv-attestation-sdk==2.7.3 nv-local-gpu-verifier==2.7.3" in ran


@pytest.mark.parametrize("version", ["3 8", "3 13", "4 0", "", "three eleven"])
def test_another_python_is_refused_before_anything_is_made(tmp_path: Path, version: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        install(tmp_path / "sdk", environ={}, python=stand_in(tmp_path, version=version), say=print)
    assert caught.value.code == "nvsdk-python-unsupported"
    assert not (tmp_path / "sdk").exists()


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "sdk").mkdir()
    (tmp_path / "sdk" / "mine").write_text("x")
    with pytest.raises(ConfigurationError) as caught:
        install(tmp_path / "sdk", environ={}, python=stand_in(tmp_path), say=print)
    assert caught.value.code == "nvsdk-folder-taken"


def test_what_pip_says_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no such index") as caught:
        install(tmp_path / "sdk", environ={}, python=stand_in(tmp_path, pip_fails=True), say=print)
    assert caught.value.code == "nvsdk-install-failed"


def test_an_interpreter_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        install(tmp_path / "sdk", environ={}, python=str(tmp_path / "absent"), say=print)
    assert caught.value.code == "nvsdk-install-failed"
