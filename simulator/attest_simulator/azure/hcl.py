"""The paravisor's output: runtime claims in JSON, and its report (HCL report) around the CPU's.

Written independently of the parser's tables: their agreement is a test. Every field of a report can be replaced, so
that a test can build invalid ones.

Spec: specs/azure-cvm.md, sections 2 and 3.
"""

from __future__ import annotations

import hashlib
import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives.asymmetric import rsa

HCL_BYTES: Final = 2600
"""Size of the NV index, and so of the report with its padding."""
USER_DATA_BYTES: Final = 64

_HARDWARE_BYTES = 1184
_HASHES: Mapping[int, str] = {1: "sha256", 2: "sha384", 3: "sha512"}


@dataclass(frozen=True, slots=True, kw_only=True)
class VmConfiguration:
    """The paravisor's statement about the VM's settings. The defaults are those of real VMs.

    Attributes:
        vm_unique_id: a UUID; in upper case on SNP hosts, in lower case on TDX hosts.
        secure_boot: the firmware verifies boot programs.
        console_enabled: the host has a console.
        tpm_enabled: there is a virtual TPM.
        tpm_persisted: its state outlives the VM; in new paravisors only.
        filtered_vpci_devices_allowed: in new paravisors only.
        root_cert_thumbprint: in new paravisors only.
    """

    vm_unique_id: str
    secure_boot: bool = True
    console_enabled: bool = True
    tpm_enabled: bool = True
    tpm_persisted: bool = True
    filtered_vpci_devices_allowed: bool = False
    root_cert_thumbprint: str = ""

    def members(self, *, version: int) -> dict[str, bool | str]:
        """Return the members in the order of a paravisor with this version of the report."""
        shared: dict[str, bool | str] = {
            "console-enabled": self.console_enabled,
            "secure-boot": self.secure_boot,
            "tpm-enabled": self.tpm_enabled,
        }
        if version == 1:
            return shared | {"vmUniqueId": self.vm_unique_id}
        return {
            "root-cert-thumbprint": self.root_cert_thumbprint,
            **shared,
            "tpm-persisted": self.tpm_persisted,
            "filtered-vpci-devices-allowed": self.filtered_vpci_devices_allowed,
            "vmUniqueId": self.vm_unique_id,
        }


def runtime_claims(
    *,
    ak_public: rsa.RSAPublicKey,
    ek_public: rsa.RSAPublicKey | None,
    user_data: bytes,
    configuration: VmConfiguration,
    version: int,
) -> bytes:
    """Return runtime claims: JSON without white space, members in the paravisor's order.

    Args:
        ak_public: signing key of the TPM's quotes.
        ek_public: decryption key; None leaves it out, as old paravisors do.
        user_data: the guest's 64 bytes.
        configuration: settings of the VM.
        version: of the report around them, 1 or 2; new paravisors have more members.

    Raises:
        ValueError: ``user_data`` of another length.
    """
    if len(user_data) != USER_DATA_BYTES:
        raise ValueError(f"user data has {USER_DATA_BYTES} bytes, got {len(user_data)}")
    document = {
        "keys": [
            _jwk("HCLAkPub", "sign", ak_public),
            *([] if ek_public is None else [_jwk("HCLEkPub", "encrypt", ek_public)]),
        ],
        "vm-configuration": configuration.members(version=version),
        "user-data": user_data.hex().upper() if version == 1 else user_data.hex(),
    }
    return json.dumps(document, separators=(",", ":")).encode("ascii")


def _jwk(kid: str, operation: str, key: rsa.RSAPublicKey) -> dict[str, object]:
    numbers = key.public_numbers()
    return {"kid": kid, "key_ops": [operation], "kty": "RSA", "e": _base64(numbers.e), "n": _base64(numbers.n)}


def _base64(number: int) -> str:
    data = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


@dataclass(frozen=True, slots=True, kw_only=True)
class HclTemplate:
    """A paravisor's report before encoding; ``dataclasses.replace`` makes invalid ones.

    Attributes:
        version: 1 or 2.
        report_type: 2 SNP, 4 TDX.
        hardware_report: SNP report, 1,184 bytes, or TDREPORT, 1,024.
        runtime_data: runtime claims.
        hash_type: 1 SHA-256, 2 SHA-384, 3 SHA-512.
        request_type: 2.
        status: 0.
        data_version: 1.
    """

    version: int
    report_type: int
    hardware_report: bytes
    runtime_data: bytes
    hash_type: int = 1
    request_type: int = 2
    status: int = 0
    data_version: int = 1

    def to_bytes(self, *, size: int = HCL_BYTES) -> bytes:
        """Return the report.

        Args:
            size: length with padding.

        Raises:
            ValueError: the report is longer.
        """
        runtime_size = len(self.runtime_data)
        made = b"".join(
            (
                b"HCLA",
                _u32(self.version, 0x4D4 + runtime_size, self.request_type, self.status),
                bytes(12),
                self.hardware_report.ljust(_HARDWARE_BYTES, b"\0"),
                _u32(20 + runtime_size, self.data_version, self.report_type, self.hash_type, runtime_size),
                self.runtime_data,
            )
        )
        if len(made) > size:
            raise ValueError(f"the paravisor's report has {len(made)} bytes, more than the {size} of its NV index")
        return made.ljust(size, b"\0")


def committed(runtime_data: bytes, *, hash_type: int = 1) -> bytes:
    """Return the REPORT_DATA of runtime claims: their digest, left-aligned in 64 bytes."""
    return hashlib.new(_HASHES[hash_type], runtime_data).digest().ljust(64, b"\0")


def _u32(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, "little") for value in values)
