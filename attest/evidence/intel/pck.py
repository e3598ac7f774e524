"""The PCK certificate: what Intel writes about a platform into the certificate of its provisioning key."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import Literal, TypeVar

from cryptography import x509
from cryptography.hazmat import asn1

from attest.endorsements.asn1 import inside, tlv, whole
from attest.endorsements.malformed import malformed
from attest.endorsements.x509 import Certificate
from attest.errors import ChainError

PCK_COMMON_NAME = "Intel SGX PCK Certificate"
PckCa = Literal["platform", "processor"]
_CAS: dict[str, PckCa] = {"Intel SGX PCK Platform CA": "platform", "Intel SGX PCK Processor CA": "processor"}

_EXTENSION = "1.2.840.113741.1.13.1"


def _identifiers(owner: str, count: int) -> tuple[x509.ObjectIdentifier, ...]:
    return tuple(x509.ObjectIdentifier(f"{owner}.{number}") for number in range(1, count + 1))


_PPID, _TCB, _PCE_ID, _FMSPC, _SGX_TYPE, _INSTANCE, _CONFIGURATION = _identifiers(_EXTENSION, 7)
*_COMPONENTS, _PCE_SVN, _CPU_SVN = _identifiers(f"{_EXTENSION}.2", 18)
_DYNAMIC, _CACHED_KEYS, _SMT = _identifiers(f"{_EXTENSION}.7", 3)
_MEMBERS = frozenset(_identifiers(_EXTENSION, 7))
_TCB_MEMBERS = frozenset(_identifiers(f"{_EXTENSION}.2", 18))
_CONFIGURATION_MEMBERS = frozenset(_identifiers(f"{_EXTENSION}.7", 3))
_MAX_SVN = 0xFF
_ENUMERATED = 0x0A
_malformed = partial(
    malformed,
    code="pck-malformed",
    of=" of the PCK certificate",
    clause="Intel SGX PCK certificate and CRL profile, 3.5",
)
_T = TypeVar("_T")


class SgxType(enum.IntEnum):
    """Kind of memory protection of the platform."""

    STANDARD = 0
    SCALABLE = 1
    SCALABLE_WITH_INTEGRITY = 2


_SGX_TYPES = {tlv(_ENUMERATED, bytes([kind])): kind for kind in SgxType}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PckCertificate:
    """A PCK certificate with its extension decoded; not trusted until its chain is verified.

    Attributes:
        ca: the issuing CA, one of Intel's two, by the issuer's CN.
        ppid: platform provisioning id, 16 bytes.
        component_svns: the 16 SVNs that TCB info counts, each 0 to 255; ``cpu_svn`` is the same as bytes.
        cpu_svn: 16 bytes.
        pce_svn: SVN of the provisioning certification enclave, 0 to 65,535.
        pce_id: 2 bytes, in the order written.
        fmspc: family, model, stepping, platform and custom SKU, 6 bytes, in the order written.
        platform_instance_id: 16 bytes; None where the certificate has none (Processor CA).
        dynamic_platform: packages may be added; None where the certificate does not say (Processor CA).
        cached_keys: Intel holds the platform's root keys; None as above.
        smt_enabled: simultaneous multithreading; None as above.
        unknown_members: object identifiers in the extension that have no meaning here.
    """

    certificate: Certificate
    ca: PckCa
    ppid: bytes
    component_svns: tuple[int, ...]
    cpu_svn: bytes
    pce_svn: int
    pce_id: bytes
    fmspc: bytes
    sgx_type: SgxType
    platform_instance_id: bytes | None
    dynamic_platform: bool | None
    cached_keys: bool | None
    smt_enabled: bool | None
    unknown_members: tuple[str, ...]


@asn1.sequence
class _Member(SimpleNamespace):
    """One pair of object identifier and value, the value left as it is; see ``endorsements.asn1`` for its base."""

    __init__ = SimpleNamespace.__init__
    oid: x509.ObjectIdentifier
    value: asn1.TLV


@asn1.sequence
class _MembersHolder:
    """A SEQUENCE of pairs inside another SEQUENCE: the decoder needs a declared outer structure."""

    members: list[_Member]


_Members = Mapping[x509.ObjectIdentifier, asn1.TLV]


@lru_cache(maxsize=1024)
def read_pck(certificate: Certificate) -> PckCertificate:
    """Decode the SGX extension of a PCK certificate.

    Members that are not known are listed and otherwise ignored: Intel may add some.

    Raises:
        EvidenceError: ``pck-malformed``: no such extension, a member missing, repeated, out of range or unreadable,
            or a CPUSVN that differs from the components.
        ChainError: ``pck-name-unexpected``: the subject's or the issuer's CN is not that of a PCK certificate.

    Spec: Intel SGX PCK certificate and CRL profile, section 3.5; specs/intel-tdx-sgx.md, section 6, check T03.
    """
    extension = certificate.extension(_EXTENSION)
    if extension is None:
        raise _malformed("SGX extension", _EXTENSION, "none")
    found = _members(extension.value, "SGX extension")
    tcb = _members(whole(_member(found, _TCB, "TCB")), "TCB")
    configuration: _Members = {}
    if _CONFIGURATION in found:
        configuration = _members(whole(found[_CONFIGURATION]), "configuration")
    components = tuple(_integer(tcb, oid, f"TCB component {i}", _MAX_SVN) for i, oid in enumerate(_COMPONENTS, 1))
    cpu_svn = _octets(tcb, _CPU_SVN, "CPUSVN", 16)
    if cpu_svn != bytes(components):
        raise _malformed("CPUSVN", f"{bytes(components).hex()}, the components", cpu_svn.hex())
    unknown = (found.keys() - _MEMBERS) | (tcb.keys() - _TCB_MEMBERS) | (configuration.keys() - _CONFIGURATION_MEMBERS)
    return PckCertificate(
        certificate=certificate,
        ppid=_octets(found, _PPID, "PPID", 16),
        component_svns=components,
        cpu_svn=cpu_svn,
        pce_svn=_integer(tcb, _PCE_SVN, "PCESVN", 0xFFFF),
        pce_id=_octets(found, _PCE_ID, "PCEID", 2),
        fmspc=_octets(found, _FMSPC, "FMSPC", 6),
        sgx_type=_sgx_type(_member(found, _SGX_TYPE, "SGX type")),
        platform_instance_id=_octets(found, _INSTANCE, "platform instance id", 16) if _INSTANCE in found else None,
        dynamic_platform=_boolean(configuration, _DYNAMIC, "dynamic platform"),
        cached_keys=_boolean(configuration, _CACHED_KEYS, "cached keys"),
        smt_enabled=_boolean(configuration, _SMT, "SMT enabled"),
        unknown_members=tuple(sorted(oid.dotted_string.removeprefix(_EXTENSION) for oid in unknown)),
        ca=_ca(certificate),
    )


def _ca(certificate: Certificate) -> PckCa:
    if certificate.common_name != PCK_COMMON_NAME:
        raise _misnamed("subject", PCK_COMMON_NAME, certificate.name)
    ca = _CAS.get(certificate.issuer_common_name or "")
    if ca is None:
        raise _misnamed("issuer", " or ".join(_CAS), certificate.issuer_common_name or "a name without one CN")
    return ca


def _members(der: bytes, what: str) -> _Members:
    """Read a SEQUENCE OF pairs, each member once."""
    holder = tlv(0x30, der)
    decoded = _decoded(what, "a SEQUENCE of pairs", lambda: asn1.decode_der(_MembersHolder, holder)).members
    found = {member.oid: member.value for member in decoded}
    if len(found) != len(decoded):
        raise _malformed(what, "each member once", "one that occurs twice")
    return found


def _member(found: _Members, oid: x509.ObjectIdentifier, what: str) -> asn1.TLV:
    if oid not in found:
        raise _malformed(what, f"a member {oid.dotted_string}", "none")
    return found[oid]


def _decoded(what: str, expected: str, decode: Callable[[], _T]) -> _T:
    try:
        return decode()
    except (ValueError, OverflowError) as exc:
        raise _malformed(what, expected, "other DER") from exc


def _typed(value: asn1.TLV, kind: type[_T], what: str, expected: str) -> _T:
    return _decoded(what, expected, lambda: inside(value, kind))


def _octets(found: _Members, oid: x509.ObjectIdentifier, what: str, size: int) -> bytes:
    value = _typed(_member(found, oid, what), bytes, what, "an OCTET STRING")
    if len(value) != size:
        raise _malformed(what, f"{size} bytes", f"{len(value)} bytes")
    return value


def _integer(found: _Members, oid: x509.ObjectIdentifier, what: str, most: int) -> int:
    value = _typed(_member(found, oid, what), int, what, "an INTEGER")
    if not 0 <= value <= most:
        raise _malformed(what, f"0 to {most}", "another number")
    return value


def _boolean(found: _Members, oid: x509.ObjectIdentifier, what: str) -> bool | None:
    value = found.get(oid)
    return None if value is None else _typed(value, bool, what, "a BOOLEAN")


def _sgx_type(value: asn1.TLV) -> SgxType:
    """SGX type is an ENUMERATED, which the decoder does not know: it is compared as a whole."""
    kind = _SGX_TYPES.get(whole(value))
    if kind is None:
        raise _malformed("SGX type", "ENUMERATED 0, 1 or 2", f"tag {value.tag_bytes.hex()}, {value.data.hex()[:40]}")
    return kind


def _misnamed(whose: str, expected: str, got: str) -> ChainError:
    return ChainError(
        f"{whose} CN of the PCK certificate: expected {expected}, got {got}",
        code="pck-name-unexpected",
        field=f"{whose} CN",
        expected=expected,
        got=got,
        clause="Intel SGX PCK certificate and CRL profile",
    )
