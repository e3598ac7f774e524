"""The story that ``attest demo`` tells: each step says what it proves, and what does not come out is told too."""

from __future__ import annotations

import json
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha384
from pathlib import Path

import click
import httpx
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from attest.checks import Unchecked
from attest.cli.demo_service import Service, run_kms, running_service
from attest.cli.files import read_file, walk_endorsements
from attest.cli.simulated import simulated_bundle
from attest.cli.text import visible
from attest.encoding import JsonValue, json_value
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.errors import AttestError, EndorsementError
from attest.evidence.binding import Binding
from attest.evidence.endorsement_files import MAX_FILE_BYTES as MAX_ENDORSEMENT_BYTES
from attest.evidence.endorsement_files import read_endorsements
from attest.evidence.envelope import MEDIA_BINDING, MEDIA_SNP_EXTENDED, Evidence, EvidenceItem
from attest.evidence.forms import read_evidence
from attest.evidence.recognition import MAX_FILE_BYTES
from attest.evidence.snp.tcb import SnpProduct, SnpTcbVersion
from attest.release.client import KeyReleaseClient, ReleaseRefusedError
from attest.release.notes import VerifierKey
from attest.simulator import SimulatedChip, SimulatedGuest, simulated_crl
from attest.verification import ExpectedFreshness, VerifiedEvidence, verify

__all__ = ["tell"]

KEY_ID = "demo-model"
ORIGIN = "kms.demo/simulated"
SECRET_TEXT = b"These are the weights of a model that nobody may copy: 0.1875 -0.4375 0.8125"
MINIMUM_TCB = SnpTcbVersion(bootloader=10, tee=0, snp=27, microcode=84)
OLD_TCB = SnpTcbVersion(bootloader=9, tee=0, snp=20, microcode=60)
NO_CRL = Unchecked(check="revocation", reason="the demonstration uses no network, and no current CRL was given")
_DEMO_SECONDS = 20.0


@dataclass(slots=True)
class Narrator:
    """Prints the story, and remembers whether every step came out as it should."""

    colour: bool
    failed: list[str] = field(default_factory=list)
    _steps: int = 0

    def title(self, text: str) -> None:
        """Begin a part."""
        self._steps += 1
        self._print("")
        self._print(self._style(f"{self._steps}. {text}", bold=True))

    def tell(self, text: str) -> None:
        """Say something that is no outcome."""
        self._print(f"   {visible(text)}")

    def good(self, text: str) -> None:
        """Tell an outcome that is as it should be."""
        self._print(f"   {self._style(self._sign('✓', 'ok'), fg='green')} {visible(text)}")

    def bad(self, text: str) -> None:
        """Tell an outcome that is not."""
        self.failed.append(text)
        self._print(f"   {self._style(self._sign('✗', 'NOT AS EXPECTED:'), fg='red')} {visible(text)}")

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
    return f"{check.get('id')}: expected {check.get('expected')}, got {check.get('got')}"


def tell(evidence: tuple[str, ...], *, endorsements: tuple[str, ...], at: datetime, now: datetime, colour: bool) -> int:
    """Tell the story and return 0, or 1 when a step did not come out as it should.

    Raises:
        ConfigurationError: a file cannot be read, or ``kms`` is not installed or does not start.
    """
    began = time.monotonic()
    terminal = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    out = Narrator(colour=colour and terminal)
    click.echo("*** SIMULATED hardware: the programs are real, the machine is not, and nothing is proven about one ***")
    workload = SimulatedGuest(
        chip=SimulatedChip.of(SnpProduct.GENOA, tcb=MINIMUM_TCB), measurement=sha384(b"attest demo, workload").digest()
    )
    if evidence:
        _given_evidence(out, evidence, endorsements=endorsements, at=at)
    _simulated_evidence(out, workload, at=now)
    with tempfile.TemporaryDirectory(prefix="attest-demo-") as name:
        _release(out, workload, folder=Path(name), at=now)
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
        if relaxed:
            out.tell(f"UNCHECKED revocation: {NO_CRL.reason}")


def _verify_given(file: str, data: bytes, pool: Endorsements, *, at: datetime) -> tuple[VerifiedEvidence, bool]:
    """Verify somebody's evidence under the vendors' anchors; without a current CRL, say so instead of fetching one."""
    evidence = read_evidence([(file, data)]).evidence

    def judge(unchecked: tuple[Unchecked, ...]) -> VerifiedEvidence:
        return verify(evidence, endorsements=pool, anchors=TrustAnchors.vendors(), at=at, unchecked=unchecked)

    try:
        return judge(()), False
    except EndorsementError:
        return judge((NO_CRL,)), True


def _simulated_evidence(out: Narrator, workload: SimulatedGuest, *, at: datetime) -> None:
    out.title("Simulated evidence: is it genuine, and the answer to my question?")
    nonce = secrets.token_bytes(32)
    report = workload.extended_report(nonce.ljust(64, b"\0"), crl=simulated_crl(workload.chip.product, at=at))
    judge = _judge(at=at, nonce=nonce)
    verified = judge(report, TrustAnchors.simulation())
    out.good(f"a report with its certificates: VERIFIED, {len(verified.checks)} checks, freshness {verified.freshness}")
    _tell_claims(out, verified)
    flipped = report[:0x90] + bytes([report[0x90] ^ 1]) + report[0x91:]
    with out.refusal("one bit of the measurement changed", "snp-signature-invalid"):
        judge(flipped, TrustAnchors.simulation())
    with out.refusal("the same report, asked with another nonce", "nonce-mismatch"):
        _judge(at=at, nonce=secrets.token_bytes(32))(report, TrustAnchors.simulation())
    with out.refusal("the same report, without --allow-simulated", "simulated-root-refused"):
        judge(report, TrustAnchors.vendors())


def _judge(*, at: datetime, nonce: bytes) -> Callable[[bytes, TrustAnchors], VerifiedEvidence]:
    def judge(data: bytes, anchors: TrustAnchors) -> VerifiedEvidence:
        return verify(
            read_evidence([("report", data)]).evidence,
            endorsements=Endorsements(),
            anchors=anchors,
            at=at,
            expected=ExpectedFreshness(nonce=nonce),
        )

    return judge


def _tell_claims(out: Narrator, verified: VerifiedEvidence) -> None:
    for item in verified.items:
        claims = item.claims
        tcb = claims.get("reported_tcb")
        levels = " ".join(f"{part} {level}" for part, level in tcb.items()) if isinstance(tcb, dict) else ""
        out.tell(f"  {item.kind} {claims.get('product')}, firmware {levels}")
        out.tell(f"  measurement {claims.get('measurement')}")


# -- 2 to 4: the key


def _release(out: Narrator, workload: SimulatedGuest, *, folder: Path, at: datetime) -> None:
    out.title("A model owner encrypts a model, and gives its key to a key-release service")
    sealed = _owner(out, workload, folder=folder, at=at)
    with running_service(folder / "kms" / "kms.toml", endorsements=folder / "endorsements", folder=folder) as service:
        out.good(f"kms serve listens on {service.url}")
        out.tell(f"  workloads know it by its key: {service.identity}")
        with httpx.Client(base_url=service.url, trust_env=False, timeout=_DEMO_SECONDS) as http:
            story = _Workloads(out=out, http=http, service=service, at=at)
            story.honest(workload, sealed)
            story.refused(workload)


def _owner(out: Narrator, workload: SimulatedGuest, *, folder: Path, at: datetime) -> bytes:
    """Encrypt the model, set the service up, import the key; return the encrypted model."""
    key = AESGCM.generate_key(256)
    iv = secrets.token_bytes(12)
    sealed = iv + AESGCM(key).encrypt(iv, SECRET_TEXT, KEY_ID.encode())
    out.good(f"model.enc: {len(sealed)} bytes of AES-256-GCM; without the key: {sealed[:20].hex()}...")
    (folder / "endorsements").mkdir()
    (folder / "endorsements" / "chip.endorsements").write_bytes(simulated_bundle(workload.chip, at=at, days=1))
    policy, key_file = folder / "policy.json", folder / "model.key"
    policy.write_text(json.dumps(_policy(workload)))
    descriptor = os.open(key_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(key)
    run_kms(["init", str(folder / "kms"), "--origin", ORIGIN, "--allow-simulated"])
    config = ["--config", str(folder / "kms" / "kms.toml")]
    run_kms(["key", "import", KEY_ID, "--from", str(key_file), "--policy", str(policy), *config])
    key_file.unlink()
    out.good("kms init, kms key import: from here on only the service has the key, wrapped on its disk")
    out.tell(f"  policy: only measurement {workload.measurement.hex()}")
    out.tell(f"  policy: only {workload.chip.product} with firmware of at least {MINIMUM_TCB}")
    return sealed


def _policy(workload: SimulatedGuest) -> dict[str, JsonValue]:
    product = str(workload.chip.product)
    return {
        "schema": "attest.policy/1",
        "name": KEY_ID,
        "version": 1,
        "simulated": {"unchecked": "attest demo runs on simulated hardware"},
        "reference_values": {"workload": {"values": [workload.measurement.hex()], "origin": "attest demo"}},
        "snp": {
            "products": [product],
            "measurement": ["workload"],
            "minimum_tcb": {product: {**MINIMUM_TCB.components()}},
        },
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Workloads:
    """Workloads that come to the service, one honest and three that are not."""

    out: Narrator
    http: httpx.Client
    service: Service
    at: datetime

    def honest(self, workload: SimulatedGuest, sealed: bytes) -> None:
        """Obtain the key and open the model."""
        self.out.title("The workload proves itself, and gets the key")
        try:
            released = self._obtain(workload)
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

    def refused(self, workload: SimulatedGuest) -> None:
        """Try what must not work."""
        self.out.title("What does not get the key")
        other = replace(workload, measurement=sha384(b"attest demo, another image").digest())
        with self.out.refusal("another image on the same machine", "policy-not-met", check="policy.snp.measurement"):
            self._obtain(other)
        old = replace(workload, chip=SimulatedChip.of(workload.chip.product, tcb=OLD_TCB))
        with self.out.refusal("the right image on old firmware", "policy-not-met", check="policy.snp.minimum_tcb"):
            self._obtain(old)
        with self.out.refusal("a recorded request sent a second time", "challenge-used"):
            self._replay(workload)

    def _obtain(self, workload: SimulatedGuest) -> bytes:
        client = KeyReleaseClient(self.http, service=VerifierKey.parse(self.service.identity))
        (key,) = client.release((KEY_ID,), attester=self._attester(workload))
        return key.material

    def _replay(self, workload: SimulatedGuest) -> None:
        """Record an honest exchange on the wire, and send its request again."""
        recorded: list[bytes] = []

        def record(request: httpx.Request) -> None:
            if request.url.path == "/v1/releases":
                recorded.append(request.read())

        hooks = self.http.event_hooks
        self.http.event_hooks = {"request": [record], "response": []}
        try:
            self._obtain(workload)
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

    def _attester(self, workload: SimulatedGuest) -> Callable[[Binding], Evidence]:
        def attest(binding: Binding) -> Evidence:
            report = workload.extended_report(binding.report_data())
            return Evidence(
                items=(
                    EvidenceItem(name="cpu", media_type=MEDIA_SNP_EXTENDED, value=report),
                    EvidenceItem(name="binding", media_type=MEDIA_BINDING, value=binding.to_bytes()),
                )
            )

        return attest
