"""Coverage-guided fuzzing of everything that reads a stranger's bytes.

::

    python -m tests.fuzz.run [--seconds N] [TARGET …]

Each target runs for N seconds in a process of its own (atheris wants that), forked from one that has loaded everything.
An input that raises anything undocumented, or that takes longer than 10 seconds, ends the run with exit code 1 and is
kept under ``tests/fuzz/crashes``. Seeds are simulated evidence, so that the fuzzer starts behind the first length
check.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import secrets
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType
from typing import NoReturn

from cryptography.hazmat.primitives.serialization import Encoding
from safetensors.numpy import save as save_tensors

from attest.channel.bhttp import encode_request, encode_response
from attest.channel.chunked import ChunkSealer
from attest.channel.config import KeyDocument, choose, parse_key_document
from attest.channel.ohttp import MessageForm, begin_sealing
from attest.channel.records import KeyOffer
from attest.channel.replays import Use
from attest.encoding import json_value
from attest.endorsements.anchors import TrustAnchors, read_anchor_file
from attest.endorsements.ocsp_answers import parse_ocsp
from attest.endorsements.rims import RimDocument
from attest.endorsements.x509 import parse_certificate, parse_crl
from attest.errors import AttestError
from attest.evidence.attachment.committed_data import committed_data_bytes, parse_committed_data
from attest.evidence.attachment.uvm_endorsement import parse_uvm_endorsement
from attest.evidence.binding import parse_binding
from attest.evidence.endorsement_files import read_endorsements
from attest.evidence.envelope import parse_envelope
from attest.evidence.eventlog.facts import facts_of
from attest.evidence.eventlog.kinds import TCG2_SHA256
from attest.evidence.eventlog.replay import replay, verify_event_log
from attest.evidence.eventlog.structure import ParsedEventLog, parse_event_log
from attest.evidence.gpu.evidence import parse_nvidia_device
from attest.evidence.gpu.rim import read_rim
from attest.evidence.gpu.structure import parse_report as parse_gpu_report
from attest.evidence.input_files import read_evidence
from attest.evidence.intel.quote import parse_quote
from attest.evidence.snp.certificate_table import parse_certificate_table
from attest.evidence.snp.structure import parse_report
from attest.measure import PageOrder, parse_launch_endorsement, parse_vm_config
from attest.measure.acpi_tables import table_loader
from attest.measure.linux_image import authenticode_sha384, patched_kernel
from attest.measure.td_hob import td_hob
from attest.measure.tdvf import mr_td, parse_tdvf
from attest.policy import load_policy
from attest.policy.decoder import RelaxedDemand
from attest.policy.document import MAX_POLICY_BYTES
from attest.policy.reference_values.corim import parse_corim
from attest.policy.reference_values.corim_import import references_from_corim
from attest.policy.reference_values.reference_documents import (
    ReferenceEntry,
    make_reference_document,
    read_reference_document,
    reference_json,
)
from attest.receipts import parse_receipt, parse_receipt_file, parse_statement, verify_receipt
from attest.rego import read_rego_policy
from attest.results.jose import read_jwks
from attest.results.service_token import verify_service_token
from attest.results.token_roots import read_token_roots
from attest.sealed import SealedReader, key_from_tink, tink_keyset
from attest.verification import verify
from attest_simulator.azure.containers import uvm_endorsement
from attest_simulator.intel import SimulatedPlatform, SimulatedTd
from attest_simulator.nvidia import SimulatedBoard
from attest_simulator.tpm_log import startup_locality, typical_tpm_boot, write_tpm_log
from tests.channel.support import ASK, SAID, offer_of
from tests.channel.support import Service as ChannelService
from tests.channel.whole_messages import decode_request, decode_response
from tests.evidence.attachment.wild import FORMS
from tests.fuzz.bodies import INTERNAL, Service, open_harness
from tests.kms.support import Harness
from tests.measure.made import BOOT_VOLUME, EXTEND, OVMF_MEMORY, acpi_tables, firmware, kernel
from tests.measure.made_endorsements import endorsement
from tests.policy.corim_made import amd, intel, launch_measurement
from tests.receipts.machine import Machine, expectation
from tests.results import services
from tests.results.token_chains import GOOD, ROOTS, SIGNER, encoded
from tests.samples import AT, binding, bound_evidence, scene
from tests.sealed.segments import AAD, KEY, MemorySource, sealed
from tests.sealed_access import strangers

SECONDS = 30
CRASHES = Path(__file__).parent / "crashes"
HONEST = scene()
PLATFORM = SimulatedPlatform.of("fuzz")
TD = SimulatedTd(platform=PLATFORM)
BOARD = SimulatedBoard.of("fuzz")
GPU, SWITCH = BOARD.gpus[0], BOARD.switches[0]
DEVICES = BOARD.endorsements(at=AT)
POOL = HONEST.endorsements.merged(PLATFORM.collateral("tdx", at=AT).endorsements()).merged(DEVICES)
REFERENCES = make_reference_document(
    name="fuzz",
    version=1,
    origin="fuzz",
    issued=AT,
    expires=RelaxedDemand(reason="fuzz"),
    entries={
        kind: ReferenceEntry(kind=kind, values=(bytes(48),)) for kind in ("snp-measurement", "tdx-mr-td", "tdx-rtmr0")
    },
)


def _verify(data: bytes) -> None:
    verify(
        read_evidence([("input", data)]).evidence,
        endorsements=POOL,
        anchors=TrustAnchors.simulation(),
        at=AT,
    )


def _tpm_log(data: bytes) -> ParsedEventLog:
    return parse_event_log(data, kind=TCG2_SHA256)


TRUSTED = {str(claims["iss"]): services.SERVICE.keys() for claims in services.SAMPLES.values()}


def _token(data: bytes, *, audience: str | None = None) -> None:
    verify_service_token(data, trusted=TRUSTED, roots=ROOTS, at=services.AT, nonce=services.NONCE, audience=audience)


def _token_claims(data: bytes) -> None:
    """Read claims behind a signature that holds, which no fuzzer would find."""
    audience = "https://kms.example" if b'"aud"' in data else None
    _token(services.SERVICE.sign(data.decode(errors="replace")), audience=audience)


def _tdvf(data: bytes) -> None:
    tdvf = parse_tdvf(data, name="firmware")
    td_hob(tdvf, 4 << 30)
    mr_td(tdvf, PageOrder.BY_SECTION)


def _kernel(data: bytes) -> None:
    authenticode_sha384(patched_kernel(data, initrd_size=4096, memory=4 << 30, name="kernel"), name="kernel")


@cache
def _scratch() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()  # gone when the process ends


@cache
def _service() -> Service:
    """Make the key service. Its random numbers are those of every run, so that a seed's challenge is its own."""
    return Service(open_harness(Path(_scratch().name)))


def _body(data: bytes) -> None:
    """Send a body; a challenge that a decision used up is forgotten, or the fuzzer would get no further."""
    status, answer, _ = _service().send(data)
    if status == INTERNAL:
        raise RuntimeError(answer)
    if status in _DECIDED:
        _forget_used_challenges(_service().harness)


def _forget_used_challenges(harness: Harness) -> None:
    """Use a challenge of the far future, with which the service forgets those that ended; an edit by SQL is refused."""
    later = harness.clock() + timedelta(days=1)
    with harness.services.store.writing() as tx:
        tx.nonces.use(secrets.token_bytes(32), expires_at=later, at=later + timedelta(days=1))


_SEALED = bytes(sealed(b"a small sealed file"))


def _sealed_file(data: bytes) -> None:
    """Open a sealed file; one alone is accepted, and only with its own content."""
    with SealedReader(MemorySource(data), key=KEY, associated_data=AAD) as reader:
        if data != _SEALED or reader.read(0, reader.size) != b"a small sealed file":
            msg = "a forged file was opened"
            raise RuntimeError(msg)


class _Forgetful:
    """A replay window that knows nothing: the fuzzer sends more than any remembers."""

    shared = True

    def use(self, digest: bytes, *, at: datetime, until: datetime) -> Use:
        """Take every request for a first one."""
        del digest, at, until
        return Use.FIRST


@cache
def _channel() -> ChannelService:
    return ChannelService(options={"replays": _Forgetful()})


def _channel_document() -> KeyDocument:
    return _channel().key.document


def _channel_message(data: bytes) -> None:
    """Send a message inside the encryption, which no fuzzer would get through."""
    sealing = begin_sealing(choose(_channel_document()), MessageForm.SINGLE)
    _channel().receive(sealing.prefix + sealing.context.seal(data), form=MessageForm.SINGLE)


def _channel_chunks(data: bytes) -> None:
    """Send any bytes behind a key that is found and a first chunk that opens."""
    sealing = begin_sealing(choose(_channel_document()), MessageForm.CHUNKED)
    first = ChunkSealer(sealing.context).piece(encode_request(ASK)[:20])
    _channel().receive(sealing.prefix + first + data, step=50)


_DECIDED = frozenset({200, 400, 403})

TARGETS: dict[str, Callable[[bytes], object]] = {
    "report": parse_report,
    "table": parse_certificate_table,
    "certificate": parse_certificate,
    "crl": parse_crl,
    "envelope": parse_envelope,
    "binding": parse_binding,
    "quote": parse_quote,
    "eventlog": parse_event_log,
    "tpm-log": lambda data: facts_of(verify_event_log(log := _tpm_log(data), signed=replay(log).values)),
    "gpu-report": parse_gpu_report,
    "gpu-device": parse_nvidia_device,
    "rim": lambda data: read_rim(RimDocument(xml=data)),
    "ocsp": parse_ocsp,
    "forms": lambda data: read_evidence([("input", data)]),
    "uvm-endorsement": parse_uvm_endorsement,
    "committed-data": parse_committed_data,
    "endorsements": lambda data: read_endorsements([("input", data)], at=AT),
    "anchors": lambda data: read_anchor_file(data, base=TrustAnchors.vendors()),
    "corim": lambda data: references_from_corim(parse_corim(data), at=AT),
    "references": read_reference_document,
    "rego": read_rego_policy,
    "tdvf": _tdvf,
    "kernel": _kernel,
    "acpi-tables": table_loader,
    "launch-endorsement": parse_launch_endorsement,
    "vm-config": parse_vm_config,
    "policy": lambda data: load_policy(data[:MAX_POLICY_BYTES]),
    "jwks": read_jwks,
    "token-roots": read_token_roots,
    "token": _token,
    "token-claims": _token_claims,
    "bhttp-request": decode_request,
    "bhttp-response": decode_response,
    "ohttp-keys": parse_key_document,
    "key-offer": lambda data: KeyOffer.from_json(json_value(data, what="key offer")),
    "channel": lambda data: _channel().receive(data, step=50),
    "channel-message": _channel_message,
    "channel-chunks": _channel_chunks,
    "verify": _verify,
    "receipt": lambda data: verify_receipt(parse_receipt_file(data), expect=expectation(), at=AT),
    "receipt-cose": parse_receipt,
    "receipt-statement": parse_statement,
    "body": _body,
    "sealed-file": _sealed_file,
    "sealed-keyset": key_from_tink,
    "safetensors": strangers.compare,
}


def seeds(target: str) -> Iterator[bytes]:
    """Yield inputs that the target accepts, for the fuzzer to start from."""
    guest, pool = HONEST.guest, HONEST.endorsements
    evidence = bound_evidence(guest, binding())
    everything: dict[str, list[bytes]] = {
        "report": [guest.report(bytes(64))],
        "table": [guest.chip.certificate_table()],
        "certificate": [certificate.der for certificate in pool.certificates],
        "crl": [crl.der for crl in pool.crls],
        "envelope": [evidence.to_json(), evidence.to_cbor()],
        "binding": [binding().to_bytes()],
        "quote": [TD.quote(bytes(64)), TD.quote(bytes(64), version=5)],
        "eventlog": [TD.event_log()],
        "tpm-log": [write_tpm_log((startup_locality(3), *typical_tpm_boot(loader="stub")))],
        "gpu-report": [GPU.report(bytes(32)), SWITCH.report(bytes(32))],
        "gpu-device": [GPU.device_item(bytes(32)), SWITCH.device_item(bytes(32))],
        "rim": [rim.xml for rim in DEVICES.rims],
        "ocsp": [answer.der for answer in DEVICES.ocsp[:2]],
        "corim": [amd(launch_measurement(bytes(48))), intel({-83: [7, bytes(48)], 14: {0: [[7, bytes(48)]]}})],
        "references": [json.dumps(reference_json(REFERENCES)).encode()],
        "tdvf": [firmware(((0, 4096, 0xFFFFF000, 4096, BOOT_VOLUME, EXTEND), *OVMF_MEMORY), content=bytes(4096))],
        "kernel": [kernel()],
        "acpi-tables": [acpi_tables(("APIC", 120), ("MCFG", 60), dsdt=100, size=1024)],
        "launch-endorsement": [endorsement()],
        "vm-config": [b'{"memory_size": 1, "qemu_version": "9.2.1"}'],
        "jwks": [services.SERVICE.jwks(), services.SERVICE.jwks(use="sig", alg="RS256")],
        "token-roots": [certificate.public_bytes(Encoding.DER) for certificate in GOOD],
        "token": [
            *(services.SERVICE.sign(claims) for claims in services.SAMPLES.values()),
            SIGNER.sign(services.google(aud=None), kid=None, x5c=encoded(GOOD)),
        ],
        "token-claims": [json.dumps(claims).encode() for claims in services.SAMPLES.values()],
        "sealed-file": [_SEALED],
        "safetensors": [save_tensors({"a": strangers.ARRAYS["w"], "b": strangers.ARRAYS["v"]}, metadata={"k": "v"})],
        "sealed-keyset": [tink_keyset(KEY).encode()],
        "rego": [b"package policy\nallow { not input.a; count([x | x := input.b[_]]) > 0 }\n"],
    }
    if target in {"ohttp-keys", "key-offer", "channel"} or target.startswith(("bhttp", "channel-")):
        everything |= _channel_seeds()
    if target.startswith("receipt"):
        everything |= _receipt_seeds()
    if target == "body":
        everything["body"] = [_service().honest()]
    everything["forms"] = everything["verify"] = [
        *everything["report"],
        *everything["envelope"],
        guest.extended_report(bytes(64)),
        *everything["quote"],
        *everything["gpu-report"],
        *everything["gpu-device"],
        *(wild.data for wild in FORMS.values()),
    ]
    everything["uvm-endorsement"] = [uvm_endorsement(guest.measurement)]
    everything["committed-data"] = [committed_data_bytes({"ita-tdx": (b"nonce", b"time", b"data")})]
    collateral = PLATFORM.collateral("tdx", at=AT)
    everything["endorsements"] = [
        *everything["table"],
        *everything["certificate"],
        *everything["crl"],
        collateral.to_json(),
        *everything["rim"],
        *everything["ocsp"],
    ]
    yield from everything.get(target, [b"schema: attest.policy/1\nname: x\n", b'schema = "attest.anchors/1"\n'])


def _receipt_seeds() -> dict[str, list[bytes]]:
    file = Machine().file()
    return {
        "receipt": [file.to_bytes(), file.to_json(), file.compact().to_bytes()],
        "receipt-cose": [file.receipt.to_bytes()],
        "receipt-statement": [file.parts[0]],
    }


def _channel_seeds() -> dict[str, list[bytes]]:
    document = _channel_document()
    requests = [encode_request(ASK), encode_request(ASK, indeterminate=True)]
    sealing = begin_sealing(choose(document), MessageForm.CHUNKED)
    return {
        "bhttp-request": requests,
        "bhttp-response": [encode_response(SAID), encode_response(SAID, indeterminate=True)],
        "ohttp-keys": [document.to_bytes()],
        "key-offer": [json.dumps(offer_of(document, bytes(32)).to_json()).encode()],
        "channel": [sealing.prefix + ChunkSealer(sealing.context).final(requests[1])],
        "channel-message": requests,
        "channel-chunks": [b"\x00" + bytes(16), b"\x20" + bytes(32)],
    }


def instrument() -> None:
    """Let atheris see which way our own functions go. Half of the time of a short run, so it is done once for all."""
    import atheris  # only where it is installed

    # What libraries do is no path of ours, and instrumenting all of them takes half a minute.
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and str(one.__module__).startswith(("attest.", "kms.")):
            atheris.instrument_func(one)


def fuzz_one(target: str, seconds: int, scratch: Path) -> NoReturn:
    """Fuzz one target in this process, which was forked for it; never returns."""
    import atheris  # as above

    os.environ["TMPDIR"] = tempfile.tempdir = str(scratch)  # atheris ends the process without letting it tidy up
    with (scratch / "stderr").open("wb") as told:
        os.dup2(told.fileno(), 2)
    corpus = scratch / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(seeds(target)):
        (corpus / f"seed-{number}").write_bytes(seed)
    run = TARGETS[target]

    def once(data: bytes) -> None:
        try:
            run(data)
        except AttestError:
            return  # documented: that is an answer

    options = [f"-max_total_time={seconds}", "-timeout=10", f"-artifact_prefix={CRASHES}/{target}-", str(corpus)]
    atheris.Setup([sys.argv[0], *options], once)
    atheris.Fuzz()
    raise AssertionError  # atheris ended the process


def start(target: str, seconds: int, scratch: Path) -> int:
    """Fuzz one target in a process of its own, and return its number."""
    scratch.mkdir()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            fuzz_one(target, seconds, scratch)
        except BaseException:  # noqa: BLE001  whatever it is, this process is not the one that goes on
            traceback.print_exc()
        finally:
            os._exit(1)
    return child


def end(target: str, status: int, scratch: Path) -> bool:
    """Tell how a target came out, and return whether nothing was found."""
    told = (scratch / "stderr").read_text(errors="replace")
    done = [line for line in told.splitlines() if line.startswith("Done ")]
    print(f"{target}: {done[0] if done else told[-2000:]}", flush=True)
    return status == 0 and bool(done)


def fuzz(targets: Sequence[str], *, seconds: int, jobs: int) -> bool:
    """Fuzz targets, so many at a time, and return whether nothing was found in any."""
    CRASHES.mkdir(exist_ok=True)
    instrument()
    waiting, running, good = list(targets), dict[int, str](), True
    with tempfile.TemporaryDirectory() as folder:
        while waiting or running:
            while waiting and len(running) < jobs:
                target = waiting.pop(0)
                running[start(target, seconds, Path(folder, target))] = target
            child, status = os.wait()
            target = running.pop(child)
            good &= end(target, status, Path(folder, target))
    return good


def main() -> int:
    """Run the chosen targets, as many at a time as there are jobs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", choices=[*TARGETS, []], help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=int, default=SECONDS, help="for each target")
    parser.add_argument("--jobs", type=int, default=1, help="how many targets at a time")
    options = parser.parse_args()
    if find_spec("atheris") is None:
        print("fuzzing is left out: atheris has no wheel for this platform", file=sys.stderr)
        return 0
    return 0 if fuzz(options.targets or list(TARGETS), seconds=options.seconds, jobs=options.jobs) else 1


if __name__ == "__main__":
    sys.exit(main())
