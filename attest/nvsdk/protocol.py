"""Requests to NVIDIA's Python SDK: inputs of its functions, and a process with a time limit for each.

Their functions accept any RIM in either slot, so the choice is made here, by edition, product and version.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice, product
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import wrap

from attest.collect.child import ask_child, library_environment
from attest.encoding import JsonValue, json_value, rfc3339_text
from attest.endorsements.rims import RimDocument
from attest.endorsements.x509 import Certificate
from attest.errors import AttestError, CollectionError, ConfigurationError, EvidenceError
from attest.evidence.gpu.certificates import Architecture, DeviceKind, DeviceModel, is_leaf
from attest.evidence.gpu.evidence import ParsedGpuEvidence
from attest.evidence.gpu.measurements import MeasurementSource
from attest.evidence.gpu.references import sources_of, wanted_rim
from attest.evidence.gpu.rim import ParsedRim, read_rim
from attest.nvsdk.environment import NvsdkEnvironment

SDK_SECONDS = 60.0
"""Time limit of one process: it imports NVIDIA's packages in about a second, and verifies a device in 50 ms."""
COLLECT_SECONDS = 180.0
"""Their own limit for each NVML call is 30 s."""
MAX_TRIES = 4
"""Largest number of RIM pairs for one device, if several files match a role."""
_CHAIN_CERTIFICATES = 5
_WORKER = Path(__file__).with_name("worker.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class SdkDevice:
    """Input of NVIDIA's functions for one device.

    Attributes:
        report: SPDM request and response.
        chain_pem: certificates in PEM, leaf first; their functions drop the last one without a check.
        rims: role to XML, without a check by their functions; a switch has ``vbios`` only.
    """

    kind: DeviceKind
    architecture: Architecture
    report: bytes
    chain_pem: str
    rims: Mapping[MeasurementSource, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SdkAnswer:
    """An answer of the worker: versions of Python and of NVIDIA's packages, and the result of the requested mode."""

    versions: Mapping[str, str]
    found: Mapping[str, JsonValue]


def examine(
    device: SdkDevice,
    *,
    at: datetime,
    nonce: bytes | None,
    environment: NvsdkEnvironment,
    seconds: float = SDK_SECONDS,
) -> SdkAnswer:
    """Run NVIDIA's functions on one device, each step by itself; without a nonce, that step is omitted.

    Raises:
        ConfigurationError: ``nvsdk-unusable`` or ``nvsdk-timeout``.
    """
    request = {**_device(device), "mode": "verify", "at": rfc3339_text(at), "nonce": nonce.hex() if nonce else None}
    return _ask(request, environment=environment, seconds=seconds)


def time_sdk(device: SdkDevice, *, at: datetime, nonce: bytes, rounds: int, environment: NvsdkEnvironment) -> SdkAnswer:
    """Time their verification of one valid device inside their interpreter, without start, input, logs and network.

    Returns:
        ``median_seconds`` and ``rounds``.

    Raises:
        ConfigurationError: ``nvsdk-unusable`` (also after a failed step) or ``nvsdk-timeout``.
    """
    request = {**_device(device), "mode": "bench", "at": rfc3339_text(at), "nonce": nonce.hex(), "rounds": rounds}
    return _ask(request, environment=environment, seconds=SDK_SECONDS + rounds)


def sdk_versions(environment: NvsdkEnvironment) -> Mapping[str, str]:
    """Return the versions of Python and of NVIDIA's packages, after importing the used modules.

    Raises:
        ConfigurationError: ``nvsdk-unusable`` or ``nvsdk-timeout``.
    """
    return _ask({"mode": "status"}, environment=environment, seconds=SDK_SECONDS).versions


def collect_with_sdk(
    nonce: bytes, *, environment: NvsdkEnvironment, seconds: float = COLLECT_SECONDS
) -> tuple[dict[str, JsonValue], ...]:
    """Run NVIDIA's collector on the GPUs of this machine.

    Returns:
        one object per GPU in the form of NVIDIA's evidence files, with the nonce.

    Raises:
        CollectionError: ``nvsdk-collection-failed``.
        ConfigurationError: ``nvsdk-missing``.
    """
    try:
        answer = _ask({"mode": "collect", "nonce": nonce.hex()}, environment=environment, seconds=seconds)
        devices = answer.found.get("devices")
        if not isinstance(devices, list) or not devices:
            raise _unusable("no device in the answer of the collector")
    except ConfigurationError as exc:
        raise CollectionError(
            f"NVIDIA's collector gave no evidence: {exc.message}",
            code="nvsdk-collection-failed",
            got=exc.got,
            hint="'attest collect gpu' says more about what is wrong with the driver",
        ) from exc
    return tuple({**one, "nonce": nonce.hex()} for one in devices if isinstance(one, dict))


def _device(device: SdkDevice) -> dict[str, JsonValue]:
    return {
        "kind": device.kind,
        "architecture": device.architecture,
        "report": device.report.hex(),
        "chain": device.chain_pem,
        "rims": {role: xml.hex() for role, xml in device.rims.items()},
    }


def _ask(request: Mapping[str, JsonValue], *, environment: NvsdkEnvironment, seconds: float) -> SdkAnswer:
    """Run the worker in a temporary folder, for the log files that their packages write on import."""
    try:
        with TemporaryDirectory(prefix="attest-nvsdk-") as folder:
            answer = ask_child(
                [str(environment.python), "-I", str(_WORKER)],
                request=json.dumps(request).encode(),
                seconds=seconds,
                environment={"HOME": folder, **library_environment()},
                folder=Path(folder),
            )
    except TimeoutError as exc:
        raise ConfigurationError(
            f"NVIDIA's Python SDK did not answer: {exc}", code="nvsdk-timeout", got=str(exc), hint="ask again"
        ) from exc
    except OSError as exc:
        raise _unusable(f"its interpreter cannot be started: {exc.strerror}") from exc
    try:
        return _read(json_value(answer.out, what="answer of NVIDIA's Python SDK"))
    except EvidenceError as exc:
        raise _unusable(f"exit {answer.code}: {answer.last_words or 'no answer'}") from exc


def _read(reply: JsonValue) -> SdkAnswer:
    members = reply if isinstance(reply, dict) else {}
    versions, found, error = members.get("versions"), members.get("ok"), members.get("error")
    if isinstance(error, dict):
        raise _unusable(f"{error.get('raised')}: {error.get('detail')}")
    if not isinstance(versions, dict) or not isinstance(found, dict):
        raise _unusable("an answer without versions and findings")
    return SdkAnswer(versions={name: str(version) for name, version in versions.items()}, found=found)


def _unusable(problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"NVIDIA's Python SDK cannot be used: {problem}",
        code="nvsdk-unusable",
        got=problem,
        hint="'attest nvsdk status' shows what is installed; 'attest nvsdk install --yes' reinstalls it",
    )


# -- input of their functions


def device_with_rims(
    parsed: ParsedGpuEvidence, *, rims: Sequence[RimDocument], certificates: Sequence[Certificate] = ()
) -> SdkDevice:
    """Return the input for one device: its chain, and the first matching RIM of each role."""
    return next(offers(parsed, readable_rims(rims), certificates))


def offers(
    parsed: ParsedGpuEvidence, rims: Sequence[ParsedRim], certificates: Sequence[Certificate]
) -> Iterator[SdkDevice]:
    """Return the input for a device with each combination of matching RIMs, at least one."""
    chain = parsed.chain if parsed.chain is not None else _chain_among(certificates)
    model = _model(parsed, chain)
    for offered in _combinations(parsed, model, rims):
        yield SdkDevice(
            kind=model.kind,
            architecture=model.architecture,
            report=parsed.report.raw,
            chain_pem=_pem(chain),
            rims=offered,
        )


def _model(parsed: ParsedGpuEvidence, chain: Sequence[Certificate]) -> DeviceModel:
    """Return the device by the name of its certificate, else by the hint, else a Hopper GPU."""
    name = (chain[1].common_name or "") if len(chain) > 1 else ""
    product = name.split(" ")[0].replace("_", "")  # section 9.2: the first word of L4's name
    if name.startswith("LS_10") or (not name and parsed.arch == "LS10"):
        return DeviceModel(kind="nvidia-switch", architecture="ls10", product=product)
    blackwell = name.startswith("GB") or (not name and parsed.arch == "BLACKWELL")
    return DeviceModel(kind="nvidia-gpu", architecture="blackwell" if blackwell else "hopper", product=product)


def readable_rims(rims: Sequence[RimDocument]) -> tuple[ParsedRim, ...]:
    """Return the readable RIMs; one without a version has no role."""
    found = []
    for document in dict.fromkeys(rims):
        try:
            found.append(read_rim(document))
        except AttestError:
            continue
    return tuple(found)


def _combinations(
    parsed: ParsedGpuEvidence, model: DeviceModel, rims: Sequence[ParsedRim]
) -> Iterator[dict[MeasurementSource, bytes]]:
    """Combine the matching RIMs of each role by edition, product and version."""
    fitting: list[list[tuple[MeasurementSource, bytes] | None]] = []
    for role in sources_of(model):
        try:
            wanted = wanted_rim(parsed.report, model, role)
        except EvidenceError:  # a version in a form that no RIM has
            fitting.append([None])
            continue
        fitting.append([(role, rim.document.xml) for rim in rims if wanted.fits(rim)] or [None])
    for combination in islice(product(*fitting), MAX_TRIES):
        yield dict(one for one in combination if one is not None)


def _chain_among(certificates: Sequence[Certificate]) -> tuple[Certificate, ...]:
    """Return the chain of a raw report: from the one leaf with a firmware id, by the names of issuers.

    Nothing is verified here; their functions do that. Without exactly one leaf, there is no chain.
    """
    leaves = [one for one in certificates if is_leaf(one)]
    if len(leaves) != 1:
        return ()
    chain = leaves
    while len(chain) < _CHAIN_CERTIFICATES and chain[-1].issuer != chain[-1].subject:
        issuer = next((one for one in certificates if one.subject == chain[-1].issuer), None)
        if issuer is None:
            break
        chain.append(issuer)
    # Their functions drop the last certificate as the root without a check.
    return (*chain, chain[-1]) if len(chain) == _CHAIN_CERTIFICATES - 1 else tuple(chain)


def _pem(chain: Sequence[Certificate]) -> str:
    blocks = []
    for certificate in chain:
        body = "\n".join(wrap(b64encode(certificate.der).decode(), 64))
        blocks.append(f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n")
    return "".join(blocks)
