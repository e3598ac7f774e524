"""Program around NVIDIA's Python SDK: one request on standard input, one answer on standard output.

It runs in another interpreter (see ``environment.py``) and imports the standard library and NVIDIA's packages only.
It calls NVIDIA's functions one by one and reports their results, without decisions. One process
serves one device, because these packages keep results in class attributes.

Adaptations to these packages:

* They write log files into the working directory on import: the parent starts this program in a temporary folder.
* They print to standard output: the answer uses another descriptor.
* They check certificates at the present moment: every OpenSSL certificate store gets the time of the
  request, their own and signxml's. Nothing else of theirs is changed.
* They query NVIDIA's OCSP responder in the middle of verification: the functions around that are called
  instead, and revocation is not evaluated here.
* They compare the report's versions with NVML's: without NVML here, the report's own are used.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("nv-attestation-sdk", "nv-local-gpu-verifier", "nvidia-ml-py")
UTC = timezone(timedelta(0))  # the interpreter may be older than datetime.UTC
_MISMATCH = re.compile(r"\s*(\d{1,3}) \[(\w+)\]\s*")
PASS, FAIL, RAISED, NOT_RUN = "pass", "fail", "raised", "not run"

Step = dict[str, Any]  # Any: JSON


def step(run: Callable[[], Any]) -> tuple[Step, Any]:
    """Run one of NVIDIA's functions; an exception is its finding, ``sys.exit`` included."""
    try:
        value = run()
    except (Exception, SystemExit) as exc:  # noqa: BLE001  the finding
        return {"outcome": RAISED, "raised": type(exc).__name__, "detail": _story(exc)}, None
    return {"outcome": PASS}, value


def _story(exc: BaseException | None) -> str:
    """Return the messages of an exception and its causes: often only the last one is specific."""
    messages: list[str] = []
    while exc is not None and len(messages) < 5:
        messages.append(" ".join(str(exc).split()))
        exc = exc.__cause__
    return ": ".join(messages)[:400]


def judged(run: Callable[[], Any]) -> Step:
    """Run a function with a boolean result."""
    found, value = step(run)
    if found["outcome"] == PASS and value is not True:
        found["outcome"] = FAIL
    return found


def chain_step(run: Callable[[], Any]) -> Step:
    """Run a chain function: (good, expired, earliest end), or a bare False for another firmware id."""
    found, value = step(run)
    if found["outcome"] != PASS:
        return found
    if isinstance(value, tuple):
        good, expired, end = value
        return {"outcome": PASS if good else FAIL, "expired": bool(expired), "not_after": end}
    return {"outcome": PASS if value else FAIL}


class GpuVerifier:
    """Calls of ``nv-local-gpu-verifier``."""

    roles: tuple[str, ...] = ("driver", "vbios")

    def __init__(self, request: dict[str, Any]) -> None:
        from verifier import attestation, cc_admin_utils, config, rim, verifier
        from verifier.nvml import gpu_cert_chains

        blackwell = request["architecture"] == "blackwell"
        self.settings_class = config.BlackwellSettings if blackwell else config.HopperSettings
        self.settings = self.settings_class()
        self.log = config.info_log
        self._utils = cc_admin_utils.CcAdminUtils
        self._attestation, self._rim = attestation, rim
        self._loggers: dict[str, Any] = {}
        self._verifier = verifier.Verifier
        self._verify_chain = self._utils.verify_gpu_certificate_chain
        self._extract = gpu_cert_chains.GpuCertificateChains.extract_cert_chain
        self._mode = config.BaseSettings.Certificate_Chain_Verification_Mode
        self._schema: dict[str, str] = {}

    def parse(self, report: bytes) -> Any:
        """Parse a report."""
        return self._attestation.AttestationReport(report, self.settings)

    def certificates(self, pem: bytes) -> list[Any]:
        """Parse a chain as their collector does: without its last certificate, and with their own root."""
        return [*self._extract(pem)[:-1], _root(self.settings.DEVICE_ROOT_CERT)]

    def chain(self, parsed: Any, certificates: list[Any]) -> Any:
        """Verify the device chain."""
        return self._verify_chain(certificates, self.settings, _opaque(parsed, "FWID").hex())

    def report(self, parsed: Any, leaf: Any, nonce: bytes) -> Any:
        """Verify nonce, versions and signature."""
        return self._utils.verify_attestation_report(
            attestation_report_obj=parsed,
            gpu_leaf_certificate=leaf,
            nonce=nonce,
            driver_version=self.version(parsed, "driver"),
            vbios_version=self.version(parsed, "vbios"),
            settings=self.settings,
        )

    def version(self, parsed: Any, role: str) -> str:
        """Return a version of the report in their notation of NVML's versions."""
        if role == "vbios":
            from verifier.utils import format_vbios_version

            return str(format_vbios_version(_opaque(parsed, "VBIOS_VERSION")))
        text = str(_opaque(parsed, "DRIVER_VERSION").decode())
        return text.removesuffix("\0")

    def rim(self, role: str, path: str) -> Any:
        """Read a RIM."""
        return self._rim.RIM(rim_name=role, settings=self.settings, rim_path=path, **self._loggers)

    def rim_schema(self, rim: Any) -> Any:
        """Validate a RIM's schema."""
        return rim.validate_schema(**self._schema)

    def rim_chain(self, rim: Any, role: str) -> Any:
        """Verify the chain in a RIM, up to their own root."""
        mode = self._mode.DRIVER_RIM_CERT if role == "driver" else self._mode.VBIOS_RIM_CERT
        certificates = [*rim.extract_certificates(), _root(self.settings.RIM_ROOT_CERT)]
        return self._utils.verify_certificate_chain(certificates, self.settings, mode)

    def compare(self, parsed: Any, rims: dict[str, Any]) -> tuple[Any, Any]:
        """Compare measurements; return the verifier object and its answer."""
        verifier = self._verifier(parsed, *(rims[role] for role in self.roles), settings=self.settings)
        return verifier, verifier.verify(self.settings)


class SwitchVerifier(GpuVerifier):
    """Calls of the switch verifier inside ``nv-attestation-sdk``."""

    roles = ("vbios",)

    def __init__(self, request: dict[str, Any]) -> None:
        from nv_attestation_sdk.utils import logging_config
        from nv_attestation_sdk.verifiers.nv_switch_verifier import (
            attestation,
            config,
            nvswitch_admin_utils,
            nvswitch_verifier,
            rim,
        )
        from nv_attestation_sdk.verifiers.nv_switch_verifier.utils import cert_chain_utils

        del request
        self.settings_class = config.LS10Settings
        self.settings = self.settings_class()
        self.log = logging_config.get_logger()
        self._utils = nvswitch_admin_utils.NVSwitchAdminUtils
        self._attestation, self._rim = attestation, rim
        self._loggers = {"info_logger": self.log, "debug_logger": self.log}
        self._verifier = nvswitch_verifier.SwitchVerifier
        self._verify_chain = self._utils.verify_switch_certificate_chain
        self._extract = cert_chain_utils.extract_cert_chain
        self._mode = config.BaseSettings.Certificate_Chain_Verification_Mode
        self._schema = {"schema_path": str(Path(rim.__file__).with_name("swidSchema2015.xsd"))}

    def parse(self, report: bytes) -> Any:
        """Parse a report."""
        return self._attestation.AttestationReport(report, self.log, self.log)

    def report(self, parsed: Any, leaf: Any, nonce: bytes) -> Any:
        """Verify nonce and signature."""
        return self._utils.verify_attestation_report(
            attestation_report_obj=parsed,
            switch_leaf_certificate=leaf,
            nonce=nonce,
            vbios_version=_opaque(parsed, "VBIOS_VERSION").decode(),
            settings=self.settings,
        )

    def version(self, parsed: Any, role: str) -> str:
        """Return the BIOS version in the notation of their RIM requests."""
        from nv_attestation_sdk.verifiers.nv_switch_verifier.utils import format_vbios_version

        del role
        return str(format_vbios_version(_opaque(parsed, "VBIOS_VERSION"))).lower()


def _opaque(parsed: Any, name: str) -> Any:
    return parsed.get_response_message().get_opaque_data().get_data(f"OPAQUE_FIELD_ID_{name}")


def _root(path: str) -> Any:
    from OpenSSL import crypto

    return crypto.load_certificate(crypto.FILETYPE_PEM, Path(path).read_bytes())


def verifier_of(request: dict[str, Any]) -> GpuVerifier:
    """Return the verifier for the kind of the device."""
    return SwitchVerifier(request) if request["kind"] == "nvidia-switch" else GpuVerifier(request)


def at_moment(at: str) -> None:
    """Set the time of every OpenSSL certificate store before its use."""
    from OpenSSL import crypto

    whole = at.removesuffix("Z").partition(".")[0]  # RFC 3339 in UTC; fromisoformat reads "Z" since 3.11 only
    moment = datetime.fromisoformat(whole).replace(tzinfo=UTC)
    plain = crypto.X509StoreContext.__init__

    def with_time(context: Any, store: Any, *arguments: Any, **options: Any) -> None:
        store.set_time(moment)
        plain(context, store, *arguments, **options)

    crypto.X509StoreContext.__init__ = with_time  # there is no parameter for it


def verify(request: dict[str, Any]) -> dict[str, Any]:
    """Answer ``verify``: run every step, also after failures of others."""
    at_moment(request["at"])
    theirs = verifier_of(request)
    found: dict[str, Any] = {name: {"outcome": NOT_RUN} for name in ("chain", "signature", "nonce", "report")}
    found["parsed"], parsed = step(lambda: theirs.parse(bytes.fromhex(request["report"])))
    found["certificates"], certificates = step(lambda: theirs.certificates(request["chain"].encode()))
    if parsed is not None and certificates is not None:
        found["chain"] = chain_step(lambda: theirs.chain(parsed, certificates))
        _report(theirs, parsed, certificates[0], request, found)
    rims, found["rims"] = _rims(theirs, parsed, request["rims"])
    found["measurements"] = _measurements(theirs, parsed, rims)
    return found


def _report(theirs: GpuVerifier, parsed: Any, leaf: Any, request: dict[str, Any], found: dict[str, Any]) -> None:
    """Run their check of the report, which stops at the first failure, and of its signature alone."""
    certificate = leaf.to_cryptography()
    settings = theirs.settings
    found["signature"] = judged(
        lambda: parsed.verify_signature(certificate, settings.signature_length, settings.HashFunction)
    )
    nonce = request["nonce"]
    if nonce is None:
        return
    found["report"] = judged(lambda: theirs.report(parsed, leaf, bytes.fromhex(nonce)))
    differs = found["report"].get("raised") == "NonceMismatchError"
    found["nonce"] = {"outcome": FAIL if differs else PASS}


def _rims(theirs: GpuVerifier, parsed: Any, given: dict[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parse and check each RIM: schema, version, chain, signature."""
    rims: dict[str, Any] = {}
    found: dict[str, Any] = {}
    for role, xml in given.items():
        path = _rim_file(role, xml)
        steps: dict[str, Step] = {name: {"outcome": NOT_RUN} for name in ("schema", "version", "chain", "signature")}
        steps["read"], rim = step(lambda: theirs.rim(role, path))  # noqa: B023  called at once
        if rim is not None:
            rims[role] = rim
            steps["schema"] = judged(lambda: theirs.rim_schema(rim))  # noqa: B023
            if parsed is not None:
                steps["version"] = judged(lambda: rim.colloquialVersion.lower() == theirs.version(parsed, role))  # noqa: B023
            steps["chain"] = chain_step(lambda: theirs.rim_chain(rim, role))  # noqa: B023
            steps["signature"] = judged(lambda: rim.verify_signature(theirs.settings))  # noqa: B023
        found[role] = steps
    return rims, found


def _measurements(theirs: GpuVerifier, parsed: Any, rims: dict[str, Any]) -> Step:
    """Compare, and take the mismatches from the lines in which they tell them: they return none."""
    if parsed is None or any(role not in rims for role in theirs.roles):
        return {"outcome": NOT_RUN}
    heard = _Heard()
    theirs.log.addHandler(heard)
    found, both = step(lambda: theirs.compare(parsed, rims))
    theirs.log.removeHandler(heard)
    if both is not None:
        verifier, answer = both
        found["outcome"] = PASS if answer is True else FAIL
        found["compared"] = len(verifier.golden_measurements)
        found["mismatches"] = heard.mismatches
    return found


class _Heard(logging.Handler):
    """Collects ``<index> [<source>]`` from their log."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.mismatches: list[list[Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        line = _MISMATCH.fullmatch(record.getMessage())
        if line:
            self.mismatches.append([int(line[1]), line[2]])


def bench(request: dict[str, Any]) -> dict[str, Any]:
    """Answer ``bench``: time their whole verification of one device, without input, logs and network."""
    at_moment(request["at"])
    theirs = verifier_of(request)
    paths = {role: _rim_file(role, xml) for role, xml in request["rims"].items()}
    logging.disable(logging.CRITICAL)  # writing logs is not part of the measurement
    taken = []
    for _ in range(request["rounds"]):
        begun = time.perf_counter()
        _verify_whole(theirs, request, paths)
        taken.append(time.perf_counter() - begun)
    return {"rounds": request["rounds"], "median_seconds": statistics.median(taken)}


def _verify_whole(theirs: GpuVerifier, request: dict[str, Any], paths: dict[str, str]) -> None:
    theirs.settings = theirs.settings_class()  # they cache results there
    parsed = theirs.parse(bytes.fromhex(request["report"]))
    certificates = theirs.certificates(request["chain"].encode())
    good = [
        theirs.chain(parsed, certificates)[0],
        theirs.report(parsed, certificates[0], bytes.fromhex(request["nonce"])),
    ]
    rims = {role: theirs.rim(role, path) for role, path in paths.items()}
    for role, rim in rims.items():
        good += [theirs.rim_schema(rim), theirs.rim_chain(rim, role)[0], rim.verify_signature(theirs.settings)]
    if "vbios" in rims:
        good.append(theirs.compare(parsed, rims)[1])
    if not all(good):
        raise ValueError("what is timed must be verified: a step said no")


def _rim_file(role: str, xml: str) -> str:
    """Write a RIM into the temporary folder, for their functions."""
    path = Path(f"{role}.xml")
    path.write_bytes(bytes.fromhex(xml))
    return str(path)


def collect(request: dict[str, Any]) -> dict[str, Any]:
    """Answer ``collect``: their collector's output for this machine's GPUs."""
    from verifier import cc_admin

    # ppcie_mode False accepts machines in protected-PCIe mode.
    return {"devices": cc_admin.collect_gpu_evidence_remote(request["nonce"], ppcie_mode=False)}


def status(request: dict[str, Any]) -> dict[str, Any]:
    """Answer ``status``: import the modules of the other modes."""
    verifier_of({**request, "kind": "nvidia-gpu", "architecture": "hopper"})
    verifier_of({**request, "kind": "nvidia-switch"})
    return {}


MODES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "verify": verify,
    "bench": bench,
    "collect": collect,
    "status": status,
}


def versions() -> dict[str, str]:
    """Return the installed versions."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def main() -> int:
    """Answer the request on standard input."""
    own = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr  # their log handlers take it on import
    request = json.load(sys.stdin)
    found, answer = step(lambda: MODES[request["mode"]](request))
    reply = {"versions": versions(), **({"ok": answer} if answer is not None else {"error": found})}
    with os.fdopen(own, "w") as out:
        out.write(json.dumps(reply))
    return 0


if __name__ == "__main__":
    sys.exit(main())
