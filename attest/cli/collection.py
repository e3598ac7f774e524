"""The request of ``attest collect evidence``, and its result."""

from __future__ import annotations

from attest.cli.files import read_file
from attest.cli.machine import EvidenceRequest
from attest.collect.access import MachineAccess
from attest.collect.machine import Collected, collect_all
from attest.encoding import JsonValue, json_value
from attest.errors import ConfigurationError, EvidenceError
from attest.evidence.binding import EXTRA_DATA_BYTES, NONCE_BYTES, Binding
from attest.release.wire import CONTEXT, ROLE, Challenge

COLLECTED_SCHEMA = "attest.collected-evidence/1"
MAX_CHALLENGE_BYTES = 64 * 1024


def collect_requested(access: MachineAccess, request: EvidenceRequest) -> tuple[Collected, bytes | None]:
    """Return the requested evidence, and the nonce if it was generated here.

    Raises:
        ConfigurationError: options that contradict each other, or an invalid challenge.
        CollectionError: this machine gave no evidence.
    """
    commitment = _commitment(request)
    generated = None
    if commitment is None:
        commitment = generated = access.random(NONCE_BYTES)
    detected = access.detect()
    with_gpus = detected.gpus and not request.no_gpus
    if with_gpus:
        _require_fitting_gpus(request)
    if detected.interface == "azure-vtpm":
        _require_fitting_tpm(request)
    collected = collect_all(
        commitment,
        access=access,
        vmpl=request.vmpl,
        with_gpus=with_gpus,
        with_log=not request.no_eventlog,
        timeout=request.timeout,
    )
    return collected, generated


def _commitment(request: EvidenceRequest) -> Binding | bytes | None:
    """Return the value that the evidence commits to; None: a generated nonce."""
    options = {"--nonce": request.nonce, "--report-data": request.report_data, "--challenge": request.challenge}
    given = [option for option, value in options.items() if value is not None]
    if len(given) > 1:
        problem = f"{' and '.join(given)} each set what the evidence commits to"
        raise ConfigurationError(problem, code="nonce-ambiguous", hint="use only one of them")
    if request.challenge is None and request.key is None:
        return request.report_data if request.nonce is None else request.nonce
    if request.challenge is None or request.key is None:
        raise ConfigurationError(
            "--challenge and --key belong together",
            code="option-not-applicable",
            field="--key",
            hint="the answer to a challenge is sealed to a key, and the evidence must commit to it",
        )
    challenge = _challenge(request.challenge)
    return Binding(context=CONTEXT, role=ROLE, audience=challenge.audience, nonce=challenge.nonce, key=request.key)


def _challenge(file: str) -> Challenge:
    """Read the answer of a service to a request for a challenge."""
    data = read_file(file, limit=MAX_CHALLENGE_BYTES, what="--challenge")
    try:
        return Challenge.from_json(json_value(data, what="challenge"))
    except EvidenceError as exc:
        raise ConfigurationError(
            f"{file}: {exc.message}",
            code="challenge-invalid",
            field="--challenge",
            hint="use the service's answer to POST /v1/challenges",
        ) from exc


def _require_fitting_gpus(request: EvidenceRequest) -> None:
    if request.report_data is not None:
        raise ConfigurationError(
            "--report-data: with GPUs, REPORT_DATA commits to their evidence",
            code="option-not-applicable",
            field="--report-data",
            hint="use a --nonce of 32 bytes, or leave out the GPUs with --no-gpus",
        )
    if request.nonce is not None and len(request.nonce) != NONCE_BYTES:
        raise ConfigurationError(
            f"with GPUs, the nonce has {NONCE_BYTES} bytes",
            code="nonce-length",
            field="--nonce",
            expected=f"{NONCE_BYTES} bytes, {2 * NONCE_BYTES} hex digits",
            got=f"{len(request.nonce)} bytes",
            hint="give 32 bytes, or leave the GPUs out with --no-gpus",
        )


def _require_fitting_tpm(request: EvidenceRequest) -> None:
    """Refuse a nonce that a TPM cannot quote; all 64 bytes of report data are in the user data."""
    if request.nonce is not None and len(request.nonce) > EXTRA_DATA_BYTES:
        raise ConfigurationError(
            f"on Azure, the nonce has at most {EXTRA_DATA_BYTES} bytes",
            code="nonce-length",
            field="--nonce",
            expected=f"1 to {EXTRA_DATA_BYTES} bytes",
            got=f"{len(request.nonce)} bytes",
            hint="use a shorter nonce: a TPM quotes no more",
        )


def collected_document(collected: Collected, output: str) -> dict[str, JsonValue]:
    """Return a description of the written evidence, for programs and people."""
    return {
        "schema": COLLECTED_SCHEMA,
        "file": output,
        "tee": collected.tee,
        "interface": collected.interface,
        "digest": collected.evidence.digest.hex(),
        "items": [
            {"name": item.name, "media_type": item.media_type, "bytes": len(item.value)}
            for item in collected.evidence.items
        ],
        "notes": [*collected.notes],
    }
