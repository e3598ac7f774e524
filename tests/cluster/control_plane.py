"""An API server of Kubernetes with its database, on the loopback interface, and a client for it."""

import json
import secrets
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.cluster.programs import Programs
from tests.kms.tls import Files, authority, issued

START_SECONDS = 300
END_SECONDS = 60
POLL_SECONDS = 0.1
Object = dict[str, Any]  # an object of the API


class RefusedError(Exception):
    """An answer of the API server other than success."""

    def __init__(self, answer: httpx.Response) -> None:
        self.status = answer.status_code
        super().__init__(f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text}")


@dataclass
class ControlPlane:
    """A running API server.

    Attributes:
        kubeconfig: file for Helm, with the rights of a cluster administrator.
        warnings: headers of that name in answers to changes, since the start.
    """

    client: httpx.Client
    kubeconfig: Path
    warnings: list[str]

    def request(self, method: str, path: str, body: object = None, kind: str = "application/json") -> Object:
        """Return the answer; raise ``RefusedError`` for anything but success."""
        content = None if body is None else json.dumps(body)
        answer = self.client.request(method, path, content=content, headers={"Content-Type": kind})
        if not answer.is_success:
            raise RefusedError(answer)
        if method != "GET":
            self.warnings += answer.headers.get_list("Warning")
        found: Object = answer.json()
        return found

    def path_of(self, given: Mapping[str, Any], namespace: str) -> str:
        """Return the path of an object's collection, as the API server's discovery names it."""
        version = given["apiVersion"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        (found,) = [
            each
            for each in self.request("GET", root)["resources"]
            if each["kind"] == given["kind"] and "/" not in each["name"]
        ]
        within = f"/namespaces/{given['metadata'].get('namespace', namespace)}" if found["namespaced"] else ""
        return f"{root}{within}/{found['name']}"

    def apply(self, given: Mapping[str, Any], namespace: str) -> Object:
        """Apply an object on the server's side; a field that the server does not know is refused."""
        path = f"{self.path_of(given, namespace)}/{given['metadata']['name']}"
        query = "fieldManager=tests&fieldValidation=Strict"
        return self.request("PATCH", f"{path}?{query}", given, kind="application/apply-patch+yaml")

    def create(self, given: Mapping[str, Any], namespace: str = "", *, dry_run: bool = False) -> Object:
        """Create an object, or only ask whether it would be admitted."""
        query = "fieldValidation=Strict" + ("&dryRun=All" if dry_run else "")
        return self.request("POST", f"{self.path_of(given, namespace)}?{query}", given)

    def objects(self, namespace: str) -> set[tuple[str, str]]:
        """Return kind and name of every object of a namespace, and of every volume of the cluster, except events."""
        found = set()
        for root in ("/api/v1", *self._groups()):
            for each in self.request("GET", root)["resources"]:
                listed = each["namespaced"] or each["name"] == "persistentvolumes"
                if not listed or "list" not in each["verbs"] or each["name"] == "events":
                    continue
                within = f"/namespaces/{namespace}" if each["namespaced"] else ""
                items = self.request("GET", f"{root}{within}/{each['name']}")["items"]
                found |= {(each["kind"], one["metadata"]["name"]) for one in items}
        return found

    def wait(self, ready: Callable[[], bool]) -> None:
        """Wait until the API server has come to a state."""
        end = time.monotonic() + START_SECONDS
        while not ready():
            assert time.monotonic() < end
            time.sleep(POLL_SECONDS)

    def _groups(self) -> Iterator[str]:
        for group in self.request("GET", "/apis")["groups"]:
            yield f"/apis/{group['preferredVersion']['groupVersion']}"


@contextmanager
def running_control_plane(programs: Programs, folder: Path) -> Iterator[ControlPlane]:
    """Start both programs in a new folder, and end them again."""
    token = secrets.token_urlsafe(32)
    database, port = f"http://127.0.0.1:{free_port()}", free_port()
    address = f"https://127.0.0.1:{port}"
    with ExitStack() as running:
        etcd = running.enter_context(_running(_etcd(programs, folder, database), folder / "etcd.log"))
        with httpx.Client(base_url=database) as client:
            _wait(etcd, folder / "etcd.log", lambda: client.get("/health").is_success)
        (folder / "tokens.csv").write_text(f"{token},tests,tests,system:masters\n", encoding="utf-8")
        ca = authority(folder)
        command = _apiserver(programs, folder, database, port, issued(ca))
        server = running.enter_context(_running(command, folder / "apiserver.log"))
        client = running.enter_context(
            httpx.Client(
                base_url=address,
                verify=ssl.create_default_context(cafile=ca / "ca.pem"),
                headers={"Authorization": f"Bearer {token}"},
                timeout=60,
            )
        )
        _wait(server, folder / "apiserver.log", lambda: client.get("/readyz").is_success)
        yield ControlPlane(client=client, kubeconfig=_kubeconfig(folder, address, ca / "ca.pem", token), warnings=[])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


def _etcd(programs: Programs, folder: Path, address: str) -> list[str]:
    peers = f"http://127.0.0.1:{free_port()}"
    return [
        str(programs.etcd),
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={address}",
        f"--advertise-client-urls={address}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync",
    ]


def _apiserver(programs: Programs, folder: Path, database: str, port: int, tls: Files) -> list[str]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    accounts = folder / "accounts.pem"
    accounts.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return [
        str(programs.apiserver),
        f"--etcd-servers={database}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={tls.certificate}",
        f"--tls-private-key-file={tls.key}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=Node,RBAC",
        "--service-account-issuer=https://cluster.example",
        f"--service-account-signing-key-file={accounts}",
        f"--service-account-key-file={accounts}",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--endpoint-reconciler-type=none",
    ]


def _kubeconfig(folder: Path, address: str, ca: Path, token: str) -> Path:
    path = folder / "kubeconfig"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "tests", "cluster": {"server": address, "certificate-authority": str(ca)}}],
        "users": [{"name": "tests", "user": {"token": token}}],
        "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests"}}],
        "current-context": "tests",
    }
    path.write_text(json.dumps(document), encoding="utf-8")
    path.chmod(0o600)
    return path


@contextmanager
def _running(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as output, subprocess.Popen(command, stdout=output, stderr=output, cwd=log.parent) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait(process: subprocess.Popen[bytes], log: Path, ready: Callable[[], bool]) -> None:
    """Wait until a program is ready, and no longer than it lives."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            if ready():
                return
        except httpx.TransportError:
            pass
        time.sleep(POLL_SECONDS)
    raise AssertionError(log.read_text(encoding="utf-8", errors="replace")[-4000:])
