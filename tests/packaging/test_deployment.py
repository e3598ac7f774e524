"""The blocks of the pages that change their host, on a root file system that is thrown away."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.documentation.blocks import Block, blocks_of, blocks_run_by
from tests.documentation.shell import commands_of, free_port, run_script
from tests.packaging.throwaway_root import checkout, missing, run_in_throwaway_root

pytestmark = [pytest.mark.registry, pytest.mark.timeout(600)]
BLOCKS = [(page.name, block) for page, block in blocks_run_by("tests/packaging/test_deployment.py")]


def block_with(page: str, text: str) -> Block:
    (found,) = [block for name, block in BLOCKS if name == page and text in block.text]
    return found


def require(reason: str | None) -> None:
    if reason is not None:
        assert os.environ.get("ATTEST_REQUIRE_THROWAWAY_ROOT") != "1", reason
        pytest.skip(reason)


@pytest.mark.loopback
def test_systemd_starts_the_service_as_the_page_installs_it() -> None:
    require(missing(booted=True))
    port = free_port()  # the page's own may be in use here
    files = [block for block in blocks_of(REPOSITORY / "docs/deployment.md") if block.kind == "file"]
    saved = [command.text for block in files for command in commands_of(block)]
    script = "\n".join(
        [
            *saved,
            "mkdir -p /etc/systemd/system/kms.service.d",
            f"printf '[Service]\\nEnvironment=KMS_PORT={port}\\n' > /etc/systemd/system/kms.service.d/port.conf",
            block_with("deployment.md", "systemctl enable").text,
            f"curl --silent --fail --retry 60 --retry-all-errors --retry-delay 1 http://127.0.0.1:{port}/healthz",
            "echo",
            "systemctl reload kms",
            "systemctl is-enabled kms",
            "ps -o user= -p $(systemctl show --property MainPID --value kms)",
            "systemctl stop kms",
            "systemctl show --property Result --value kms",
        ]
    )
    with checkout() as folder:
        said = run_in_throwaway_root(script, folder=folder, booted=True)
    assert said.splitlines()[-3:] == ["enabled", "kms", "success"], said
    assert not Path("/opt/kms").exists()


BASE = "localhost/python:bookworm"
"""Base image of `deploy/image/base`; the page's is in a registry."""


def podman_as_docker() -> str:
    """Return shell functions for it, with the machine's certificates and network; skip where images cannot be built."""
    reason = None if os.geteuid() == 0 else "building an image here takes root"
    if shutil.which("podman") is None:
        reason = "there is no podman here"
    elif subprocess.run(["podman", "image", "exists", BASE], check=False).returncode != 0:
        reason = f"there is no image {BASE} (deploy/image/base)"
    if reason is not None:
        assert os.environ.get("ATTEST_REQUIRE_IMAGE") != "1", reason
        pytest.skip(reason)
    return (
        'docker() { local verb=$1; shift; podman "$verb" --isolation chroot --network host --layers=false '
        '--volume /etc/ssl/certs:/etc/ssl/certs:ro "$@"; }\n'
    )


def test_an_image_is_built_as_the_page_says(tmp_path: Path) -> None:
    docker, tag = podman_as_docker(), f"localhost/kms-page-{os.getpid()}"
    text = block_with("deployment.md", "docker build").text.replace("--tag kms", f"--quiet --tag {tag}")
    text = re.sub(r"PYTHON=\S+", f"PYTHON={BASE}", text)
    ended = f"podman image rm --force {tag} > /dev/null"
    with checkout() as folder:
        run_script(f"{docker}{text}", folder=folder, timeout=500)
    made = run_script(
        f"podman image inspect --format '{{{{.User}}}} {{{{.Config.Entrypoint}}}}' {tag}; {ended}", folder=tmp_path
    )
    assert made == "65532:65532 [/opt/kms/bin/kms]\n"


def test_what_a_tpm_needs_is_installed_as_the_page_says() -> None:
    require(missing())
    script = [
        "ls /var/lib/apt/lists/*_Packages* > /dev/null 2>&1 || apt-get update",
        'apt-get() { command apt-get --yes --quiet "$@"; }',
        "python3 -m venv own && . own/bin/activate",
        block_with("collecting.md", "apt-get").text,
        "python -c 'import attest, tpm2_pytss'",
    ]
    with checkout() as folder:
        run_in_throwaway_root("\n".join(script), folder=folder)
