"""Sealed files in programs that other people wrote for object storage and artifacts; skipped where they are absent.

``npm install azurite``, ``go install github.com/fsouza/fake-gcs-server@latest`` and
``go install github.com/google/go-containerregistry/cmd/registry@latest`` bring them; they are found on PATH.
"""

import base64
import hashlib
import json
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from attest.errors import SealedSourceError
from attest.sealed import SealedReader
from attest.sealed.locations import source_of, store_of
from tests.sealed_access.making import ASSOCIATED, KEY, seal
from tests.sealed_access.servers import hasty

pytestmark = [pytest.mark.loopback, pytest.mark.slow]

PLAINTEXT = random.Random(7).randbytes(20 << 20)
_ACCOUNT = "devstoreaccount1"


@contextmanager
def running(program: str, arguments: Callable[[int], list[str]], folder: Path, *, path: str = "/") -> Iterator[str]:
    """Run a server on a free port; yields its address."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed; see the head of this file")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([found, *arguments(port)], cwd=folder, stdout=log, stderr=log)
        try:
            for _ in range(200):
                try:
                    httpx.get(f"{url}{path}", trust_env=False)
                    break
                except httpx.TransportError:
                    assert process.poll() is None, f"{program} ended; see {folder / 'log'}"
                    time.sleep(0.1)
            yield url
        finally:
            process.terminate()
            process.wait()


def read_all(url: str, **reaching: str) -> bytes:
    source = source_of(url, patience=hasty(), **reaching)  # type: ignore[arg-type]  # an endpoint
    with SealedReader(source, key=KEY, associated_data=ASSOCIATED) as reader:
        return bytes(reader.read(0, reader.size))


def code_of(work: Callable[[], object]) -> str:
    with pytest.raises(SealedSourceError) as error:
        work()
    return error.value.code.removeprefix("sealed-source-")


def test_azurite_serves_blobs_by_key_and_refuses_another_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from azure.storage.blob import BlobServiceClient

    key = base64.b64encode(random.Random(1).randbytes(64)).decode()
    monkeypatch.setenv("AZURITE_ACCOUNTS", f"{_ACCOUNT}:{key}")
    arguments = ["--inMemoryPersistence", "--silent", "--disableTelemetry", "--skipApiVersionCheck"]
    with running("azurite-blob", lambda port: [*arguments, "--blobPort", str(port)], tmp_path) as url:
        stated = f"AccountName={_ACCOUNT};AccountKey={key};BlobEndpoint={url}/{_ACCOUNT}"
        with BlobServiceClient.from_connection_string(stated) as service:
            service.create_container("models")
            blob = service.get_blob_client("models", "m/w #1.sealed")
            blob.upload_blob(seal(PLAINTEXT))
            monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", stated)
            assert read_all("az://models/m/w #1.sealed") == PLAINTEXT
            assert code_of(lambda: read_all("az://models/m/none")) == "not-found"
            assert code_of(lambda: read_all("az://absent/m")) in {"not-found", "refused"}
            with source_of("az://models/m/w #1.sealed", patience=hasty()) as source:  # type: ignore[attr-defined]  # of HTTP
                blob.upload_blob(seal(PLAINTEXT), overwrite=True)
                assert code_of(lambda: source.read_into(0, memoryview(bytearray(9)))) == "changed"
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", stated.replace(key, base64.b64encode(bytes(64)).decode()))
        assert code_of(lambda: read_all("az://models/m/w #1.sealed")) == "refused"


def test_a_google_emulator_serves_objects_of_the_generation_that_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def arguments(port: int) -> list[str]:
        where = ["-host", "127.0.0.1", "-port", str(port), "-public-host", f"127.0.0.1:{port}"]
        return ["-backend", "memory", "-scheme", "http", *where]

    with running("fake-gcs-server", arguments, tmp_path) as url, httpx.Client(trust_env=False, base_url=url) as client:
        client.post("/storage/v1/b", json={"name": "models"}).raise_for_status()

        def upload() -> None:
            name = {"uploadType": "media", "name": "m/w #1.sealed"}
            answer = client.post("/upload/storage/v1/b/models/o", params=name, content=bytes(seal(PLAINTEXT)))
            answer.raise_for_status()

        upload()
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
        assert read_all("gs://models/m/w #1.sealed") == PLAINTEXT
        assert code_of(lambda: read_all("gs://models/m/none")) == "not-found"
        assert code_of(lambda: read_all("gs://absent/m")) == "not-found"
        with source_of("gs://models/m/w #1.sealed", patience=hasty()) as source:  # type: ignore[attr-defined]  # of HTTP
            upload()
            assert code_of(lambda: source.read_into(0, memoryview(bytearray(9)))) == "changed"


def test_a_registry_serves_an_artifact_by_tag_and_by_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    files = {"a/w.sealed": bytes(seal(PLAINTEXT)), "sealed.json": b"{}"}
    with (
        running("registry", lambda port: ["-port", str(port)], tmp_path, path="/v2/") as url,
        httpx.Client(trust_env=False, base_url=url) as client,
    ):
        layers = []
        for title, content in {**files, "": b"{}"}.items():
            digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
            place = client.post("/v2/team/model/blobs/uploads/").raise_for_status().headers["Location"]
            client.put(place, params={"digest": digest}, content=content).raise_for_status()
            layer = {"mediaType": "application/octet-stream", "digest": digest, "size": len(content)}
            layers.append(layer | {"annotations": {"org.opencontainers.image.title": title}} if title else layer)
        kind = "application/vnd.oci.image.manifest.v1+json"
        manifest = {"schemaVersion": 2, "mediaType": kind, "config": layers.pop(), "layers": layers}
        raw = json.dumps(manifest).encode()
        put = client.put("/v2/team/model/manifests/v1", content=raw, headers={"Content-Type": kind})
        put.raise_for_status()
        address = f"oci{url.removeprefix('http')}/team/model"
        for version in (":v1", f"@sha256:{hashlib.sha256(raw).hexdigest()}"):
            assert read_all(f"{address}{version}#a/w.sealed") == PLAINTEXT
            store = store_of(f"{address}{version}", patience=hasty())
            assert store.read_small("sealed.json", 9) == b"{}"
            store.close()
        assert code_of(lambda: store_of(f"{address}:none", patience=hasty())) == "not-found"
        assert code_of(lambda: store_of(f"{address}x:v1", patience=hasty())) == "not-found"
