"""Tokens in the shapes of Azure, Intel and Google, signed with keys that these tests make."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from attest.results.jose import TokenKey, read_jwks, rsa_jwk

AT = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
NOW = int(AT.timestamp())
MAA = "https://shared.eus.attest.azure.net"
ITA = "https://portal.trustauthority.intel.com"
GOOGLE = "https://confidentialcomputing.googleapis.com"
ISSUERS = {"maa": MAA, "ita": ITA, "google": GOOGLE}
NONCE = b"a nonce of a test, 32 bytes long"
NONCE_TEXT = NONCE.decode()
NONCE_BASE64 = base64.b64encode(NONCE).decode()
REGISTER = "ab" * 48
HASH = "cd" * 32
REPORT_DATA = "ef" * 64


@cache
def rsa_key(number: int = 0, bits: int = 2048) -> rsa.RSAPrivateKey:
    """A key of this run; one number is one key."""
    del number
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


def b64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def sign_rsa(key: rsa.RSAPrivateKey, alg: str, message: bytes) -> bytes:
    if alg == "PS384":
        return key.sign(message, padding.PSS(padding.MGF1(hashes.SHA384()), 48), hashes.SHA384())
    digest = {"RS256": hashes.SHA256(), "RS384": hashes.SHA384(), "RS512": hashes.SHA512()}[alg]
    return key.sign(message, padding.PKCS1v15(), digest)


@dataclass
class Service:
    """A Verifier's service with one RSA key."""

    kid: str = "J0pAPdfXXHqWWimgrH853w/="
    number: int = 0
    header: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> rsa.RSAPrivateKey:
        return rsa_key(self.number)

    def jwk(self, **members: object) -> dict[str, Any]:
        return {**rsa_jwk(self.key.public_key()), "kid": self.kid, **members}

    def jwks(self, **members: object) -> bytes:
        return json.dumps({"keys": [self.jwk(**members)]}).encode()

    def keys(self, **members: object) -> tuple[TokenKey, ...]:
        return read_jwks(self.jwks(**members))

    def sign(self, claims: dict[str, Any] | str, *, alg: str = "RS256", **header: object) -> bytes:
        """A token; header members that are None are left out."""
        head = {"alg": alg, "typ": "JWT", "kid": self.kid, **self.header, **header}
        head = {name: value for name, value in head.items() if value is not None}
        payload = claims if isinstance(claims, str) else json.dumps(claims)
        message = f"{b64url(json.dumps(head).encode())}.{b64url(payload.encode())}"
        return f"{message}.{b64url(sign_rsa(self.key, alg, message.encode()))}".encode()


SERVICE = Service()


def times(**more: object) -> dict[str, Any]:
    return {"iat": NOW - 60, "nbf": NOW - 60, "exp": NOW + 3600, "jti": "b65da1", **more}


def without(claims: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in claims.items() if name not in names}


# -- Azure


def snp(**more: object) -> dict[str, Any]:
    return {
        "x-ms-attestation-type": "sevsnpvm",
        "x-ms-compliance-status": "azure-compliant-cvm",
        "x-ms-sevsnpvm-authorkeydigest": "00" * 48,
        "x-ms-sevsnpvm-bootloader-svn": 10,
        "x-ms-sevsnpvm-chip-family": "Genoa",
        "x-ms-sevsnpvm-chipid": "11" * 64,
        "x-ms-sevsnpvm-familyId": "01" + "00" * 15,
        "x-ms-sevsnpvm-guestsvn": 7,
        "x-ms-sevsnpvm-hostdata": "00" * 32,
        "x-ms-sevsnpvm-idkeydigest": "03" * 48,
        "x-ms-sevsnpvm-imageId": "02" + "00" * 15,
        "x-ms-sevsnpvm-is-debuggable": False,
        "x-ms-sevsnpvm-launchmeasurement": REGISTER,
        "x-ms-sevsnpvm-microcode-svn": 88,
        "x-ms-sevsnpvm-migration-allowed": False,
        "x-ms-sevsnpvm-reportdata": REPORT_DATA,
        "x-ms-sevsnpvm-reportid": HASH,
        "x-ms-sevsnpvm-smt-allowed": True,
        "x-ms-sevsnpvm-snpfw-svn": 27,
        "x-ms-sevsnpvm-tee-svn": 0,
        "x-ms-sevsnpvm-vmpl": 0,
        "x-ms-runtime": {
            "keys": [{"kid": "HCLAkPub", "kty": "RSA", "n": "AQAB", "e": "AQAB"}],
            "user-data": "55" * 64,
            "vm-configuration": {"secure-boot": True, "tpm-enabled": True, "vmUniqueId": "1588CFD1"},
        },
        **more,
    }


def tdx(**more: object) -> dict[str, Any]:
    return {
        "tdx_mrtd": REGISTER,
        **{f"tdx_rtmr{i}": f"{i:02x}" * 48 for i in range(4)},
        "tdx_mrconfigid": "00" * 48,
        "tdx_mrowner": "00" * 48,
        "tdx_mrownerconfig": "00" * 48,
        "tdx_mrseam": "49" * 48,
        "tdx_mrsignerseam": "00" * 48,
        "tdx_report_data": REPORT_DATA,
        "tdx_seam_attributes": "00" * 8,
        "tdx_seamsvn": 269,
        "tdx_td_attributes": "0000001000000000",
        "tdx_td_attributes_debug": False,
        "tdx_td_attributes_key_locker": False,
        "tdx_td_attributes_perfmon": False,
        "tdx_td_attributes_protection_keys": False,
        "tdx_td_attributes_septve_disable": True,
        "tdx_tee_tcb_svn": "0d01" + "00" * 14,
        "tdx_xfam": "e702060000000000",
        "attester_tcb_status": "UpToDate",
        "dbgstat": "disabled",
        **more,
    }


def maa_sgx(**more: object) -> dict[str, Any]:
    return {
        **maa_head(),
        "x-ms-attestation-type": "sgx",
        "x-ms-sgx-ehd": b64url(b"held by the enclave"),
        "x-ms-sgx-is-debuggable": False,
        "x-ms-sgx-mrenclave": HASH,
        "x-ms-sgx-mrsigner": HASH,
        "x-ms-sgx-product-id": 1,
        "x-ms-sgx-svn": 2,
        "x-ms-sgx-config-id": "00" * 64,
        "x-ms-sgx-config-svn": 3451,
        "x-ms-sgx-isv-extended-product-id": "87" * 16,
        "x-ms-sgx-isv-family-id": "12" * 16,
        **more,
    }


def maa_head(**more: object) -> dict[str, Any]:
    return {"iss": MAA, "x-ms-ver": "1.0", "x-ms-policy-hash": b64url(bytes(32)), **times(), **more}


def maa_snp(**more: object) -> dict[str, Any]:
    return {**maa_head(), **snp(), "nonce": NONCE_TEXT, **more}


def maa_tdx(**more: object) -> dict[str, Any]:
    return {
        **maa_head(),
        **tdx(),
        "x-ms-attestation-type": "tdxvm",
        "x-ms-compliance-status": "azure-compliant-cvm",
        "nonce": NONCE_TEXT,
        **more,
    }


def maa_guest(isolation: dict[str, Any] | None = None, **more: object) -> dict[str, Any]:
    """A token of a VM's guest agent: the TEE below, what the virtual TPM's log says around it."""
    return {
        **maa_head(),
        "secureboot": True,
        "x-ms-attestation-type": "azurevm",
        "x-ms-azurevm-attested-pcrs": [0, 1, 2, 7],
        "x-ms-azurevm-kerneldebug-enabled": False,
        "x-ms-azurevm-osdistro": "Ubuntu",
        "x-ms-isolation-tee": snp() if isolation is None else isolation,
        "x-ms-runtime": {"client-payload": {"nonce": NONCE_BASE64}, "keys": []},
        **more,
    }


# -- Intel


def ita_head(**more: object) -> dict[str, Any]:
    return {
        "iss": ITA,
        "ver": "2.0.0",
        "eat_profile": "https://portal.trustauthority.intel.com/eat_profile.html",
        "policy_ids_matched": [{"id": "5a24e414", "version": "v2", "hash": "aDg0"}],
        "policy_ids_unmatched": None,
        **times(),
        **more,
    }


def ita_section(**more: object) -> dict[str, Any]:
    return {
        **tdx(),
        "attester_type": "TDX",
        "attester_tcb_date": "2025-05-14T00:00:00Z",
        "attester_advisory_ids": ["INTEL-SA-01192"],
        "attester_held_data": base64.b64encode(b"a key").decode(),
        "pce_svn": 13,
        "tdx_is_debuggable": False,
        "tdx_is_migratable": False,
        "tdx_collateral": {"fmspc": "00806f050000", "tcbevaluationdatanumber": 20},
        "verifier_nonce": {"val": NONCE_BASE64, "iat": "MjAyNQ==", "signature": "iP4j"},
        **more,
    }


def gpu(**more: object) -> dict[str, Any]:
    return {
        "attester_type": "NVGPU",
        "eat_nonce": "AB" * 32,
        "hwmodel": "GH100 A01 GSP BROM",
        "ueid": "4781",
        "measres": "comparison-successful",
        "secboot": True,
        "x-nvidia-gpu-driver-version": "550.90.07",
        "x-nvidia-gpu-vbios-version": "96.00.9F.00.01",
        "x-nvidia-attestation-detailed-result": {"x-nvidia-gpu-arch-check": True, "x-nvidia-attestation-warning": None},
        **more,
    }


def sgx(**more: object) -> dict[str, Any]:
    return {
        "attester_type": "SGX",
        "attester_tcb_status": "SWHardeningNeeded",
        "dbgstat": "disabled",
        "platform_instance_id": "c5" * 16,
        "sgx_mrenclave": HASH,
        "sgx_mrsigner": HASH,
        "sgx_isvprodid": 0,
        "sgx_isvsvn": 1,
        "sgx_is_debuggable": False,
        "sgx_report_data": REPORT_DATA,
        **more,
    }


def ita_tdx(section: dict[str, Any] | None = None, **more: object) -> dict[str, Any]:
    return {**ita_head(), "tdx": ita_section() if section is None else section, **more}


def ita_flat(**more: object) -> dict[str, Any]:
    """Version 1: the claims of the one TEE at the top."""
    return {**ita_head(ver="1.0.0", iss="Intel Trust Authority"), **ita_section(), **more}


# -- Google


def google_gpu(**more: object) -> dict[str, Any]:
    return {"hwmodel": "GCP_NVIDIA_H100", "driver_version": "550.90.07", "vbios_version": "96.00.9F.00.01", **more}


def google(**more: object) -> dict[str, Any]:
    return {
        "iss": GOOGLE,
        "aud": "https://kms.example",
        "sub": "https://www.googleapis.com/compute/v1/projects/p/zones/z/instances/i",
        "eat_nonce": [NONCE_TEXT, "another nonce"],
        "eat_profile": "https://cloud.google.com/confidential-computing/confidential-space/docs/reference/token-claims",
        "secboot": True,
        "oemid": 11129,
        "hwmodel": "GCP_INTEL_TDX",
        "attester_tcb": ["INTEL"],
        "swname": "CONFIDENTIAL_SPACE",
        "swversion": ["250800"],
        "dbgstat": "disabled-since-boot",
        "google_service_accounts": ["a@example"],
        "tdx": {"gcp_attester_tcb_status": "UpToDate", "gcp_attester_tcb_date": "2024-03-13T00:00:00Z"},
        "submods": submods(),
        **times(),
        **more,
    }


def submods(**more: object) -> dict[str, Any]:
    return {
        "confidential_space": {"monitoring_enabled": {"memory": False}, "support_attributes": ["LATEST", "STABLE"]},
        "container": {
            "image_reference": "example/image@sha256:" + HASH,
            "image_digest": "sha256:" + HASH,
            "image_id": "sha256:" + HASH,
            "restart_policy": "Never",
            "args": ["serve"],
            "env": {"PATH": "/bin"},
        },
        "gce": {"zone": "us-central1-c", "project_id": "p"},
        **more,
    }


SAMPLES: dict[str, dict[str, Any]] = {
    "maa sevsnpvm": maa_snp(),
    "maa tdxvm": maa_tdx(),
    "maa azurevm": maa_guest(),
    "maa sgx": maa_sgx(nonce=NONCE_TEXT),
    "ita tdx": ita_tdx(),
    "ita v1": ita_flat(),
    "ita composite": ita_tdx(nvgpu=gpu()),
    "ita sgx": {**ita_head(), "sgx": sgx(verifier_nonce={"val": NONCE_BASE64})},
    "google": google(submods=submods(nvidia_gpu={"cc_mode": "ON", "gpus": [google_gpu()]})),
}
