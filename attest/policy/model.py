"""The policy document as types: the demands of an Appraisal Policy for Evidence.

Every key is known, every list has a member, and every omitted demand has its strict default. ``{unchecked: "reason"}``
in place of a demand relaxes it; the reason then shows in every result.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from attest.checks import Unchecked
from attest.encoding import JsonValue
from attest.policy.azure import AzureDemands, decode_azure
from attest.policy.decoder import (
    Decoder,
    Demand,
    RelaxedDemand,
    Section,
    choice,
    demand,
    integer,
    list_of,
    refuse,
    table_of,
    text,
    unchecked_of,
)
from attest.policy.devices import DeviceSetDemands, decode_devices
from attest.policy.dstack import DstackDemands, decode_dstack
from attest.policy.gpu import GpuDemands, SwitchDemands, decode_gpu, decode_nvswitch
from attest.policy.intel import SgxDemands, TdxDemands, decode_sgx, decode_tdx
from attest.policy.reference_values.accepted_documents import (
    AcceptedDocument,
    decode_accepted_document,
    merge_at_hand,
    merge_references,
)
from attest.policy.reference_values.reference_documents import NO_REFERENCE_DOCUMENTS, ReferenceDocument
from attest.policy.references import ReferenceValues, decode_reference_values
from attest.policy.sample import SampleDemands, decode_sample
from attest.policy.snp import SnpDemands, decode_snp
from attest.policy.verifiers import AcceptedVerifier, decode_verifiers

SCHEMA = "attest.policy/1"
MAX_NESTING = 4
"""Levels of branches below the policy itself."""
MAX_BRANCHES = 64
"""Branches of a whole policy: all of them are judged each time."""
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyBody:
    """Demands that all have to hold: the policy itself, or one branch of it.

    Attributes:
        name: its author's name for it; empty for a branch without a name.
        azure: demands on an Azure VM. Then ``snp`` and ``tdx`` judge the report within such evidence, and no machine of
            another cloud.
        dstack: demands on what dstack measured in a TDX guest that ``tdx`` judges.
        sample: demands on Trustee's sample evidence, which proves nothing.
    """

    name: str
    azure: AzureDemands | None
    snp: SnpDemands | None
    tdx: TdxDemands | None
    dstack: DstackDemands | None
    sgx: SgxDemands | None
    gpu: GpuDemands | None
    nvswitch: SwitchDemands | None
    sample: SampleDemands | None
    devices: DeviceSetDemands | None
    any_of: tuple[PolicyBody, ...]
    all_of: tuple[PolicyBody, ...]
    at_least: AtLeastOf | None

    def branches(self, path: str) -> Iterator[tuple[str, str, PolicyBody]]:
        """Yield each branch of this body, whose path is given: its combinator, its path, and the branch itself."""
        start = f"{path}." if path else ""
        some = () if self.at_least is None else self.at_least.of
        for combinator, of in (("any_of", self.any_of), ("all_of", self.all_of), ("at_least.of", some)):
            for index, branch in enumerate(of):
                yield combinator, f"{start}{combinator}[{index}]", branch


@dataclass(frozen=True, slots=True, kw_only=True)
class AtLeastOf:
    """Branches of which ``count`` have to hold, from 1 to all of them."""

    count: int
    of: tuple[PolicyBody, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyDocument(PolicyBody):
    """A policy as its author wrote it, with its strict defaults filled in.

    Attributes:
        reference_values: its own, and those of the accepted documents.
    """

    version: int
    description: str
    simulated: Demand[str]
    unchecked: tuple[Unchecked, ...]
    verifiers: tuple[AcceptedVerifier, ...]
    references: tuple[AcceptedDocument, ...]
    reference_values: Mapping[str, ReferenceValues]


_KEYS = ("schema", *(field.name for field in fields(PolicyDocument)))


def decode_policy(
    document: JsonValue,
    *,
    documents: Mapping[str, ReferenceDocument] = NO_REFERENCE_DOCUMENTS,
    incomplete: bool = False,
) -> PolicyDocument:
    """Read a policy document.

    Of ``documents``, the available reference documents, only those that the policy accepts count. ``incomplete`` reads
    it for inspection, with or without its documents; see ``merge_at_hand``.

    Raises:
        ConfigurationError: ``policy-invalid``, with the path of the value and what was expected there; or as
            ``merge_references``.
    """
    top = Section(document, "")
    top.require_known(_KEYS)
    schema = top.required("schema", text)
    if schema != SCHEMA:
        raise refuse("schema", repr(SCHEMA), schema, near=[SCHEMA])
    accepted = top.stated("references", list_of(decode_accepted_document)) or ()
    references = top.stated("reference_values", table_of(decode_reference_values)) or {}
    if accepted:
        merge = merge_at_hand if incomplete else merge_references
        references = merge(references, accepted, documents)
    unchecked = top.stated("unchecked", unchecked_of) or ()
    reader = _Reader(references=references, unchecked=unchecked)
    policy = PolicyDocument(
        name=top.required("name", _name),
        version=top.required("version", integer(1, 2**31)),
        description=top.optional("description", text, default=""),
        simulated=top.optional("simulated", demand(choice(["refuse"])), default=Demand("refuse")),
        unchecked=unchecked,
        verifiers=top.stated("verifiers", decode_verifiers) or (),
        references=accepted,
        reference_values=references,
        **reader.parts(top, depth=0),
    )
    top.finish()
    return policy


class _Reader:
    """Reads bodies, counting their branches over the whole policy."""

    def __init__(self, *, references: Mapping[str, ReferenceValues], unchecked: tuple[Unchecked, ...]) -> None:
        """Keep the statements of the policy that apply to all of its branches."""
        self._references = references
        # The policy's relaxation ``rim`` applies to the key ``rim`` too: the author has given the reason once.
        reason = next((entry.reason for entry in unchecked if entry.check == "rim"), None)
        self._rim: Demand[bool] = Demand(True if reason is None else RelaxedDemand(reason=reason))
        self._branches = 0

    def parts(self, section: Section, *, depth: int) -> dict[str, Any]:  # Any: fields of ``PolicyBody``
        """Read the sections and combinators of one body, which has to have one of them."""
        gpu: GpuDemands | None = section.stated("gpu", partial(decode_gpu, rim=self._rim))
        nvswitch: SwitchDemands | None = section.stated("nvswitch", partial(decode_nvswitch, rim=self._rim))
        branches = self._branches_at(depth + 1)
        found: dict[str, Any] = {
            "azure": section.stated("azure", partial(decode_azure, references=self._references)),
            "snp": section.stated("snp", partial(decode_snp, references=self._references)),
            "tdx": section.stated("tdx", partial(decode_tdx, references=self._references)),
            "dstack": section.stated("dstack", decode_dstack),
            "sgx": section.stated("sgx", partial(decode_sgx, references=self._references)),
            "gpu": gpu,
            "nvswitch": nvswitch,
            "sample": section.stated("sample", decode_sample),
            "devices": _devices(section, gpu, nvswitch),
            "any_of": section.stated("any_of", branches) or (),
            "all_of": section.stated("all_of", branches) or (),
            "at_least": section.stated("at_least", _at_least(branches)),
        }
        _require_cpu_of_azure(section, found)
        _require_boot_of_td(section, found)
        _require_image_of_dstack(section, found)
        if not any(found.values()):
            expected = "demands on at least one kind of Attester (snp, tdx, sgx, gpu, nvswitch or sample), or branches"
            raise refuse(section.path("snp"), expected, shown="nothing")
        return found

    def _branches_at(self, depth: int) -> Decoder[tuple[PolicyBody, ...]]:
        """Decode the branches of one combinator; their names differ."""

        def decode(value: JsonValue, path: str) -> tuple[PolicyBody, ...]:
            if depth > MAX_NESTING:
                raise refuse(path, f"branches at most {MAX_NESTING} deep", value)
            branches = list_of(lambda member, at: self._branch(member, at, depth))(value, path)
            for index, branch in enumerate(branches):
                if branch.name and any(other.name == branch.name for other in branches[:index]):
                    raise refuse(f"{path}[{index}].name", "a name that no other branch here has", branch.name)
            return branches

        return decode

    def _branch(self, value: JsonValue, path: str, depth: int) -> PolicyBody:
        self._branches += 1
        if self._branches > MAX_BRANCHES:
            raise refuse(path, f"at most {MAX_BRANCHES} branches in a policy", value)
        section = Section(value, path)
        name = section.optional("name", _branch_name, default="")
        body = PolicyBody(name=name, **self.parts(section, depth=depth))
        section.finish()
        return body


def _require_cpu_of_azure(section: Section, found: Mapping[str, Any]) -> None:
    """Require that a body with demands on Azure VMs has demands on their CPUs' reports, and none that these lack."""
    if found["azure"] is None:
        return
    if found["snp"] is None and found["tdx"] is None:
        expected = "the key snp or tdx beside it, which judges the CPU's report of the VM"
        raise refuse(section.path("azure"), expected, "neither", at_key=True)
    if found["tdx"] is not None and found["tdx"].event_log is not None:
        path = section.path("tdx") + ".event_log"
        raise refuse(path, "azure.event_log in its place: RTMRs of an Azure VM are zeros", "a section", at_key=True)


def _require_boot_of_td(section: Section, found: Mapping[str, Any]) -> None:
    """Require that a body with demands on TDs says what they may boot; of an Azure VM its section ``azure`` does."""
    if found["azure"] is None and found["tdx"] is not None and not found["tdx"].judges_boot:
        expected = (
            "rtmr1 or rtmr2, or the boot loader's lists of event_log: MRTD measures the firmware alone, and not the "
            "kernel that it boots; or {unchecked: reason} there"
        )
        raise refuse(section.path("tdx"), expected, shown="none of them", at_key=True)


def _require_image_of_dstack(section: Section, found: Mapping[str, Any]) -> None:
    """Require that a body with demands on dstack's events has demands on the code that extends them."""
    if found["dstack"] is None:
        return
    if found["azure"] is not None:
        raise refuse(
            section.path("dstack"), "no section azure beside it: RTMRs of an Azure VM are zeros", "both", at_key=True
        )
    tdx = found["tdx"]
    if tdx is None or tdx.rtmrs["rtmr1"] is None or tdx.rtmrs["rtmr2"] is None:
        expected = "tdx with rtmr1 and rtmr2 beside it, or {unchecked: reason} there: another guest can write any event"
        raise refuse(
            section.path("dstack"), expected, "none of them" if tdx is None else "tdx without them", at_key=True
        )


def _at_least(branches: Decoder[tuple[PolicyBody, ...]]) -> Decoder[AtLeastOf]:
    def decode(value: JsonValue, path: str) -> AtLeastOf:
        section = Section(value, path)
        of = section.required("of", branches)
        count = section.required("count", integer(1, len(of)))
        section.finish()
        return AtLeastOf(count=count, of=of)

    return decode


def _branch_name(value: JsonValue, path: str) -> str:
    name = _name(value, path)
    if name.isdecimal():
        raise refuse(path, "a name that is no number: branches without a name are numbered", value)
    return name


def _devices(section: Section, gpu: GpuDemands | None, nvswitch: SwitchDemands | None) -> DeviceSetDemands | None:
    """Read the demands on all devices together; strict ones for a body with device sections that states none."""

    def decode(value: JsonValue, path: str) -> DeviceSetDemands:
        return decode_devices(value, path, gpus=gpu is not None, switches=nvswitch is not None)

    left_out = None if gpu is None and nvswitch is None else decode({}, section.path("devices"))
    return section.optional("devices", decode, default=left_out)


def _name(value: JsonValue, path: str) -> str:
    if not _NAME.fullmatch(text(value, path)):
        raise refuse(path, "lower-case letters, digits, '.', '_' and '-', at most 64", value)
    return text(value, path)
