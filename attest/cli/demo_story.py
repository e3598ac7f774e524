"""The story that ``attest demo`` tells: each step says what it proves, and what does not come out is told too."""

from __future__ import annotations

import json
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import click
import httpx
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from attest.checks import Unchecked
from attest.cli.demo_gpus import GPUS, GpuMachine
from attest.cli.demo_machines import Machine, SnpMachine, TdxMachine, both_machines, facts_of
from attest.cli.demo_service import Service, run_kms, running_service
from attest.cli.files import read_file, walk_endorsements
from attest.encoding import JsonValue, json_value
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.errors import AttestError, EndorsementError
from attest.evidence.endorsement_files import MAX_FILE_BYTES as MAX_ENDORSEMENT_BYTES
from attest.evidence.endorsement_files import read_endorsements
from attest.evidence.envelope import Evidence
from attest.evidence.input_files import read_evidence
from attest.evidence.recognition import MAX_FILE_BYTES
from attest.release.client import Attester, KeyReleaseClient, ReleaseRefusedError
from attest.release.notes import VerifierKey
from attest.terminal.visible_text import visible
from attest.verification import ExpectedFreshness, VerifiedEvidence, verify

__all__ = ["tell"]

KEY_ID = "demo-model"
GPU_KEY_ID = "demo-gpu-model"
ORIGIN = "kms.demo/simulated"
SECRET_TEXT = b"These are the weights of a model that nobody may copy: 0.1875 -0.4375 0.8125"
NO_CRL = Unchecked(check="revocation", reason="the demonstration uses no network, and no current CRL was given")
NO_TCB = Unchecked(check="tcb", reason="the demonstration uses no network, and no current TCB info was given")
_DEMO_SECONDS = 20.0
_LABEL_COLUMNS = 9


@dataclass(slots=True)
class Narrator:
    """Prints the story, and remembers whether every step came out as it should."""

    colour: bool
    failed: list[str] = field(default_factory=list)
    _steps: int = 0
    _about: str = ""

    def title(self, text: str) -> None:
        """Begin a part."""
        self._steps += 1
        self._print("")
        self._print(self._style(f"{self._steps}. {text}", bold=True))

    @contextmanager
    def about(self, machine: str) -> Iterator[None]:
        """Put the name of a machine in front of every line of a block."""
        self._about = f"{machine:{_LABEL_COLUMNS}}"
        try:
            yield
        finally:
            self._about = ""

    def tell(self, text: str) -> None:
        """Say something that is no outcome."""
        self._print(f"   {self._about}  {visible(text)}")

    def good(self, text: str) -> None:
        """Tell an outcome that is as it should be."""
        self._print(f"   {self._about}{self._style(self._sign('✓', 'ok'), fg='green')} {visible(text)}")

    def bad(self, text: str) -> None:
        """Tell an outcome that is not."""
        self.failed.append(f"{self._about}{text}")
        self._print(f"   {self._about}{self._style(self._sign('✗', 'NOT AS EXPECTED:'), fg='red')} {visible(text)}")

    @contextmanager
    def refusal(self, what: str, code: str, *, check: str = "") -> Iterator[None]:
        """Expect that a block is refused with this code, by this check; tell why, in the words of the refusal."""
        try:
            yield
        except AttestError as exc:
            told = f"{what}: REFUSED, {exc.code}: {_first(exc)}"
            if exc.code == code and check in _first(exc):
                self.good(told)
            else:
                self.bad(f"{told} (expected {code} {check})")
        else:
            self.bad(f"{what}: accepted, and should have been refused")

    def _sign(self, sign: str, words: str) -> str:
        encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
        return sign if encoding.startswith("utf") else words

    def _style(self, text: str, **style: object) -> str:
        return click.style(text, **style) if self.colour else text  # type: ignore[arg-type]  # click's own names

    def _print(self, text: str) -> None:
        click.echo(text)
        sys.stdout.flush()


def _first(error: AttestError) -> str:
    """Return the first failed check of a service's refusal; otherwise the message."""
    checks: list[JsonValue] = list(error.failed_checks) if isinstance(error, ReleaseRefusedError) else []
    check = checks[0] if checks else None
    if not isinstance(check, dict):
        return error.message
    # What was expected and found is told of keys that disclose it (docs/releases.md).
    found = f": expected {check['expected']}, got {check['got']}" if {"expected", "got"} <= check.keys() else ""
    return f"{check.get('id')}{found}"


def tell(evidence: tuple[str, ...], *, endorsements: tuple[str, ...], at: datetime, now: datetime, colour: bool) -> int:
    """Tell the story and return 0, or 1 when a step did not come out as it should.

    Raises:
        ConfigurationError: a file cannot be read, or ``kms`` is not installed or does not start.
    """
    began = time.monotonic()
    terminal = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    out = Narrator(colour=colour and terminal)
    click.echo(
        "*** SIMULATED hardware: the programs are real, the machines are not, and nothing is proven about one ***"
    )
    machines = snp, tdx = both_machines()
    if evidence:
        _given_evidence(out, evidence, endorsements=endorsements, at=at)
    _simulated_evidence(out, snp, tdx, at=now)
    with tempfile.TemporaryDirectory(prefix="attest-demo-") as name:
        _release(out, machines, snp, folder=Path(name), at=now)
    if not Path(name).exists():
        out.good("the service is stopped, and its files are removed")
    return _closing(out, seconds=time.monotonic() - began)


def _closing(out: Narrator, *, seconds: float) -> int:
    click.echo("")
    if out.failed:
        click.echo(f"{len(out.failed)} steps did not come out as they should ({seconds:.1f} s)")
        return 1
    click.echo(f"Everything came out as it should ({seconds:.1f} s). SIMULATED hardware: see docs/getting-started.md")
    return 0


# -- 1: is it genuine?


def _given_evidence(out: Narrator, files: tuple[str, ...], *, endorsements: tuple[str, ...], at: datetime) -> None:
    out.title("Your evidence: made by the vendor's hardware?")
    found = walk_endorsements(endorsements, limit=MAX_ENDORSEMENT_BYTES, warn=out.tell)
    pool = read_endorsements(found, at=at).endorsements
    for file in files:
        data = read_file(file, limit=MAX_FILE_BYTES, what="EVIDENCE")
        try:
            verified, relaxed = _verify_given(file, data, pool, at=at)
        except AttestError as exc:
            out.bad(f"{file}: REFUSED, {exc.code}: {exc.message}")
            continue
        out.good(f"{file}: VERIFIED under the vendor's root")
        _tell_claims(out, verified)
        for unchecked in relaxed:
            out.tell(f"UNCHECKED {unchecked.check}: {unchecked.reason}")


def _verify_given(
    file: str, data: bytes, pool: Endorsements, *, at: datetime
) -> tuple[VerifiedEvidence, tuple[Unchecked, ...]]:
    """Verify somebody's evidence under the vendors' anchors; what nobody gave is left out by name, not fetched."""
    evidence = read_evidence([(file, data)]).evidence
    for unchecked in ((), (NO_CRL,)):
        try:
            return _verify(evidence, pool, at=at, unchecked=unchecked), unchecked
        except EndorsementError:
            continue
    return _verify(evidence, pool, at=at, unchecked=(NO_CRL, NO_TCB)), (NO_CRL, NO_TCB)


def _verify(
    evidence: Evidence, pool: Endorsements, *, at: datetime, unchecked: tuple[Unchecked, ...]
) -> VerifiedEvidence:
    return verify(evidence, endorsements=pool, anchors=TrustAnchors.vendors(), at=at, unchecked=unchecked)


def _simulated_evidence(out: Narrator, snp: SnpMachine, tdx: TdxMachine, *, at: datetime) -> None:
    out.title("Two machines, simulated: is their evidence genuine, and the answer to my question?")
    for machine in (snp, tdx):
        with out.about(machine.label):
            _genuine_and_not(out, machine, at=at)
    with out.about(tdx.label), out.refusal("an event log of another boot", "eventlog-register-mismatch"):
        judge = _Judge(machine=tdx, nonce=secrets.token_bytes(32), at=at)
        judge.verify(tdx.with_log_of_another_boot(judge.honest()))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judge:
    """Asks one machine one question."""

    machine: Machine
    nonce: bytes
    at: datetime

    def honest(self) -> Evidence:
        """Return the machine's answer."""
        return self.machine.evidence(self.nonce.ljust(64, b"\0"))

    def verify(
        self, evidence: Evidence, *, anchors: TrustAnchors | None = None, nonce: bytes | None = None
    ) -> VerifiedEvidence:
        """Verify evidence as the answer to this question, by default in the laboratory."""
        return verify(
            evidence,
            endorsements=self.machine.endorsements(self.at),
            anchors=anchors or TrustAnchors.simulation(),
            at=self.at,
            expected=ExpectedFreshness(nonce=nonce or self.nonce),
        )


def _genuine_and_not(out: Narrator, machine: Machine, *, at: datetime) -> None:
    judge = _Judge(machine=machine, nonce=secrets.token_bytes(32), at=at)
    honest = judge.honest()
    verified = judge.verify(honest)
    out.good(f"{machine.form}: VERIFIED, {len(verified.checks)} checks, freshness {verified.freshness}")
    _tell_claims(out, verified)
    with out.refusal("one bit of the measurement changed", machine.forgery_code):
        judge.verify(machine.forged(honest))
    with out.refusal("the same evidence, asked with another nonce", "nonce-mismatch"):
        judge.verify(honest, nonce=secrets.token_bytes(32))
    with out.refusal("the same evidence, without --allow-simulated", "simulated-root-refused"):
        judge.verify(honest, anchors=TrustAnchors.vendors())


def _tell_claims(out: Narrator, verified: VerifiedEvidence) -> None:
    for item in verified.items:
        for fact in facts_of(item.claims):
            out.tell(f"  {fact}")


# -- 2 to 4: the key


def _release(out: Narrator, machines: Sequence[Machine], snp: SnpMachine, *, folder: Path, at: datetime) -> None:
    out.title("A model owner encrypts a model, and gives its key to a key-release service")
    sealed = _owner(out, machines, folder=folder, at=at)
    with running_service(folder / "kms" / "kms.toml", endorsements=folder / "endorsements", folder=folder) as service:
        out.good(f"kms serve listens on {service.url}")
        out.tell(f"  workloads know it by its key: {service.identity}")
        with httpx.Client(base_url=service.url, trust_env=False, timeout=_DEMO_SECONDS) as http:
            story = _Workloads(out=out, http=http, service=service, at=at)
            story.honest(machines, sealed)
            story.refused(machines)
            story.gpus(GpuMachine.beside(snp))


def _owner(out: Narrator, machines: Sequence[Machine], *, folder: Path, at: datetime) -> bytes:
    """Encrypt the model, set the service up, import the key; return the encrypted model."""
    key = AESGCM.generate_key(256)
    iv = secrets.token_bytes(12)
    sealed = iv + AESGCM(key).encrypt(iv, SECRET_TEXT, KEY_ID.encode())
    out.good(f"model.enc: {len(sealed)} bytes of AES-256-GCM; without the key: {sealed[:20].hex()}...")
    (folder / "endorsements").mkdir()
    for machine in machines:
        for name, data in machine.endorsement_files(at).items():
            (folder / "endorsements" / name).write_bytes(data)
    policy, key_file = folder / "policy.json", folder / "model.key"
    policy.write_text(json.dumps(_policy(machines)))
    descriptor = os.open(key_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(key)
    run_kms(["init", str(folder / "kms"), "--origin", ORIGIN, "--allow-simulated"])
    config = ["--config", str(folder / "kms" / "kms.toml")]
    run_kms(["key", "import", KEY_ID, "--from", str(key_file), "--policy", str(policy), *config])
    key_file.unlink()
    _import_gpu_key(machines, folder=folder, config=config, at=at)
    out.good("kms init, kms key import: from here on only the service has the key, wrapped on its disk")
    out.good("one policy for both machines; each is judged by the section of its kind")
    for machine in machines:
        with out.about(machine.label):
            out.tell(f"only measurement {machine.measurement.hex()}")
            out.tell(machine.policy()[2])
    return sealed


def _import_gpu_key(machines: Sequence[Machine], *, folder: Path, config: list[str], at: datetime) -> None:
    """Import a key of its own for the guest with GPUs, under a policy of its own."""
    machine = next(GpuMachine.beside(machine) for machine in machines if isinstance(machine, SnpMachine))
    (folder / "endorsements" / "nvidia.bundle").write_bytes(machine.endorsement_file(at))
    policy, key_file = folder / "gpu-policy.json", folder / "gpu.key"
    policy.write_text(machine.policy(GPU_KEY_ID))
    with os.fdopen(os.open(key_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(AESGCM.generate_key(256))
    run_kms(["key", "import", GPU_KEY_ID, "--from", str(key_file), "--policy", str(policy), *config])
    key_file.unlink()


def _policy(machines: Sequence[Machine]) -> dict[str, JsonValue]:
    sections: dict[str, JsonValue] = {name: section for name, section, _ in (machine.policy() for machine in machines)}
    return {
        "schema": "attest.policy/1",
        "name": KEY_ID,
        "version": 1,
        "simulated": {"unchecked": "attest demo runs on simulated hardware"},
        "reference_values": {
            f"{machine.policy()[0]}-workload": {"values": [machine.measurement.hex()], "origin": "attest demo"}
            for machine in machines
        },
        **sections,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Workloads:
    """Workloads that come to the service, honest ones and others."""

    out: Narrator
    http: httpx.Client
    service: Service
    at: datetime

    def honest(self, machines: Sequence[Machine], sealed: bytes) -> None:
        """Obtain the key and open the model."""
        self.out.title("The workload proves itself, and gets the key: on either machine")
        for machine in machines:
            with self.out.about(machine.label):
                self._honest(machine, sealed)

    def _honest(self, machine: Machine, sealed: bytes) -> None:
        try:
            released = self._obtain(machine)
        except AttestError as exc:
            self.out.bad(f"REFUSED, {exc.code}: {_first(exc)}")
            return
        self.out.good("challenge, evidence bound to it, to the service and to a one-time key: RELEASED")
        self.out.good(f"the receipt is signed by {self.service.identity.partition('+')[0]}, and names this exchange")
        opened = AESGCM(released).decrypt(sealed[:12], sealed[12:], KEY_ID.encode())
        if opened == SECRET_TEXT:
            self.out.good(f"model.enc decrypted in the workload: {opened.decode()!r}")
        else:
            self.out.bad("model.enc decrypts to something else")

    def refused(self, machines: Sequence[Machine]) -> None:
        """Try what must not work."""
        self.out.title("What does not get the key")
        for machine in machines:
            with self.out.about(machine.label):
                self._refused(machine)

    def _refused(self, machine: Machine) -> None:
        with self.out.refusal("another image on the same machine", "policy-not-met", check=machine.image_check):
            self._obtain(machine.with_other_image())
        with self.out.refusal("the right image on old firmware", "policy-not-met", check=machine.firmware_check):
            self._obtain(machine.with_old_firmware(self.at))
        with self.out.refusal("a recorded request sent a second time", "challenge-used"):
            self._replay(machine)

    def gpus(self, machine: GpuMachine) -> None:
        """Release a key to a guest with its GPUs, and not to another set of them."""
        self.out.title("One decision over a CPU and its GPUs")
        with self.out.about(machine.label):
            try:
                self._ask(GPU_KEY_ID, machine.bound)
            except AttestError as exc:
                self.out.bad(f"REFUSED, {exc.code}: {_first(exc)}")
            else:
                self.out.good(f"{GPUS} GPUs asked under the same challenge, the CPU's report commits to them: RELEASED")
            for what, attester, code in (
                ("one GPU left out of the evidence", machine.without_one, "binding-devices-mismatch"),
                ("one GPU shown twice", machine.with_one_twice, "gpu-device-repeated"),
                ("what the GPUs said to another challenge", machine.with_old_evidence, "device-nonce-mismatch"),
            ):
                with self.out.refusal(what, code):
                    self._ask(GPU_KEY_ID, attester)

    def _obtain(self, machine: Machine) -> bytes:
        return self._ask(KEY_ID, machine.bound)

    def _ask(self, key_id: str, attester: Attester) -> bytes:
        client = KeyReleaseClient(self.http, service=VerifierKey.parse(self.service.identity))
        (key,) = client.release((key_id,), attester=attester)
        return key.material

    def _replay(self, machine: Machine) -> None:
        """Record an honest exchange on the wire, and send its request again."""
        recorded: list[bytes] = []

        def record(request: httpx.Request) -> None:
            if request.url.path == "/v1/releases":
                recorded.append(request.read())

        hooks = self.http.event_hooks
        self.http.event_hooks = {"request": [record], "response": []}
        try:
            self._obtain(machine)
        finally:
            self.http.event_hooks = hooks
        answer = self.http.post("/v1/releases", content=recorded[0], headers={"Content-Type": "application/json"})
        if answer.status_code != httpx.codes.OK:
            document = json_value(answer.content, what="answer")
            problem = document if isinstance(document, dict) else {}
            raise ReleaseRefusedError(
                str(problem.get("detail")),
                code=str(problem.get("code")),
                status=answer.status_code,
                failed_checks=(),
            )
