"""A made-up Azure VM: a simulated CPU below a paravisor whose TPM has a key of the tests."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from attest.checks import Unchecked
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.evidence.azure.forms import RawTpmQuote, azure_json
from attest.evidence.azure.structure import HCL, HclReportType, ParsedHclReport
from attest.evidence.binding import ExpectedBinding
from attest.evidence.envelope import MEDIA_AZURE_CVM, Evidence, EvidenceItem
from attest.evidence.snp.tcb import SnpProduct
from attest.evidence.tolerances import NO_DEVICE_TOLERANCES, DeviceTolerances
from attest.evidence.tpm.structure import SHA256, ParsedTpmQuote, PcrSelection, bitmap_of
from attest.verification import ExpectedFreshness, VerifiedEvidence, verify
from attest_simulator import SimulatedChip, SimulatedGuest
from attest_simulator.azure.keys import tpm_key
from attest_simulator.intel import SimulatedPlatform, SimulatedTd
from tests.samples import AT

NONCE = bytes(range(32))
ASKED = ExpectedFreshness(nonce=NONCE)
ALL = tuple(range(24))
PCRS = tuple(sha256(b"PCR %d" % index).digest() for index in ALL)
CHIP = SimulatedChip.of(SnpProduct.GENOA)
PLATFORM = SimulatedPlatform.of()


def key(name: str = "AK") -> rsa.RSAPrivateKey:
    """Return the key of this name, the same in each run."""
    return tpm_key("VM 0", name)


def jwk(private: rsa.RSAPrivateKey, kid: str = "HCLAkPub") -> dict[str, Any]:
    """Return the public half as runtime claims have it."""
    numbers = private.public_key().public_numbers()
    n, e = (
        base64.urlsafe_b64encode(i.to_bytes((i.bit_length() + 7) // 8)).rstrip(b"=") for i in (numbers.n, numbers.e)
    )
    return {"kid": kid, "key_ops": ["sign"], "kty": "RSA", "e": e.decode(), "n": n.decode()}


def quote(**changes: Any) -> ParsedTpmQuote:  # noqa: ANN401
    """Return a quote over all registers, with changes."""
    plain = ParsedTpmQuote(
        raw=b"",
        qualified_signer=b"\x00\x0b" + bytes(32),
        extra_data=NONCE,
        clock=123456789,
        reset_count=2,
        restart_count=1,
        safe=True,
        firmware_version=0x2020031200120003,
        selections=(PcrSelection(algorithm=SHA256, bitmap=bitmap_of(ALL)),),
        pcr_digest=sha256(b"".join(PCRS)).digest(),
    )
    return replace(plain, **changes)


@dataclass(frozen=True, kw_only=True)
class AzureVm:
    """One VM at one moment, and everything that an attacker may change of it."""

    kind: HclReportType = HclReportType.SNP
    claims: Mapping[str, Any] = field(default_factory=dict)
    runtime: bytes | None = None
    tpm: ParsedTpmQuote = field(default_factory=quote)
    pcrs: tuple[bytes, ...] = PCRS
    signer: str = "AK"
    report_data: bytes | None = None
    cpu: Mapping[str, Any] = field(default_factory=dict)
    td_report_data: bytes | None = None
    td_info: bytes | None = None
    hash_type: int = 1
    version: int = 1

    @property
    def runtime_data(self) -> bytes:
        """The runtime claims."""
        if self.runtime is not None:
            return self.runtime
        plain = {
            "keys": [jwk(key()), jwk(key("EK"), "HCLEkPub")],
            "vm-configuration": {"console-enabled": False, "secure-boot": True, "tpm-enabled": True, "vmUniqueId": "X"},
            "user-data": "00" * 64,
        }
        return json.dumps(plain | dict(self.claims)).encode()

    @property
    def committed(self) -> bytes:
        """REPORT_DATA."""
        plain = ParsedHclReport(
            raw=b"",
            version=2,
            report_type=self.kind,
            hash_type=self.hash_type,
            hardware_report=bytes(1184),
            runtime_data=self.runtime_data,
            padding_bytes=0,
        )
        return plain.runtime_digest if self.report_data is None else self.report_data

    @property
    def td_quote(self) -> bytes | None:
        """The TD quote, of a VM on TDX."""
        if self.kind is HclReportType.SNP:
            return None
        return SimulatedTd(platform=PLATFORM, log=()).quote(self.committed, override=self.cpu)

    @property
    def hardware_report(self) -> bytes:
        """SNP report or TDREPORT."""
        if self.kind is HclReportType.SNP:
            return SimulatedGuest(chip=CHIP).report(self.committed, override=self.cpu)
        body = SimulatedTd(platform=PLATFORM, log=()).report(self.committed, override=self.cpu)
        data = self.committed if self.td_report_data is None else self.td_report_data
        info = body[120:520] if self.td_info is None else self.td_info
        return (bytes(128) + data).ljust(512, b"\0") + info.ljust(1184 - 512, b"\0")

    @property
    def hcl(self) -> bytes:
        """The paravisor's report."""
        size = len(self.runtime_data)
        head = HCL.encode(
            {
                "signature": b"HCLA",
                "version": 2,
                "report_size": HCL.size + size,
                "request_type": 2,
                "status": 0,
                "hardware_report": self.hardware_report,
                "data_size": 20 + size,
                "data_version": 1,
                "report_type": int(self.kind),
                "hash_type": self.hash_type,
                "runtime_size": size,
            }
        )
        return (head + self.runtime_data).ljust(2600, b"\0")

    @property
    def raw_quote(self) -> RawTpmQuote:
        """What the TPM gave."""
        message = self.tpm.to_bytes()
        return RawTpmQuote(signed(message, self.signer), message, self.pcrs)

    @property
    def json(self) -> bytes:
        """The evidence, without a VCEK."""
        return azure_json(hcl=self.hcl, tpm=self.raw_quote, td_quote=self.td_quote, version=self.version)

    @property
    def endorsements(self) -> Endorsements:
        """What AMD or Intel say."""
        if self.kind is HclReportType.SNP:
            return CHIP.endorsements(at=AT)
        return PLATFORM.collateral("tdx", at=AT).endorsements()


def signed(message: bytes, name: str = "AK") -> bytes:
    """Return the signature of the key of this name."""
    return key(name).sign(message, padding.PKCS1v15(), hashes.SHA256())


def item(data: bytes) -> EvidenceItem:
    """Return Azure evidence as an item."""
    return EvidenceItem(name="cpu", media_type=MEDIA_AZURE_CVM, value=data)


def judged(
    vm: AzureVm,
    *others: EvidenceItem,
    data: bytes | None = None,
    expected: ExpectedFreshness | ExpectedBinding | None = ASKED,
    endorsements: Endorsements | None = None,
    unchecked: tuple[Unchecked, ...] = (),
    tolerances: DeviceTolerances = NO_DEVICE_TOLERANCES,
) -> VerifiedEvidence:
    """Verify a VM's evidence, or ``data`` in its place."""
    return verify(
        Evidence(items=(item(vm.json if data is None else data), *others)),
        endorsements=vm.endorsements if endorsements is None else endorsements,
        anchors=TrustAnchors.simulation(),
        at=AT,
        expected=expected,
        unchecked=unchecked,
        tolerances=tolerances,
    )
