"""The PCK certificate: what Intel writes about a platform into the certificate of its provisioning key."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeVar

from cryptography import x509
from cryptography.hazmat import asn1

from attest.endorsements.asn1 import inside, tlv
from attest.endorsements.x509 import Certificate
from attest.errors import ChainError, EvidenceError

__all__ = ["PCK_COMMON_NAME", "PckCa", "PckCertificate", "SgxType", "read_pck"]

PCK_COMMON_NAME = "Intel SGX PCK Certificate"
PckCa = Literal["platform", "processor"]
_CAS: dict[str, PckCa] = {"Intel SGX PCK Platform CA": "platform", "Intel SGX PCK Processor CA": "processor"}

_EXTENSION = "1.2.840.113741.1.13.1"
_COMPONENTS = 16
_PCE_SVN = ".2.17"
_CPU_SVN = ".2.18"
_KNOWN = frozenset(f".{number}" for number in range(1, 8))
_KNOWN_TCB = frozenset(f".2.{number}" for number in range(1, 19))
_KNOWN_CONFIGURATION = frozenset(f".7.{number}" for number in range(1, 4))
_ENUMERATED = b"\x0a"
_CLAUSE = "Intel SGX PCK certificate and CRL profile, 3.5; intel-tdx-sgx.md 6"
_T = TypeVar("_T")


class SgxType(enum.IntEnum):
    """Which kind of memory protection the platform has."""

    STANDARD = 0
    SCALABLE = 1
    SCALABLE_WITH_INTEGRITY = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PckCertificate:
    """A PCK certificate with its extension decoded; not trusted until its chain is verified.

    Attributes:
        certificate: the certificate as presented.
        ca: which of Intel's two CAs issued it, by the issuer's CN.
        ppid: platform provisioning id, 16 bytes.
        component_svns: the 16 SVNs that TCB info counts, each 0 to 255; ``cpu_svn`` is the same as bytes.
        cpu_svn: 16 bytes.
        pce_svn: SVN of the provisioning certification enclave, 0 to 65,535.
        pce_id: 2 bytes, in the order written.
        fmspc: family, model, stepping, platform and custom SKU, 6 bytes, in the order written.
        sgx_type: kind of memory protection.
        platform_instance_id: 16 bytes; None where the certificate has none (Processor CA).
        dynamic_platform: packages may be added; None where the certificate does not say (Processor CA).
        cached_keys: Intel holds the platform's root keys; None likewise.
        smt_enabled: simultaneous multithreading; None likewise.
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
class _Member:
    """One pair of object identifier and value."""

    oid: x509.ObjectIdentifier
    value: asn1.TLV


@asn1.sequence
class _MembersHolder:
    """A SEQUENCE of pairs inside a SEQUENCE of our own: the decoder wants a declared structure outside."""

    members: list[_Member]


_Members = Mapping[str, asn1.TLV]


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
    tcb = _members(_whole(_member(found, ".2", "TCB")), "TCB")
    configuration = _members(_whole(found[".7"]), "configuration") if ".7" in found else {}
    components = tuple(_integer(tcb, f".2.{i}", f"TCB component {i}", 0xFF) for i in range(1, _COMPONENTS + 1))
    cpu_svn = _octets(tcb, _CPU_SVN, "CPUSVN", 16)
    if cpu_svn != bytes(components):
        raise _malformed("CPUSVN", f"{bytes(components).hex()}, the components", cpu_svn.hex())
    unknown = (set(found) - _KNOWN) | (set(tcb) - _KNOWN_TCB) | (set(configuration) - _KNOWN_CONFIGURATION)
    return PckCertificate(
        certificate=certificate,
        ppid=_octets(found, ".1", "PPID", 16),
        component_svns=components,
        cpu_svn=cpu_svn,
        pce_svn=_integer(tcb, _PCE_SVN, "PCESVN", 0xFFFF),
        pce_id=_octets(found, ".3", "PCEID", 2),
        fmspc=_octets(found, ".4", "FMSPC", 6),
        sgx_type=_sgx_type(found),
        platform_instance_id=_octets(found, ".6", "platform instance id", 16) if ".6" in found else None,
        dynamic_platform=_boolean(configuration, ".7.1", "dynamic platform"),
        cached_keys=_boolean(configuration, ".7.2", "cached keys"),
        smt_enabled=_boolean(configuration, ".7.3", "SMT enabled"),
        unknown_members=tuple(sorted(unknown)),
        ca=_ca(certificate),
    )


def _ca(certificate: Certificate) -> PckCa:
    if certificate.common_name != PCK_COMMON_NAME:
        raise _misnamed("subject", PCK_COMMON_NAME, certificate.name)
    ca = _CAS.get(certificate.issuer_common_name or "")
    if ca is None:
        raise _misnamed("issuer", " or ".join(_CAS), certificate.issuer_common_name or "a name without one CN")
    return ca


def _members(der: bytes, what: str) -> dict[str, asn1.TLV]:
    """Read a SEQUENCE OF pairs; names are kept relative to the extension's, as ``.2.17``."""
    decoded = _decoded(what, "a SEQUENCE of pairs", lambda: asn1.decode_der(_MembersHolder, tlv(0x30, der)))
    found = {member.oid.dotted_string.removeprefix(_EXTENSION): member.value for member in decoded.members}
    if len(found) != len(decoded.members):
        raise _malformed(what, "each member once", "one that stands twice")
    return found


def _member(found: _Members, name: str, what: str) -> asn1.TLV:
    if name not in found:
        raise _malformed(what, f"a member {_EXTENSION}{name}", "none")
    return found[name]


def _whole(element: asn1.TLV) -> bytes:
    """Put the head back before an element; the decoder takes DER only, so it is the head that was read."""
    return tlv(element.tag_bytes[0], bytes(element.data))


def _decoded(what: str, expected: str, decode: Callable[[], _T]) -> _T:
    try:
        return decode()
    except (ValueError, OverflowError) as exc:
        raise _malformed(what, expected, "other DER") from exc


def _octets(found: _Members, name: str, what: str, size: int) -> bytes:
    element = _member(found, name, what)
    value = _decoded(what, "an OCTET STRING", lambda: inside(element, bytes))
    if len(value) != size:
        raise _malformed(what, f"{size} bytes", f"{len(value)} bytes")
    return value


def _integer(found: _Members, name: str, what: str, most: int) -> int:
    element = _member(found, name, what)
    value = _decoded(what, "an INTEGER", lambda: inside(element, int))
    if not 0 <= value <= most:
        raise _malformed(what, f"0 to {most}", "another number")
    return value


def _boolean(found: _Members, name: str, what: str) -> bool | None:
    element = found.get(name)
    return None if element is None else _decoded(what, "a BOOLEAN", lambda: inside(element, bool))


def _sgx_type(found: _Members) -> SgxType:
    """SGX type is an ENUMERATED, which the decoder does not know: one byte, by its tag."""
    element = _member(found, ".5", "SGX type")
    value = bytes(element.data)
    if element.tag_bytes != _ENUMERATED or value not in {bytes([kind]) for kind in SgxType}:
        raise _malformed("SGX type", "ENUMERATED 0, 1 or 2", f"tag {element.tag_bytes.hex()}, {value.hex()[:40]}")
    return SgxType(value[0])


def _malformed(what: str, expected: str, got: str) -> EvidenceError:
    return EvidenceError(
        f"{what} of the PCK certificate: expected {expected}, got {got}",
        code="pck-malformed",
        field=what,
        expected=expected,
        got=got,
        clause=_CLAUSE,
    )


def _misnamed(whose: str, expected: str, got: str) -> ChainError:
    return ChainError(
        f"{whose} CN of the PCK certificate: expected {expected}, got {got}",
        code="pck-name-unexpected",
        field=f"{whose} CN",
        expected=expected,
        got=got,
        clause="intel-tdx-sgx.md 6, T02",
    )
