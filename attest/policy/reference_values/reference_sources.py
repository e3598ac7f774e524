"""Reference values from observation: verified evidence of a machine that is known to be good, and NVIDIA's RIMs.

The software that a machine runs today need not be the right one: these functions record it, and a person decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from attest.errors import ConfigurationError
from attest.evidence.azure.verify import VerifiedAzureEvidence
from attest.evidence.gpu.rim import VerifiedRim
from attest.evidence.gpu.verify import VerifiedGpu
from attest.evidence.intel.verify import VerifiedIntelQuote
from attest.evidence.snp.verify import VerifiedSnpReport
from attest.evidence.tdx.structure import ParsedTdReport
from attest.policy.reference_values.reference_documents import ReferenceEntry


def references_from(
    devices: Iterable[tuple[str, object]], *, kinds: frozenset[str] | None = None
) -> dict[str, ReferenceEntry]:
    """Return the measured values of verified devices, one name for each kind of value.

    Devices of one kind share names, so that a fleet gives one list: ``cpu-snp-measurement`` has that of each CPU.

    ``kinds`` are those of ``KIND_BYTES`` that are wanted; None for all.

    Raises:
        ConfigurationError: ``references-empty``.
    """
    found: dict[tuple[str, str], dict[bytes, None]] = {}
    for name, verified in devices:
        for kind, value in _values(verified):
            if _measured(value) and (kinds is None or kind in kinds):
                found.setdefault((name.rstrip("0123456789") or name, kind), {})[value] = None
    return _entries({f"{name}-{kind}": (kind, values) for (name, kind), values in found.items()})


def references_from_rims(rims: Iterable[VerifiedRim]) -> dict[str, ReferenceEntry]:
    """Return the digests of RIMs whose signatures and signers were verified, by id.

    Raises:
        ConfigurationError: ``references-empty``.
    """
    return _entries(
        {rim.parsed.tag_id: ("nvidia-rim", {rim.parsed.document.sha256: None}) for rim in rims},
        {rim.parsed.tag_id: f"NVIDIA, {rim.parsed.product} version {rim.parsed.version}" for rim in rims},
    )


def _entries(
    found: Mapping[str, tuple[str, Mapping[bytes, None]]], origins: Mapping[str, str] | None = None
) -> dict[str, ReferenceEntry]:
    if not found:
        raise ConfigurationError(
            "the evidence has no measured value to write",
            code="references-empty",
            expected="evidence of SEV-SNP, TDX, SGX or an NVIDIA GPU with values of the requested kinds",
            hint="request other kinds, or all of them; 'attest inspect' prints the claims of the evidence",
        )
    return {
        name: ReferenceEntry(kind=kind, values=tuple(values), origin=(origins or {}).get(name))
        for name, (kind, values) in found.items()
    }


def _measured(value: bytes) -> bool:
    """Return True if a register was extended: registers start with zeros, some of a TPM with ones."""
    return value not in (bytes(len(value)), b"\xff" * len(value))


def _values(verified: object) -> Iterator[tuple[str, bytes]]:
    if isinstance(verified, VerifiedAzureEvidence):
        yield from _values(verified.cpu)
        for number, value in verified.pcrs:
            yield f"azure-pcr{number}", value
    elif isinstance(verified, VerifiedSnpReport):
        report = verified.report
        yield "snp-measurement", report.measurement
        yield "snp-id-key-digest", report.id_key_digest
        yield "snp-author-key-digest", report.author_key_digest
        yield "snp-host-data", report.host_data
    elif isinstance(verified, VerifiedGpu):
        yield "gpu-fwid", verified.chain.leaf.fwid
        for rim in (verified.driver_rim, verified.vbios_rim):
            if rim is not None:
                yield "nvidia-rim", rim.parsed.document.sha256
    elif isinstance(verified, VerifiedIntelQuote):
        body = verified.quote.body
        if isinstance(body, ParsedTdReport):
            yield "tdx-mr-td", body.mr_td
            yield "tdx-mr-seam", body.mr_seam
            for index, register in enumerate((body.rtmr0, body.rtmr1, body.rtmr2, body.rtmr3)):
                yield f"tdx-rtmr{index}", register
        else:
            yield "sgx-mr-enclave", body.mr_enclave
            yield "sgx-mr-signer", body.mr_signer
