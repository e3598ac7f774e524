"""Evidence in every form that wraps a quote or a report, made by the simulator."""

from dataclasses import dataclass

from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.evidence.input_files import read_evidence
from attest.verification import VerifiedEvidence, verify
from attest_simulator.azure.containers import azure_container, maa_snp_request
from attest_simulator.intel import typical_boot
from attest_simulator.intel.attested_certificate import certificate_with_quote
from attest_simulator.intel.td import SimulatedTd
from attest_simulator.requests import (
    attestation_rs_tdx,
    ita_request,
    maa_request,
    open_enclave_evidence,
    open_enclave_report,
    trustee_tdx,
)
from tests.samples import AT, scene
from tests.samples_intel import intel_scene

ZEROS = bytes(64)
INTEL = intel_scene()
SNP = scene()
ENCLAVE = INTEL.enclave
TD = SimulatedTd(platform=INTEL.platform, log=typical_boot(command_line="/vmlinuz ro"))
POOL = INTEL.endorsements("tdx").merged(INTEL.endorsements("sgx")).merged(SNP.endorsements)
RUNTIME_DATA = b'{"keys": []}'
INIT_TIME_DATA = b"init"


@dataclass(frozen=True, kw_only=True)
class Wild:
    """Evidence in one form.

    Attributes:
        form: name of ``FORMS``.
        label: of the recognised file.
        kind: of the verified evidence.
        checks: ids of the checks that the form adds.
        attached: the member that it adds to the claims.
    """

    data: bytes
    form: str
    label: str
    kind: str
    checks: tuple[str, ...] = ()
    attached: str | None = None


UVM_CHECKS = ("uvm.signature", "uvm.chain", "uvm.issuer", "uvm.measurement")
COMMITTED = ("committed_data.report_data",)
_MAA, _ITA = "request to Microsoft Azure Attestation with", "request to Intel Trust Authority with"
_TD_CERTIFICATE, _ENCLAVE_CERTIFICATE = (f"X.509 certificate with a quote of {tee}" for tee in ("TDX", "SGX"))

FORMS: dict[str, Wild] = {
    "Trustee, TDX": Wild(
        data=trustee_tdx(TD.quote(ZEROS), TD.event_log()),
        form="coco-json",
        label="Trustee evidence with a quote (JSON)",
        kind="tdx",
        checks=("eventlog.replay",),
        attached="eventlog",
    ),
    "Trustee, TDX without a log": Wild(
        data=trustee_tdx(TD.quote(ZEROS), None),
        form="coco-json",
        label="Trustee evidence with a quote (JSON)",
        kind="tdx",
    ),
    "attestation-rs, TDX": Wild(
        data=attestation_rs_tdx(TD.quote(ZEROS, version=5), TD.event_log()),
        form="coco-json",
        label="attestation-rs evidence with a quote (JSON)",
        kind="tdx",
        checks=("eventlog.replay",),
        attached="eventlog",
    ),
    "MAA, TDX": Wild(
        data=maa_request(TD, RUNTIME_DATA),
        form="tdx-quote",
        label=f"{_MAA} a quote of TDX (JSON)",
        kind="tdx",
        checks=COMMITTED,
        attached="committed_data",
    ),
    "MAA, SGX": Wild(
        data=maa_request(ENCLAVE, RUNTIME_DATA),
        form="sgx-quote",
        label=f"{_MAA} a quote of SGX (JSON)",
        kind="sgx",
        checks=COMMITTED,
        attached="committed_data",
    ),
    "MAA, SNP": Wild(
        data=maa_snp_request(SNP.guest, RUNTIME_DATA),
        form="snp-extended",
        label=f"{_MAA} a report (JSON)",
        kind="sev-snp",
        checks=(*UVM_CHECKS, *COMMITTED),
        attached="committed_data",
    ),
    "ITA, TDX": Wild(
        data=ita_request(TD, RUNTIME_DATA),
        form="tdx-quote",
        label=f"{_ITA} a quote of TDX (JSON)",
        kind="tdx",
        checks=COMMITTED,
        attached="committed_data",
    ),
    "ITA, SGX": Wild(
        data=ita_request(ENCLAVE, RUNTIME_DATA),
        form="sgx-quote",
        label=f"{_ITA} a quote of SGX (JSON)",
        kind="sgx",
        checks=COMMITTED,
        attached="committed_data",
    ),
    "Open Enclave, report": Wild(
        data=open_enclave_report(ENCLAVE, ZEROS), form="sgx-quote", label="Open Enclave evidence", kind="sgx"
    ),
    "Open Enclave, evidence": Wild(
        data=open_enclave_evidence(ENCLAVE, b"custom claims"),
        form="sgx-quote",
        label="Open Enclave evidence",
        kind="sgx",
        checks=COMMITTED,
        attached="committed_data",
    ),
    "certificate, RA-TLS": Wild(
        data=certificate_with_quote("ra-tls", ENCLAVE.quote),
        form="sgx-quote",
        label=_ENCLAVE_CERTIFICATE,
        kind="sgx",
        checks=("certificate.key",),
        attached="certificate",
    ),
    "certificate, TCG DICE": Wild(
        data=certificate_with_quote("dice", TD.quote),
        form="tdx-quote",
        label=_TD_CERTIFICATE,
        kind="tdx",
        checks=("certificate.key",),
        attached="certificate",
    ),
    "certificate, dstack": Wild(
        data=certificate_with_quote("dstack", TD.quote),
        form="tdx-quote",
        label=_TD_CERTIFICATE,
        kind="tdx",
        checks=("certificate.key",),
        attached="certificate",
    ),
    "Azure container group": Wild(
        data=azure_container(SNP.guest, ZEROS),
        form="snp-extended",
        label="Azure container group evidence (JSON)",
        kind="sev-snp",
        checks=UVM_CHECKS,
        attached="uvm",
    ),
}
"""Each form, by a name for people."""


def verified(*files: bytes, endorsements: Endorsements = POOL, anchors: TrustAnchors | None = None) -> VerifiedEvidence:
    """Read files of one Attester and verify them under the simulator's anchors."""
    evidence = read_evidence([(f"file{number}", data) for number, data in enumerate(files)]).evidence
    return verify(evidence, endorsements=endorsements, anchors=anchors or TrustAnchors.simulation(), at=AT)
