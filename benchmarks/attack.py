"""The service while it is attacked: the time of honest releases against that of a quiet service.

One worker serves over TLS, with the limits that it has by default. An honest client on 127.0.0.1 sends a release after
the other; each attack comes from a process of its own, from 127.0.0.2, and lasts until the honest client is done.
Attackers, honest client and service share two processors, so that what an attacker computes counts against the service.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import ssl
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from attest.clock import system_clock
from benchmarks.load import end, port_of, two_processors
from benchmarks.measure import Figure
from benchmarks.sending import Load, post, send_all
from benchmarks.service import BenchedService, benched_service

_ATTACKER = "127.0.0.2"
_BAR = 3.0
_RECOVERY_SECONDS = 1.0
_READY_SECONDS = 2.0
"""After an attack begins, until honest releases are timed."""

Attack = Callable[[int], Coroutine[None, None, None]]


def kms_under_attack(*, requests: int = 200, rounds: int = 3) -> Figure:
    """Measure each attack between quiet series; the figure is the worst ratio of the 99th percentiles."""
    with two_processors(), benched_service() as service, _served(service) as (port, worker):
        _honest(service, port, 40)
        lines, worst = [], 0.0
        for name in ATTACKS:
            ratio, line = _measured(name, service, port, requests=requests, rounds=rounds)
            lines.append(f"{line}, memory {_memory(worker)} MiB")
            worst = max(worst, ratio)
    return Figure(id="kms-under-attack", value=worst, bar=_BAR, better="lower", detail="\n# ".join(lines))


def _measured(name: str, service: BenchedService, port: int, *, requests: int, rounds: int) -> tuple[float, str]:
    quiet, attacked, after = list[Load](), list[Load](), list[Load]()
    for _ in range(rounds):
        quiet.append(_honest(service, port, requests))
        with _attacked(name, port):
            time.sleep(_READY_SECONDS)
            attacked.append(_honest(service, port, requests))
        time.sleep(_RECOVERY_SECONDS)
        after.append(_honest(service, port, requests // 4))
    before, during, later = (
        statistics.median(load.percentile(0.99) for load in loads) * 1000 for loads in (quiet, attacked, after)
    )
    errors = sum(load.errors for load in attacked)
    ratio = during / before
    line = (
        f"{name}: p99 {during:.1f} ms, quiet {before:.1f} ms, ratio {ratio:.2f}, "
        f"{errors} errors of {rounds * requests}; {_RECOVERY_SECONDS:g} s later p99 {later:.1f} ms"
    )
    return ratio, line


def _honest(service: BenchedService, port: int, number: int) -> Load:
    ready = [post("/v1/releases", service.body()) for _ in range(number)]
    return send_all(ready, port=port, connections=1, tls=_client_context())


# -- the service


@contextmanager
def _served(service: BenchedService) -> Iterator[tuple[int, int]]:
    """Run one worker with TLS; give its port and its process."""
    certificate, key = _certificate(service.config.parent)
    command = [sys.executable, "-m", "kms", "serve", "--config", str(service.config), "--port", "0"]
    tls = {"KMS_TLS_CERTIFICATE_FILE": str(certificate), "KMS_TLS_KEY_FILE": str(key)}
    one_chip = {"KMS_CHIP_RELEASES_PER_MINUTE": "0"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=os.environ | tls | one_chip
    ) as process:
        try:
            yield port_of(process), process.pid
        finally:
            end(process)


def _certificate(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bench")])
    at = system_clock()
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), at, at + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("bench")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate_file, key_file = folder / "bench.crt", folder / "bench.key"
    certificate_file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_file.touch(mode=0o600)
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate_file, key_file


def _client_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the benchmark measures time, and its server is its own child
    return context


def _memory(process: int) -> int:
    """Return the largest memory that a process has had, in MiB."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


# -- the attacks


@contextmanager
def _attacked(name: str, port: int) -> Iterator[None]:
    process = multiprocessing.get_context("spawn").Process(target=_attack, args=(name, port), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join()


def _attack(name: str, port: int) -> None:
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(ATTACKS[name](port))


async def _connected(port: int, *, tls: bool = True) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(
        "127.0.0.1", port, local_addr=(_ATTACKER, 0), ssl=_client_context() if tls else None
    )


async def _again_and_again(one: Callable[[], Awaitable[None]], lanes: int) -> None:
    """Repeat an attack in so many lanes; a refused connection waits a moment."""

    async def lane() -> None:
        while True:
            try:
                await one()
            except (OSError, EOFError):
                await asyncio.sleep(0.02)

    await asyncio.gather(*(lane() for _ in range(lanes)))


def _posting(body: bytes, lanes: int = 4) -> Attack:
    """Return an attack that posts one body as often as the service answers."""

    async def attack(port: int) -> None:
        request = post("/v1/releases", body)

        async def one() -> None:
            reader, writer = await _connected(port)
            try:
                while True:
                    writer.write(request)
                    await writer.drain()
                    head = (await reader.readuntil(b"\r\n\r\n")).lower()
                    await reader.readexactly(int(head.partition(b"content-length:")[2].partition(b"\r\n")[0]))
            finally:
                writer.transport.abort()

        await _again_and_again(one, lanes)

    return attack


async def _unfinished_bodies(port: int) -> None:
    body = b"[" + b" " * ((2 << 20) - 2)

    async def one() -> None:
        reader, writer = await _connected(port)
        try:
            writer.write(post("/v1/releases", body + b"]")[:-1])
            await writer.drain()
            await reader.read(1)
        finally:
            writer.transport.abort()

    await _again_and_again(one, 60)


async def _unread_answers(port: int) -> None:
    request = b"GET /v1/log/checkpoint HTTP/1.1\r\nHost: bench\r\n\r\n"

    async def one() -> None:
        _, writer = await _connected(port)
        try:
            while True:
                writer.write(request * 100)
                await writer.drain()  # it never reads
        finally:
            writer.transport.abort()

    await _again_and_again(one, 16)


async def _open_handshakes(port: int) -> None:
    async def one() -> None:
        reader, writer = await _connected(port, tls=False)
        try:
            writer.write(b"\x16\x03\x01\x02\x00")
            await reader.read()
        finally:
            writer.transport.abort()

    await _again_and_again(one, 900)


async def _ambiguous_requests(port: int) -> None:
    request = (
        b"POST /v1/releases HTTP/1.1\r\nHost: bench\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"
    )

    async def one() -> None:
        reader, writer = await _connected(port)
        try:
            writer.write(request)
            await reader.read()
        finally:
            writer.transport.abort()

    await _again_and_again(one, 4)


ATTACKS: Mapping[str, Attack] = {
    "many members, one twice": _posting(b"{" + b",".join(b'"%d":0' % number for number in range(25_000)) + b',"0":1}'),
    "a list of 2 MiB": _posting(b"[" + b"0," * ((1 << 20) - 2) + b"0]"),
    "bodies that never end": _unfinished_bodies,
    "answers that are not read": _unread_answers,
    "handshakes that never end": _open_handshakes,
    "requests of two lengths": _ambiguous_requests,
}
