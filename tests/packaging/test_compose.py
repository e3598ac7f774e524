"""The commands of the page about the Compose file, by podman-compose, without a registry, in a network of their own."""

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.conftest import REPOSITORY
from tests.documentation.blocks import blocks_run_by
from tests.documentation.shell import run_script
from tests.packaging.throwaway_root import checkout

pytestmark = [pytest.mark.registry, pytest.mark.timeout(600)]
BASE = "localhost/python:bookworm"
SERVICE = "localhost/kms:latest"
"""Images of `deploy/image/base` and `make image`."""
IMAGE = Path(__file__).parent / "compose/image"
_MADE_BY = sha256(IMAGE.read_bytes() + IMAGE.with_name("entrypoint").read_bytes()).hexdigest()
DEBIAN = f"localhost/postgres-debian:{_MADE_BY[:12]}"
"""PostgreSQL of Debian; made again when what makes it changes."""
PODMAN_COMPOSE = "podman-compose==1.6.0"
ULIMITS = {"nofile": 1024, "nproc": 1024}
"""Limits that every machine grants; Podman's own may be larger."""

WAITED = """
for _ in $(seq 120); do
    podman healthcheck run kms_database_1 >/dev/null 2>&1 && break
    sleep 0.5
done
"""
"""What Compose does with `condition: service_healthy`. Without systemd, Podman checks no health by itself."""
SECRETS = """
openssl rand -hex 32 > deploy/secrets/database-password
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost -days 2 \
    -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE \
    -keyout deploy/secrets/tls-key.pem -out deploy/secrets/tls-certificate.pem 2>/dev/null
chmod 0600 deploy/secrets/*
chown 65532 deploy/secrets/*
"""
ASKED = """
curl --silent --fail --retry 60 --retry-all-errors --retry-delay 1 \
    --cacert deploy/secrets/tls-certificate.pem https://localhost:8750/readyz
"""


def exists(image: str) -> bool:
    return subprocess.run(["podman", "image", "exists", image], check=False).returncode == 0


def missing() -> str | None:
    if os.geteuid() != 0:
        return "a network of one's own takes root"
    for program in ("podman", "buildah", "iptables"):
        if shutil.which(program) is None:
            return f"there is no {program} here"
    for image, made_by in ((BASE, "deploy/image/base"), (SERVICE, "make image")):
        if not exists(image):
            return f"there is no image {image} ({made_by})"
    if subprocess.run(["podman", "container", "exists", "kms_kms_1"], check=False).returncode == 0:
        return "the service of the Compose file runs here already"
    return None


@pytest.fixture
def postgres() -> Iterator[None]:
    """An image of PostgreSQL under the name that the Compose file states."""
    reason = missing()
    if reason is not None:
        assert os.environ.get("ATTEST_REQUIRE_IMAGE") != "1", reason
        pytest.skip(reason)
    stated = YAML(typ="safe").load(REPOSITORY / "deploy/compose.yaml")["services"]["database"]["image"]
    if not exists(DEBIAN):
        subprocess.run([IMAGE, BASE, DEBIAN], check=True)
    subprocess.run(["podman", "tag", DEBIAN, f"localhost/{stated}"], check=True)
    yield
    subprocess.run(["podman", "untag", DEBIAN, f"localhost/{stated}"], check=True)


def compose(folder: Path) -> tuple[str, str]:
    """Return what defines `docker` in a shell, and what takes everything away that it made."""
    subprocess.run([sys.executable, "-m", "venv", folder / "compose"], check=True)
    program = folder / "compose/bin/podman-compose"
    subprocess.run([program.with_name("pip"), "install", "--quiet", PODMAN_COMPOSE], check=True)
    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    limits = {"services": {"kms": {"ulimits": {**ULIMITS, "core": 0, "memlock": locked}}}}
    (folder / "limits.yaml").write_text(json.dumps(limits))
    has_cgroups = Path("/sys/fs/cgroup/cgroup.controllers").exists()  # crun wants their version 2
    (folder / "containers.conf").write_text(
        f"[containers]\ndefault_ulimits = {[f'{name}={most}:{most}' for name, most in ULIMITS.items()]}\n"
        f'[engine]\nruntime = "{"crun" if has_cgroups else "runc"}"\n'
    )
    function = (
        f"export CONTAINERS_CONF={folder}/containers.conf\n"
        f'docker() {{ test "$1" = compose; {program} "$2" "$3" --file {folder}/limits.yaml "${{@:4}}"; }}\n'
    )
    return function, "docker compose --file deploy/compose.yaml down --volumes --timeout 5 > /dev/null\n"


def test_the_compose_file_starts_the_service_and_its_database_as_the_page_says(tmp_path: Path, postgres: None) -> None:
    ((_, block),) = blocks_run_by("tests/packaging/test_compose.py")
    folder_made, database, *rest = block.text.splitlines()
    docker, ended = compose(tmp_path)
    script = "\n".join(
        [
            "set -euo pipefail",
            "ip link set lo up",
            docker,
            f"trap '{ended}' EXIT",
            folder_made,
            SECRETS,
            database,
            WAITED,
            *rest,
            ASKED,
        ]
    )
    with checkout() as folder:
        (folder / "script").write_text(script, encoding="utf-8")
        said = run_script("unshare --net bash script", folder=folder, timeout=300)
    assert "identity: kms.example/prod+" in said, said
    assert '"ready":["database",' in said.splitlines()[-1], said
