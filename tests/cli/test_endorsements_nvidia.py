"""Fetching what the evidence of a GPU needs, from services named on the command line."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from attest.clock import this_second
from attest_simulator.nvidia import NvidiaAnswer, SimulatedGpu, SimulatedNvidiaService
from tests.cli.conftest import Attest, Files

GPU = SimulatedGpu.of("gpu 0").device_item(bytes(range(32)))
LAB = ("--allow-simulated", "--nonce", bytes(range(32)).hex())


@pytest.fixture
def nvidia() -> Iterator[tuple[str, list[str]]]:
    """Simulated services of NVIDIA on the loopback address, and what was asked of them with which key."""
    asked: list[str] = []
    service = SimulatedNvidiaService.of(this_second())

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(service.answer(self.path))

        def do_POST(self) -> None:
            self._send(service.answer_ocsp(self.rfile.read(int(self.headers["Content-Length"]))))

        def _send(self, answer: NvidiaAnswer) -> None:
            asked.append(self.headers.get("Authorization", ""))
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.loopback
def test_a_bundle_for_a_gpu_is_fetched_with_a_key_and_used(
    attest: Attest, files: Files, nvidia: tuple[str, list[str]]
) -> None:
    url, asked = nvidia
    gpu, key = files.write("gpu.json", GPU), files.write("key", b"nvapi-secret\n")
    services = ("--rim-url", url, "--ocsp-url", url, "--cache", "cache")
    ran = attest("endorsements", "fetch", gpu, *services, "--nvidia-service-key", key, "-o", "bundle")
    assert (ran.code, "nvidia-rim from" in ran.out, "nvidia-ocsp from" in ran.out) == (0, True, True)
    assert asked == ["Bearer nvapi-secret"] * 8
    assert "nvapi-secret" not in ran.out + ran.err
    assert attest("verify", gpu, *LAB, "--offline", "-q").code == 5
    assert attest("verify", gpu, *LAB, "--endorsements", "bundle", "--offline", "-q").code == 0
    assert attest("verify", gpu, *LAB, *services, "-q").code == 0
    assert len(asked) == 8


@pytest.mark.parametrize(
    "options",
    [
        ("--rim-url", "http://rim.example"),
        ("--ocsp-url", "http://ocsp.example"),
        ("--nvidia-service-key", "absent"),
        ("--nvidia-service-key", "gpu.json"),
    ],
)
def test_services_and_keys_that_are_none_are_exit_2(attest: Attest, files: Files, options: tuple[str, str]) -> None:
    gpu = files.write("gpu.json", GPU)
    ran = attest("endorsements", "fetch", gpu, "--cache", "cache", *options, "-o", "bundle")
    assert (ran.code, "error:" in ran.err) == (2, True)
    assert GPU.decode()[:40] not in ran.err
