"""Runtime claims of the paravisor about its TPM and its VM, covered by the CPU's signature through a digest.

Read only after the digest was compared (azure-cvm.md 10). Known members are typed; unknown ones are kept and shown,
for new paravisors add some.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial

from cryptography.hazmat.primitives.asymmetric import rsa

from attest.encoding import JsonValue, base64url_bytes, hex_bytes, json_value
from attest.endorsements.malformed import malformed

AK_KID = "HCLAkPub"
"""The key of this name signs quotes. The other one, HCLEkPub, decrypts and authenticates nothing."""
USER_DATA_BYTES = 64
_AK_BITS = range(2048, 4097)
_EXPONENT = 65537
_MAX_KEYS = 16
_malformed = partial(
    malformed,
    code="azure-claims-malformed",
    of=" of the runtime claims",
    clause="Microsoft Azure, guest attestation, runtime claims",
)

VM_CONFIGURATION: Mapping[str, tuple[str, type[bool | str]]] = {
    "console-enabled": ("console_enabled", bool),
    "secure-boot": ("secure_boot", bool),
    "tpm-enabled": ("tpm_enabled", bool),
    "tpm-persisted": ("tpm_persisted", bool),
    "filtered-vpci-devices-allowed": ("filtered_vpci_devices_allowed", bool),
    "vmUniqueId": ("vm_unique_id", str),
    "root-cert-thumbprint": ("root_cert_thumbprint", str),
}
"""Members of vm-configuration: their names in our claims, and their types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeClaims:
    """Runtime claims, read.

    Attributes:
        ak: the public key with which the virtual TPM signs quotes, RSA of 2,048 to 4,096 bits.
        vm_configuration: the known settings of the VM, by our names.
        user_data: 64 bytes that the guest wrote before the report was made; None when there are none.
        unknown: members that this version does not know, path to compact JSON.
    """

    ak: rsa.RSAPublicKey
    vm_configuration: Mapping[str, bool | str]
    user_data: bytes | None
    unknown: Mapping[str, str]


@lru_cache(maxsize=64)
def parse_runtime_claims(data: bytes) -> RuntimeClaims:
    """Read runtime claims.

    Raises:
        EvidenceError: ``json-invalid``, ``azure-claims-malformed``, ``base64-invalid`` or ``hex-invalid``.

    Spec: specs/azure-cvm.md, section 3 and check A02.
    """
    document = json_value(data, what="runtime claims")
    if not isinstance(document, dict):
        raise _malformed("runtime claims", "an object", "another value")
    configuration, unknown = _configuration(document.get("vm-configuration", {}))
    unknown |= _unknown("", document, known={"keys", "vm-configuration", "user-data"})
    return RuntimeClaims(
        ak=_attestation_key(document.get("keys")),
        vm_configuration=configuration,
        user_data=_user_data(document["user-data"]) if "user-data" in document else None,
        unknown=unknown,
    )


def _attestation_key(keys: JsonValue) -> rsa.RSAPublicKey:
    """Return the one key with the attestation key's name; its operations, wrong in old paravisors, are not judged."""
    if not isinstance(keys, list) or len(keys) > _MAX_KEYS:
        raise _malformed("keys", f"an array of at most {_MAX_KEYS} keys", "another value")
    found = [key for key in keys if isinstance(key, dict) and key.get("kid") == AK_KID]
    if len(found) != 1:
        raise _malformed("keys", f"one key {AK_KID}", f"{len(found)}")
    key = found[0]
    if key.get("kty") != "RSA":
        raise _malformed(f"{AK_KID}.kty", "RSA", "another kind of key")
    modulus, exponent = (_number(key.get(name), f"{AK_KID}.{name}") for name in ("n", "e"))
    if exponent != _EXPONENT or modulus.bit_length() not in _AK_BITS or not modulus & 1:
        expected = f"an odd modulus of {_AK_BITS.start} to {_AK_BITS.stop - 1} bits, exponent {_EXPONENT}"
        raise _malformed(AK_KID, expected, f"{modulus.bit_length()} bits, exponent {str(exponent)[:20]}")
    return rsa.RSAPublicNumbers(exponent, modulus).public_key()


def _number(value: JsonValue, path: str) -> int:
    if not isinstance(value, str):
        raise _malformed(path, "base64url text", "another value")
    return int.from_bytes(base64url_bytes(value, what=path), "big")


def _configuration(value: JsonValue) -> tuple[dict[str, bool | str], dict[str, str]]:
    if not isinstance(value, dict):
        raise _malformed("vm-configuration", "an object", "another value")
    known: dict[str, bool | str] = {}
    for member, (name, kind) in VM_CONFIGURATION.items():
        found = value.get(member)
        if member not in value:
            continue
        if not isinstance(found, bool | str) or not isinstance(found, kind):
            expected = "true or false" if kind is bool else "text"
            raise _malformed(f"vm-configuration.{member}", expected, "another value")
        known[name] = found
    return known, _unknown("vm-configuration.", value, known=set(VM_CONFIGURATION))


def _unknown(prefix: str, document: Mapping[str, JsonValue], *, known: set[str]) -> dict[str, str]:
    return {
        prefix + name: json.dumps(value, separators=(",", ":")) for name, value in document.items() if name not in known
    }


def _user_data(value: JsonValue) -> bytes:
    if not isinstance(value, str):
        raise _malformed("user-data", f"{2 * USER_DATA_BYTES} hex digits", "another value")
    return hex_bytes(value, what="user-data", length=USER_DATA_BYTES)
