"""The policy document as types: what an Appraisal Policy for Evidence can say.

Every key is known, every list has a member, and what is left out is demanded in its strict form. To relax a demand
one writes ``{unchecked: "reason"}`` in its place; the reason then stands in every result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from attest.checks import Unchecked
from attest.encoding import JsonValue
from attest.policy.decode import Decoder, Demand, Relaxed, Section, choice, demand, integer, refuse, table_of, text
from attest.policy.devices import DeviceSetDemands, decode_devices
from attest.policy.gpu import GpuDemands, SwitchDemands, decode_gpu, decode_nvswitch
from attest.policy.intel import SgxDemands, TdxDemands, decode_sgx, decode_tdx
from attest.policy.references import ReferenceValues, decode_reference_values
from attest.policy.snp import SnpDemands, decode_snp

__all__ = ["SCHEMA", "PolicyDocument", "decode_policy"]

SCHEMA = "attest.policy/1"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyDocument:
    """A policy as its author wrote it, with everything that was left out filled in strictly."""

    name: str
    version: int
    description: str
    simulated: Demand[str]
    unchecked: tuple[Unchecked, ...]
    reference_values: Mapping[str, ReferenceValues]
    snp: SnpDemands | None
    tdx: TdxDemands | None
    sgx: SgxDemands | None
    gpu: GpuDemands | None
    nvswitch: SwitchDemands | None
    devices: DeviceSetDemands | None


_NO_REFERENCES: Mapping[str, ReferenceValues] = {}
_NOTHING_UNCHECKED: tuple[Unchecked, ...] = ()


def decode_policy(document: JsonValue) -> PolicyDocument:
    """Read a policy document.

    Raises:
        ConfigurationError: ``policy-invalid``, with the path of the value and what was expected there.
    """
    top = Section(document, "")
    schema = top.required("schema", text)
    if schema != SCHEMA:
        raise refuse("schema", repr(SCHEMA), schema)
    references = top.optional("reference_values", table_of(decode_reference_values), default=_NO_REFERENCES)
    unchecked = top.optional("unchecked", _unchecked, default=_NOTHING_UNCHECKED)
    gpu: GpuDemands | None = top.optional("gpu", _with_rims(decode_gpu, unchecked), default=None)
    nvswitch: SwitchDemands | None = top.optional("nvswitch", _with_rims(decode_nvswitch, unchecked), default=None)
    policy = PolicyDocument(
        name=top.required("name", _name),
        version=top.required("version", integer(1, 2**31)),
        description=top.optional("description", text, default=""),
        simulated=top.optional("simulated", demand(choice(["refuse"])), default=Demand("refuse")),
        unchecked=unchecked,
        reference_values=references,
        snp=top.optional("snp", _with(decode_snp, references), default=None),
        tdx=top.optional("tdx", _with(decode_tdx, references), default=None),
        sgx=top.optional("sgx", _with(decode_sgx, references), default=None),
        gpu=gpu,
        nvswitch=nvswitch,
        devices=_devices(top, gpu, nvswitch),
    )
    top.finish()
    if all(kind is None for kind in (policy.snp, policy.tdx, policy.sgx, gpu, nvswitch)):
        raise refuse("snp", "demands on at least one kind of Attester: snp, tdx, sgx, gpu or nvswitch", "nothing")
    return policy


def _devices(top: Section, gpu: GpuDemands | None, nvswitch: SwitchDemands | None) -> DeviceSetDemands | None:
    """Read the demands on all devices together: strict ones, for a policy that states none and speaks of devices."""

    def decode(value: JsonValue, path: str) -> DeviceSetDemands:
        return decode_devices(value, path, gpus=gpu is not None, switches=nvswitch is not None)

    left_out = None if gpu is None and nvswitch is None else decode({}, "devices")
    return top.optional("devices", decode, default=left_out)


_T = TypeVar("_T")


def _with(
    decode: Callable[[JsonValue, str, Mapping[str, ReferenceValues]], _T], references: Mapping[str, ReferenceValues]
) -> Decoder[_T]:
    return lambda value, path: decode(value, path, references)


def _with_rims(
    decode: Callable[..., _T],  # the reader of a kind of device, which takes what its key ``rim`` says by default
    unchecked: tuple[Unchecked, ...],
) -> Decoder[_T]:
    """Let what the policy leaves unchecked speak for ``rim`` too: the author has given the reason once."""
    reason = next((entry.reason for entry in unchecked if entry.check == "rim"), None)
    rim: Demand[bool] = Demand(True if reason is None else Relaxed(reason=reason))
    return lambda value, path: decode(value, path, rim=rim)


def _name(value: JsonValue, path: str) -> str:
    if not _NAME.fullmatch(text(value, path)):
        raise refuse(path, "lower-case letters, digits, '.', '_' and '-', at most 64", value)
    return text(value, path)


def _unchecked(value: JsonValue, path: str) -> tuple[Unchecked, ...]:
    reasons = table_of(text, keys=Unchecked.NAMES)(value, path)
    return tuple(Unchecked(check=name, reason=reason) for name, reason in reasons.items())
