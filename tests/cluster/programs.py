"""Programs of a cluster's control plane, built from Go modules once and kept in the user's cache."""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

from attest.user_folders import user_folder

SOURCE = Path(__file__).parent / "golang"
HELM = "helm.sh/helm/v3/cmd/helm@v3.17.3"
BUILD_SECONDS = 3600


@dataclass(frozen=True)
class Programs:
    """Paths of the programs."""

    etcd: Path
    apiserver: Path
    helm: Path


def built_programs() -> Programs:
    """Build what the cache lacks; skip where that cannot be, or fail where ATTEST_REQUIRE_CLUSTER=1 promises it."""
    go = shutil.which("go")
    if go is None:
        _give_up("there is no Go here (1.24 or newer, from https://go.dev/dl)")
    folder = _folder()
    if not all((folder / name).is_file() for name in ("etcd", "apiserver")):
        flags = f"-ldflags=-s -w {' '.join(_version_flags())}"
        _build(go, ["build", "-trimpath", flags, "-o", f"{folder}/", "./etcd", "./apiserver"], folder)
    named = os.environ.get("ATTEST_HELM")
    if named is None and not (folder / "helm").is_file():
        _build(go, ["install", HELM], folder)
    return Programs(folder / "etcd", folder / "apiserver", Path(named) if named else folder / "helm")


def kubernetes_version() -> str:
    """Return the version of Kubernetes that is built."""
    found = re.search(r"k8s\.io/kubernetes v([0-9.]+)", (SOURCE / "go.mod").read_text(encoding="utf-8"))
    assert found is not None
    return found[1]


def _version_flags() -> Iterator[str]:
    """Return the linker's flags with the version: only the official build knows it by itself."""
    version = kubernetes_version()
    major, minor, _ = version.split(".")
    for name, value in (("gitVersion", f"v{version}"), ("gitMajor", major), ("gitMinor", minor)):
        yield f"-X k8s.io/component-base/version.{name}={value}"


def _folder() -> Path:
    """Return the folder of the programs of these sources: other sources have another one."""
    cache = user_folder("XDG_CACHE_HOME", ".cache", os.environ)
    if cache is None:
        _give_up("neither XDG_CACHE_HOME nor HOME names a folder for the programs")
    digest = hashlib.sha256(HELM.encode())
    for path in sorted(SOURCE.rglob("*")):
        if path.is_file():
            digest.update(path.read_bytes())
    return cache / "attest" / "cluster" / digest.hexdigest()[:16]


def _build(go: str, words: list[str], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [go, *words],
        cwd=SOURCE,
        env={**os.environ, "GOBIN": str(folder), "CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    if done.returncode:
        _give_up(f"'go {words[0]}' failed in {SOURCE}: {done.stderr[-500:]}")


def _give_up(reason: str) -> NoReturn:
    if os.environ.get("ATTEST_REQUIRE_CLUSTER") == "1":
        pytest.fail(f"ATTEST_REQUIRE_CLUSTER=1, but {reason}")
    pytest.skip(reason)
