"""Releases to guests of Confidential Containers: processor time of the service for one of them, and their rate.

A release is three requests on a kept connection: /auth, /attest and the resource of 32 bytes. Trustee, the peer, needed
1.8 to 2.0 ms of processor time with sample evidence and its storage in memory (437 releases a second on one
connection); it is not built here, so its time is a constant. Two guests are measured: a simulated SEV-SNP guest without
any policy in Rego, and a sample guest with a resource policy and an attestation policy.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from joserfc import jwt
from joserfc.jwk import OKPKey

from attest.encoding import base64url_text
from benchmarks.load import UNLIMITED, end, port_of, two_processors
from benchmarks.measure import Figure
from benchmarks.service import BenchedService, benched_service

_PEER_MS: Final = 2.0
_BAR: Final = 4.0
_BAR_REGO_MS: Final = 15.0
_BAR_RATE: Final = 100.0
_BAR_GROWTH_MB: Final = 2.0
_SESSIONS: Final = 100_000
_READINGS: Final = 20
"""Of the memory; the second is after a tenth of the sessions."""
_PATH: Final = "default/bench/key"
_POLICY: Final = """
schema: attest.policy/1
name: benchmark-guests
version: 1
simulated: {{unchecked: a benchmark}}
reference_values:
  image: {{values: ["{measurement}"], origin: the simulator}}
any_of:
  - name: sample
    sample: {{launch_digest: [abcde]}}
  - name: machine
    snp:
      products: [Genoa]
      measurement: [image]
      minimum_tcb: {{Genoa: {{bootloader: 9, tee: 0, snp: 26, microcode: 80}}}}
"""
_RULES: Final = """
policy = "guests.yaml"
[[administrators]]
keys = "administrators.pem"
role = "admin"
[[roles]]
role = "admin"
endpoints = ["^/kbs/v0/.*$"]
"""
_RESOURCE: Final = b'package policy\ndefault allow = false\nallow if data.plugin == "resource"\n'
_ATTESTATION: Final = b'package policy\nimport rego.v1\ntrust_claims := {"executables": 3, "hardware": 2}\n'
Json = Any


@dataclass
class _Guest:
    """A guest on one kept connection."""

    port: int
    tee: str
    evidence: Callable[[bytes], Json]
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def __post_init__(self) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", self.port)
        numbers = self.key.public_key().public_numbers()
        x, y = (base64url_text(number.to_bytes(32, "big")) for number in (numbers.x, numbers.y))
        self._jwk = {"kty": "EC", "crv": "P-256", "alg": "ECDH-ES+A256KW", "x": x, "y": y}

    def release(self) -> None:
        """Do the handshake, and read the resource."""
        request = {"version": "0.4.0", "tee": self.tee, "extra-params": ""}
        answer, cookie = self._send("POST", "auth", request)
        runtime = {"nonce": json.loads(answer)["nonce"], "tee-pubkey": self._jwk}
        committed = {**runtime, "additional-evidence": ""}
        digest = hashlib.sha384(json.dumps(committed, sort_keys=True, separators=(",", ":")).encode()).digest()
        evidence = {"primary_evidence": self.evidence(digest), "additional_evidence": ""}
        body = {"init-data": None, "runtime-data": runtime, "tee-evidence": evidence}
        _, cookie = self._send("POST", "attest", body, cookie)
        self._send("GET", f"resource/{_PATH}", None, cookie)

    def _send(self, method: str, path: str, body: Json, cookie: str = "") -> tuple[bytes, str]:
        content = None if body is None else json.dumps(body).encode()
        self._http.request(method, f"/kbs/v0/{path}", content, {"Cookie": cookie} if cookie else {})
        answer = self._http.getresponse()
        found = answer.read()
        if answer.status != http.HTTPStatus.OK:
            raise RuntimeError(f"{path}: {answer.status} {found.decode()}")
        return found, (answer.headers["Set-Cookie"] or "").partition(";")[0]


def kbs_release(*, rounds: int = 3, releases: int = 150) -> Figure:
    """Measure both guests; the figure is the service's processor time for one release as a multiple of the peer's."""
    with two_processors(), benched_service() as service:
        administrator = Ed25519PrivateKey.generate()
        _write_rules(service, administrator)
        with _served(service) as process:
            port = port_of(process)
            _administer(port, administrator, "POST", f"resource/{_PATH}", os.urandom(32))
            machine = _Guest(port, "snp", _snp(service))
            plain = _measured(process.pid, machine.release, rounds, releases)
            memory = _resident(process.pid)
            for where, more, policy in (
                ("resource-policy", {}, _RESOURCE),
                ("attestation-policy", {"type": "rego", "policy_id": "default_cpu"}, _ATTESTATION),
            ):
                body = json.dumps({**more, "policy": base64url_text(policy)}).encode()
                _administer(port, administrator, "POST", where, body)
            rego = _measured(process.pid, _Guest(port, "sample", _sample).release, rounds, releases)
            end(process)
    rate = f"{plain.rate:.0f} releases/s on one connection (bar {_BAR_RATE:.0f})"
    detail = (
        f"SEV-SNP without Rego {plain.processor_ms:.1f} ms of processor time, {rate}; sample with two policies in Rego "
        f"{rego.processor_ms:.1f} ms (bar {_BAR_REGO_MS:.0f}), {rego.rate:.0f}/s; resident {memory} MiB after "
        f"{rounds * releases} sessions, {plain.growth_kb:+d} KiB from the first round to the last; "
        f"Trustee {_PEER_MS} ms, as measured elsewhere"
    )
    return Figure(id="kbs-release", value=plain.processor_ms / _PEER_MS, bar=_BAR, better="lower", detail=detail)


def kbs_memory(*, sessions: int = _SESSIONS) -> Figure:
    """Measure how the service's resident memory grows over sessions of an SEV-SNP guest, from a tenth of them on.

    The first tenth fills everything that is bounded: caches, pools of connections, the allocator's own reserve.
    """
    with benched_service() as service:
        administrator = Ed25519PrivateKey.generate()
        _write_rules(service, administrator)
        with _served(service) as process:
            port = port_of(process)
            _administer(port, administrator, "POST", f"resource/{_PATH}", os.urandom(32))
            guest = _Guest(port, "snp", _snp(service))
            began, sizes = time.perf_counter(), [_resident_kb(process.pid)]
            for _ in range(_READINGS):
                for _ in range(sessions // _READINGS):
                    guest.release()
                sizes.append(_resident_kb(process.pid))
            seconds = time.perf_counter() - began
            end(process)
    settled = sizes[2]
    detail = (
        f"{sessions} sessions in {seconds:.0f} s; resident {sizes[0] >> 10} MiB at start, {settled >> 10} MiB after a "
        f"tenth; then after every {sessions // _READINGS}: {', '.join(str(size >> 10) for size in sizes[3:])}"
    )
    growth = (max(sizes[3:]) - settled) / 1024
    return Figure(id="kbs-memory-mb", value=growth, bar=_BAR_GROWTH_MB, better="lower", detail=detail)


@dataclass(frozen=True)
class _Measured:
    processor_ms: float
    rate: float
    growth_kb: int


def _measured(process: int, release: Callable[[], None], rounds: int, releases: int) -> _Measured:
    """Return the medians of the rounds, without the first releases, after which signatures are remembered."""
    for _ in range(20):
        release()
    times: list[tuple[float, float]] = []
    sizes: list[int] = []
    for _ in range(rounds):
        before, began = _processor_seconds(process), time.perf_counter()
        for _ in range(releases):
            release()
        passed = time.perf_counter() - began
        times.append(((_processor_seconds(process) - before) / releases * 1000, releases / passed))
        sizes.append(_resident_kb(process))
    processor, rate = (sorted(one[at] for one in times)[rounds // 2] for at in (0, 1))
    return _Measured(processor, rate, sizes[-1] - sizes[0])


def _served(service: BenchedService) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "kms", "serve", "--config", str(service.config), "--port", "0"]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=os.environ | UNLIMITED
    )


def _write_rules(service: BenchedService, administrator: Ed25519PrivateKey) -> None:
    folder = service.config.parent
    public = administrator.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / "administrators.pem").write_bytes(public)
    measurement = service.machines[0].guest.measurement.hex()
    (folder / "guests.yaml").write_text(_POLICY.format(measurement=measurement), encoding="utf-8")
    (folder / "kbs.toml").write_text(_RULES, encoding="utf-8")
    with service.config.open("a", encoding="utf-8") as file:
        file.write('kbs_file = "kbs.toml"\n')


def _administer(port: int, key: Ed25519PrivateKey, method: str, path: str, body: bytes) -> None:
    claims = {"exp": int(time.time()) + 600}
    token = jwt.encode({"alg": "EdDSA"}, claims, OKPKey.import_key(key), algorithms=["EdDSA"])
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request(method, f"/kbs/v0/{path}", body, {"Authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    if answer.status != http.HTTPStatus.OK:
        raise RuntimeError(f"{path}: {answer.status} {answer.read().decode()}")


def _sample(digest: bytes) -> Json:
    return {"svn": "1", "report_data": base64.b64encode(digest).decode()}


def _snp(service: BenchedService) -> Callable[[bytes], Json]:
    guest = service.machines[0].guest
    names = ("VCEK", "ASK", "ARK")
    certificates = zip(names, guest.chip.certificates(), strict=True)
    chain = [{"cert_type": name, "data": base64.b64encode(content).decode()} for name, content in certificates]

    def evidence(digest: bytes) -> Json:
        report = guest.report(digest.ljust(64, b"\0"))
        return {"attestation_report": base64.b64encode(report).decode(), "cert_chain": chain}

    return evidence


# -- the service's processes


def _processor_seconds(process: int) -> float:
    """Return the processor time of a process and of its descendants, those that ended included."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (folder / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
            parents[int(folder.name)] = int(fields[1])
            ticks[int(folder.name)] = sum(map(int, fields[11:15]))
    family = {process}
    while more := {one for one, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(ticks.get(one, 0) for one in family) / os.sysconf("SC_CLK_TCK")


def _resident(process: int) -> int:
    return _resident_kb(process) >> 10


def _resident_kb(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")))
