"""The policies of NVIDIA's Python tools as policies of ours.

Most demands of such a policy are that steps of verification succeeded. Ours never appraises evidence that failed one
of them, so verification itself carries those demands, with the keys that would relax it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from attest.encoding import JsonValue
from attest.policy.foreign.conversion import (
    CannotCarryError,
    Carried,
    Conversion,
    ConvertedSection,
    Loss,
    accepted_losses,
    finish_policy,
    impossible,
    not_demanded,
)
from attest.policy.foreign.nvidia_json import NvidiaPolicy, leaves
from attest.policy.versions import Numbering, parse_version

_SOURCE = "NVIDIA policy"
_VERIFICATION, _REVOCATION, _FRESHNESS = "verification", "verification (revocation)", "verification (freshness)"
_PREFIXES = {"gpu": "x-nvidia-gpu-", "nvswitch": "x-nvidia-switch-"}
_RIMS = {"gpu": ("driver-rim", "vbios-rim"), "nvswitch": ("bios-rim",)}
_DEVICE_TYPES = ("gpu", "nvswitch")
"""NVIDIA's names of them, which are our keys too."""
_STRICT: Mapping[str, JsonValue] = MappingProxyType({"rim": True, "fwid_required": True, "held_rim_signers": False})
"""Keys with their strict defaults; a conversion writes them out."""


def _carried_by(kind: str, claims_version: str) -> dict[tuple[str, ...], tuple[JsonValue, str]]:
    """Return each claim that can be carried, with the only value, and by what."""
    prefix, rim = _PREFIXES[kind], f"{kind}.rim"
    report = f"{prefix}attestation-report"
    table: dict[tuple[str, ...], tuple[JsonValue, str]] = {
        ("measres",): ("success", rim),
        ("secboot",): (True, rim),  # NVIDIA's verifiers derive both from measres
        ("dbgstat",): ("disabled", rim),
        (f"{prefix}arch-check",): (True, _VERIFICATION),
        (f"{report}-parsed",): (True, _VERIFICATION),
        (f"{report}-signature-verified",): (True, _VERIFICATION),
        (f"{report}-nonce-match",): (True, _FRESHNESS),
    }
    if kind == "gpu":
        table[(f"{report}-cert-chain-fwid-match",)] = (True, "gpu.fwid_required")
        table[(f"{prefix}vbios-index-no-conflict",)] = (True, rim)
    for name in _RIMS[kind]:
        for step in ("fetched", "schema-validated", "signature-verified", "version-match", "measurements-available"):
            table[(f"{prefix}{name}-{step}",)] = (True, rim)
    chains = {f"{report}-cert-chain": _REVOCATION} | {
        f"{prefix}{name}-cert-chain": f"{kind}.held_rim_signers" for name in _RIMS[kind]
    }
    for chain, target in chains.items():
        table |= _chain(chain, target, claims_version)
    return table


def _chain(chain: str, target: str, claims_version: str) -> dict[tuple[str, ...], tuple[JsonValue, str]]:
    """Claims version 3.0 describes a chain in an object; 2.0 has one boolean, without ``-chain`` for those of RIMs."""
    if claims_version == "2.0":
        flat = chain if chain.endswith("attestation-report-cert-chain") else chain.removesuffix("-chain")
        return {(f"{flat}-validated",): (True, target)}
    return {
        (chain, "x-nvidia-cert-status"): ("valid", target),
        (chain, "x-nvidia-cert-ocsp-status"): ("good", target),
        (chain, "x-nvidia-cert-ocsp-response-valid"): (True, target),
        (chain, "x-nvidia-cert-revocation-reason"): (None, target),
    }


_TOKEN = ("it concerns the token, and attest policies appraise evidence", "check it where the token is checked")
_LOST: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "hwmodel": (
            "attest policies have no key for models",
            "state architectures (GH100 is hopper, GB100 blackwell) or projects",
        ),
        "ueid": ("it changes with the firmware and names no device", "state device_identities"),
        "oemid": ("verification demands NVIDIA's own chain of certificates", "nothing: remove it from the source"),
        "eat_nonce": ("a nonce is valid for one exchange", "state the nonce when the evidence is verified"),
        "iss": ("attest verifies the evidence itself, in place of that Verifier", "appraise the evidence itself"),
        **dict.fromkeys(("sub", "iat", "nbf", "exp", "jti", "x-nvidia-ver", "submods"), _TOKEN),
        "x-nvidia-gpu-claims-version": _TOKEN,
        "x-nvidia-attestation-warning": ("attest has no such text", "read the checks of a result"),
        "x-nvidia-switch-attestation-report-cert-chain-fwid-match": (
            "a switch's report need not state its firmware id; verification refuses one that differs",
            "state fwids",
        ),
    }
)
_UNKNOWN = ("no claim of attest corresponds to it", "find out which component determines it, and demand that fact")


def convert_nvidia(policy: NvidiaPolicy, *, name: str, accept: Mapping[str, str] = MappingProxyType({})) -> Conversion:
    """Convert a policy of NVIDIA's Python tools into one of ours.

    ``accept`` has the losses that are accepted, each with its reason.

    Raises:
        ConfigurationError: ``policy-conversion-impossible``, nothing sensible would be left; ``loss-unknown``;
            ``policy-invalid``.
    """
    kind = _kind(policy)
    section, carried, losses = _required(kind), list[Carried](), list[Loss]()
    listed = [("overall-claims.", claim) for claim in leaves(policy.overall)]
    listed += [("", claim) for claim in leaves(policy.detached)]
    for where, (names, wanted) in listed:
        source = where + ".".join(names)
        try:
            change = _overall(names, wanted, kind) if where else _detached(names, wanted, kind, policy.claims_version)
        except CannotCarryError as exc:
            losses.append(Loss(name=source, demand=f"{wanted!r}"[:1000], why=exc.why, remedy=exc.remedy))
            continue
        target, keys = change
        section.update(keys)
        carried.append(Carried(source=source, target=target))
    return finish_policy(
        {kind: section},
        name=name,
        source=f"an {_SOURCE} {policy.version} (SHA-256 of its canonical form {policy.digest.hex()})",
        parts=[
            ConvertedSection(
                body={kind: section}, skeleton={kind: _required(kind)}, targets=frozenset(c.target for c in carried)
            )
        ],
        carried=tuple(carried),
        losses=accepted_losses(losses, accept),
    )


def _kind(policy: NvidiaPolicy) -> str:
    """Return the kind of devices: each claim applies to every device, so to one kind only."""
    kinds = {kind for kind, prefix in _PREFIXES.items() for name in policy.detached if name.startswith(prefix)}
    stated = policy.detached.get("x-nvidia-device-type")
    if isinstance(stated, str) and stated in _DEVICE_TYPES:
        kinds.add(stated)
    if len(kinds) != 1:
        problem = "it demands claims of GPUs and of NVSwitches from each device" if kinds else "it names no device"
        raise impossible(problem, "a policy for GPUs lists x-nvidia-gpu-..., one for NVSwitches x-nvidia-switch-...")
    return kinds.pop()


def _required(kind: str) -> dict[str, JsonValue]:
    keys = ("architectures", "driver_versions", "vbios_versions") if kind == "gpu" else ("vbios_versions",)
    return {key: not_demanded(_SOURCE) for key in keys}


_Change = tuple[str, dict[str, JsonValue]]
"""The carrier of a demand, and the keys that are written for it."""


def _strict_keys(kind: str, target: str) -> dict[str, JsonValue]:
    key = target.removeprefix(f"{kind}.")
    return {key: _STRICT[key]} if key in _STRICT else {}


def _overall(names: tuple[str, ...], wanted: JsonValue, kind: str) -> _Change:
    """Carry a demand on the overall token: its result sums up what verification and the comparison establish."""
    if names == ("x-nvidia-overall-att-result",) and wanted is True:
        keys = {key: value for key, value in _STRICT.items() if kind == "gpu" or key != "fwid_required"}
        return f"{kind}.rim", keys
    raise CannotCarryError(*_why_lost(names))


def _detached(names: tuple[str, ...], wanted: JsonValue, kind: str, claims_version: str) -> _Change:
    if names == ("x-nvidia-device-type",):
        if wanted not in _DEVICE_TYPES:
            raise CannotCarryError("no device is of such a type", f"one of {', '.join(_DEVICE_TYPES)}")
        return kind, {}  # of two kinds at once it would not have come here
    numberings = dict(_versions(kind))
    if len(names) == 1 and names[0] in numberings:
        return _version(numberings[names[0]], wanted, kind)
    known = _carried_by(kind, claims_version).get(names)
    if known is None:
        raise CannotCarryError(*_why_lost(names))
    value, target = known
    if type(wanted) is not type(value) or wanted != value:
        raise CannotCarryError(
            f"attest policies can demand only {value!r} of it", "accept devices that verify, or leave it out"
        )
    return target, _strict_keys(kind, target)


def _versions(kind: str) -> Iterator[tuple[str, tuple[str, Numbering]]]:
    prefix = _PREFIXES[kind]
    if kind == "gpu":
        yield f"{prefix}driver-version", ("driver_versions", Numbering.DECIMAL)
        yield f"{prefix}vbios-version", ("vbios_versions", Numbering.HEX)
    else:
        yield f"{prefix}bios-version", ("vbios_versions", Numbering.HEX)


def _version(known: tuple[str, Numbering], wanted: JsonValue, kind: str) -> _Change:
    key, numbering = known
    if not isinstance(wanted, str) or parse_version(wanted, numbering) is None:
        raise CannotCarryError(f"a version is text such as {numbering.example}", "correct the value in the source")
    return f"{kind}.{key}", {key: {"exactly": wanted}}


def _why_lost(names: tuple[str, ...]) -> tuple[str, str]:
    if names[-1] == "x-nvidia-cert-expiration-date":
        return "verification demands that a chain is valid now", "nothing: remove it from the source"
    if names[-1] == "x-nvidia-cert-ocsp-nonce-matches":
        return "attest requests it without a nonce and limits the age of an answer", "leave revocation checked"
    return _LOST.get(names[0], _UNKNOWN)
