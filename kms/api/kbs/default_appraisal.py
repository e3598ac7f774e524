"""The AR4SI vector of a guest when its administrator has uploaded no attestation policy.

It reads the reference values that administrators of Trustee upload, under the same names. A rule without a reference
value does not hold. The vector is information for the token and for resource policies; whether a key is released is
decided by the key's own policy.

Spec: specs/kbs-protocol.md, section 12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from attest.encoding import JsonValue

_FAILED: Final = {"executables": 33, "hardware": 97, "configuration": 36}
_MEMBERS: Final = (
    "instance-identity",
    "configuration",
    "executables",
    "file-system",
    "hardware",
    "runtime-opaque",
    "storage-opaque",
    "sourced-data",
)
_TDX_VENDOR: Final = "939a7233f79c4ca9940a0db3957f0607"
Claims = Mapping[str, JsonValue]
References = Mapping[str, JsonValue]


class _Guest:
    """Claims of one TEE beside the reference values."""

    def __init__(self, claims: Claims, references: References) -> None:
        self._claims = claims
        self._references = references

    def claim(self, path: str) -> JsonValue:
        """Return the claim of a dotted path, or None."""
        found: JsonValue = dict(self._claims)
        for name in path.split("."):
            found = found.get(name) if isinstance(found, dict) else None
        return found

    def is_one_of(self, **names: str) -> bool:
        """Return whether each claim is among its reference values; ``__`` in a name is a dot."""
        return all(self._among(claim.replace("__", "."), reference) for claim, reference in names.items())

    def _among(self, path: str, reference: str) -> bool:
        claim, values = self.claim(path), self._references.get(reference)
        return claim is not None and isinstance(values, list) and any(_same(claim, value) for value in values)

    def equals(self, **names: str) -> bool:
        """Return whether each claim is its one reference value."""
        return all(
            name in self._references and _same(self.claim(claim.replace("__", ".")), self._references[name])
            for claim, name in names.items()
        )

    def at_least(self, path: str, reference: str) -> bool:
        """Return whether a number reaches its reference value."""
        claim, least = self.claim(path), self._references.get(reference)
        return type(claim) is int and type(least) is int and claim >= least


def _same(one: JsonValue, other: JsonValue) -> bool:
    """Compare values of one type: true is no 1."""
    return type(one) is type(other) and one == other


def _sample(guest: _Guest) -> Iterable[tuple[str, int]]:
    if guest.is_one_of(launch_digest="launch_digest"):
        yield "executables", 3
    if (
        guest.is_one_of(svn="svn")
        and guest.equals(platform_version__major="major_version")
        and guest.at_least("platform_version.minor", "minimum_minor_version")
    ):
        yield "hardware", 2
    if guest.claim("debug") is False:
        yield "configuration", 2


def _snp(guest: _Guest) -> Iterable[tuple[str, int]]:
    if guest.is_one_of(measurement="snp_launch_measurement"):
        yield "executables", 3
    if guest.is_one_of(
        reported_tcb_bootloader="snp_bootloader",
        reported_tcb_microcode="snp_microcode",
        reported_tcb_snp="snp_snp_svn",
        reported_tcb_tee="snp_tee_svn",
    ):
        yield "hardware", 2
    if guest.claim("policy_debug_allowed") is False and guest.claim("policy_migrate_ma") is False:
        exact = guest.equals(
            platform_smt_enabled="snp_smt_enabled",
            platform_tsme_enabled="snp_tsme_enabled",
            policy_abi_major="snp_guest_abi_major",
            policy_abi_minor="snp_guest_abi_minor",
            policy_single_socket="snp_single_socket",
            policy_smt_allowed="snp_smt_allowed",
        )
        yield "configuration", 2 if exact else 3


def _td(guest: _Guest) -> bool:
    return (
        guest.claim("quote.header.tee_type") == "81000000"
        and guest.claim("quote.header.vendor_id") == _TDX_VENDOR
        and guest.is_one_of(quote__body__mr_td="mr_td")
        and guest.claim("tcb_status") == "UpToDate"
    )


def _tdx(guest: _Guest) -> Iterable[tuple[str, int]]:
    if guest.is_one_of(quote__body__rtmr_1="rtmr_1", quote__body__rtmr_2="rtmr_2"):
        yield "executables", 4
    if _td(guest) and guest.claim("collateral_expiration_status") == "0":
        yield "hardware", 2
    if guest.claim("td_attributes.debug") is False and guest.is_one_of(quote__body__xfam="xfam"):
        yield "configuration", 2


def _azure_snp(guest: _Guest) -> Iterable[tuple[str, int]]:
    if guest.is_one_of(measurement="measurement", tpm__pcr11="snp_pcr11"):
        yield "executables", 3
    if guest.is_one_of(
        reported_tcb_bootloader="tcb_bootloader",
        reported_tcb_microcode="tcb_microcode",
        reported_tcb_snp="tcb_snp",
        reported_tcb_tee="tcb_tee",
    ):
        yield "hardware", 2
    if guest.is_one_of(
        platform_smt_enabled="smt_enabled",
        platform_tsme_enabled="tsme_enabled",
        policy_abi_major="abi_major",
        policy_abi_minor="abi_minor",
        policy_single_socket="single_socket",
        policy_smt_allowed="smt_allowed",
    ):
        yield "configuration", 2


def _azure_tdx(guest: _Guest) -> Iterable[tuple[str, int]]:
    if guest.is_one_of(tpm__pcr11="tdx_pcr11"):
        yield "executables", 3
    if _td(guest):
        yield "hardware", 2
    if guest.is_one_of(quote__body__xfam="xfam"):
        yield "configuration", 2


_RULES: Final[Mapping[str, Callable[[_Guest], Iterable[tuple[str, int]]]]] = {
    "sample": _sample,
    "snp": _snp,
    "tdx": _tdx,
    "az-snp-vtpm": _azure_snp,
    "az-tdx-vtpm": _azure_tdx,
}


def default_vector(tee: str, claims: Claims, references: References) -> dict[str, int]:
    """Return the vector of one TEE or device, all eight members; those without a rule are 0, and devices have none."""
    vector = {**dict.fromkeys(_MEMBERS, 0), **_FAILED}
    rules = _RULES.get(tee)
    if rules is not None:
        vector.update(rules(_Guest(claims, references)))
    return vector
