"""Evidence of an Azure confidential VM: the paravisor's report with given user data, and a quote of its TPM.

The guest writes 64 bytes into one NV index, and the paravisor renews its report in another: OpenHCL at the start of a
read, at most once in two seconds, others after some time. The report is therefore read, only after the write, until it
has the written bytes. Then the TPM quotes all registers under the nonce. Registers can change between a quote and their
reading, reports during it: inconsistent results are requested again.

Nothing is verified here; that is for a remote verifier.

Spec: specs/azure-cvm.md, sections 5 to 8.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from threading import Lock

from attest.collect.azure_additions import NO_KNOWN_VM, TPM_OR_HOST, AzureServices, from_snp, from_td
from attest.collect.azure_host import HostPatience
from attest.collect.detect import CollectedCpu, Tee
from attest.collect.refusals import ignored, parsed
from attest.collect.tpm import Tpm
from attest.errors import CollectionError
from attest.evidence.azure.forms import RawTpmQuote, azure_json
from attest.evidence.azure.runtime import AK_KID, USER_DATA_BYTES, RuntimeClaims, parse_runtime_claims
from attest.evidence.azure.structure import (
    MAX_HCL_BYTES,
    HclReportType,
    ParsedHclReport,
    parse_hcl_report,
)
from attest.evidence.binding import EXTRA_DATA_BYTES, Binding
from attest.evidence.envelope import MEDIA_AZURE_CVM, EvidenceItem
from attest.evidence.snp.structure import parse_report
from attest.evidence.tpm.structure import parse_tpm_quote

REPORT_INDEX = 0x01400001
USER_DATA_INDEX = 0x01400002
AK_HANDLE = 0x81000003
REPORT_SECONDS = 30.0
"""Time limit for the renewal of the report by the paravisor, which usually takes no time or 3 seconds."""
UNREADABLE_SECONDS = 3.0
"""Time limit for a readable report: an unreadable one may be incomplete."""
FIRST_WAIT_SECONDS = 0.1
MAX_WAIT_SECONDS = 1.0
MAX_QUOTES = 5
"""Quotes with a concurrent register change before an error; after boot changes are rare."""
REPORT_DATA_BYTES = 64

_TEES: dict[HclReportType, Tee] = {HclReportType.SNP: "azure-snp", HclReportType.TDX: "azure-tdx"}

_one_at_a_time = Lock()
"""There is one place for user data: concurrent collections would each wait for their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureAsked:
    """Data that the evidence commits to, in its two places.

    Attributes:
        user_data: 64 bytes, covered by the CPU's signature.
        extra_data: 1 to 48 bytes, the nonce of the TPM's quote.
    """

    user_data: bytes
    extra_data: bytes

    @property
    def version(self) -> int:
        """Version of the JSON: from 2 on the user data repeats the quote's extraData, and nothing else."""
        return 2 if self.user_data == self.extra_data.ljust(USER_DATA_BYTES, b"\0") else 1


def asked_of_azure(challenge: Binding | bytes) -> AzureAsked:
    """Return the placement of a binding, a nonce of 1 to 48 bytes, or 64 bytes of user data.

    The first 48 of 64 bytes become extraData, as those of a binding do.

    Raises:
        CollectionError: ``azure-nonce-length``.
    """
    data = challenge.report_data() if isinstance(challenge, Binding) else challenge
    if not 0 < len(data) <= EXTRA_DATA_BYTES and len(data) != REPORT_DATA_BYTES:
        raise CollectionError(
            f"a nonce of {len(data)} bytes does not fit into a quote of a TPM",
            code="azure-nonce-length",
            field="nonce",
            expected=f"1 to {EXTRA_DATA_BYTES} bytes, or the {REPORT_DATA_BYTES} of the report data",
            got=f"{len(data)} bytes",
            hint=f"ask for a nonce of at most {EXTRA_DATA_BYTES} bytes; 32 are plenty",
        )
    return AzureAsked(user_data=data.ljust(USER_DATA_BYTES, b"\0"), extra_data=data[:EXTRA_DATA_BYTES])


def collect_azure(
    tpm: Tpm,
    commitment: AzureAsked,
    *,
    services: AzureServices,
    patience: HostPatience,
    monotonic: Callable[[], float],
) -> CollectedCpu:
    """Collect the evidence of this VM.

    Raises:
        CollectionError: see ``docs/errors.md``, "Collection".
    """
    with _one_at_a_time:
        # (1) A TPM without a place for a paravisor's report is not written to.
        if tpm.nv_size(REPORT_INDEX) is None:
            raise _no_report("no such index")
        # (2) The user data, and this TPM's report with it.
        hcl = _with_user_data(tpm, commitment.user_data, monotonic=monotonic, sleep=patience.sleep)
        require_ak(tpm, hcl)
        # (3) The current registers, under the nonce.
        quote = _quoted(tpm, commitment.extra_data)
    # (4) The host's addition: a quote in place of a TDREPORT, or the certificate of the chip.
    added = (from_td if hcl.report_type is HclReportType.TDX else from_snp)(hcl, services, patience)
    value = azure_json(hcl=hcl.raw, tpm=quote, td_quote=added.td_quote, vcek=added.vcek, version=commitment.version)
    return CollectedCpu(
        tee=_TEES[hcl.report_type],
        interface="azure-vtpm",
        item=EvidenceItem(name="cpu", media_type=MEDIA_AZURE_CVM, value=value),
        beside=added.beside,
        notes=added.notes,
    )


# -- the report


def read_hcl_report(tpm: Tpm) -> ParsedHclReport:
    """Read the paravisor's current report.

    Raises:
        CollectionError: ``azure-report-missing``, ``collected-malformed``, or the TPM's.
    """
    found = tpm.read_nv(REPORT_INDEX, limit=MAX_HCL_BYTES)
    if found is None:
        raise _no_report("no such index")
    data = found.data or b""
    if not data.strip(b"\0\xff"):
        raise _no_report("nothing written")
    return parsed(parse_hcl_report, data, "report in the TPM", hint=NO_KNOWN_VM)


def _no_report(got: str) -> CollectionError:
    return CollectionError(
        f"the TPM holds no report of a paravisor (NV index {REPORT_INDEX:#010x})",
        code="azure-report-missing",
        field=f"NV index {REPORT_INDEX:#010x}",
        expected="an HCL report",
        got=got,
        hint="this is no confidential VM: make it of a DCasv5, ECasv5, DCesv5 or ECesv5 series or newer, "
        "with the security type ConfidentialVM",
    )


def require_ak(tpm: Tpm, hcl: ParsedHclReport) -> None:
    """Require that the report names the signing key: verifiers accept no other.

    Raises:
        CollectionError: ``azure-ak-missing``, ``azure-ak-mismatch``, ``collected-malformed``, or the TPM's.
    """
    wanted = _claims(hcl).ak.public_numbers()
    found = tpm.read_key(AK_HANDLE)
    if found is None:
        raise CollectionError(
            f"the TPM has no attestation key (persistent handle {AK_HANDLE:#010x})",
            code="azure-ak-missing",
            field=f"handle {AK_HANDLE:#010x}",
            expected=AK_KID,
            got="no key",
            hint="tpm2_getcap handles-persistent shows the keys; Azure makes this one, and a restart brings it back",
        )
    if found.public_numbers() != wanted:
        raise CollectionError(
            f"the key at {AK_HANDLE:#010x} is not the attestation key of the runtime claims",
            code="azure-ak-mismatch",
            field=f"handle {AK_HANDLE:#010x}",
            expected=f"{AK_KID}, modulus {_short(wanted.n)}",
            got=f"modulus {_short(found.public_numbers().n)}",
            hint="the key was replaced, or the TPM's state is of another VM; a restart brings Azure's key back",
        )


def _short(modulus: int) -> str:
    return f"{modulus:x}"[:16] + "…"


def _claims(hcl: ParsedHclReport) -> RuntimeClaims:
    return parsed(parse_runtime_claims, hcl.runtime_data, "runtime claims", hint=NO_KNOWN_VM)


def _with_user_data(
    tpm: Tpm,
    user_data: bytes,
    *,
    monotonic: Callable[[], float],
    sleep: Callable[[float], None],
) -> ParsedHclReport:
    """Write the user data, and read the report until it is consistent and has them."""
    tpm.write_nv(USER_DATA_INDEX, user_data)
    started = monotonic()
    wait = FIRST_WAIT_SECONDS
    while True:
        patience = REPORT_SECONDS
        try:
            hcl = read_hcl_report(tpm)
            if _is_answer(hcl, user_data):
                return hcl
            problem = _stale(user_data, hcl)
        except CollectionError as exc:
            if exc.code not in _BEING_REMADE:
                raise
            patience, problem = UNREADABLE_SECONDS, exc
        if monotonic() - started >= patience:
            raise problem
        _keep(tpm, user_data)
        sleep(wait)
        wait = min(2 * wait, MAX_WAIT_SECONDS)


_BEING_REMADE = frozenset({"azure-report-missing", "collected-malformed"})


def _keep(tpm: Tpm, user_data: bytes) -> None:
    """Restore this collection's user data after another process's write; renewals of the report alternate."""
    found = tpm.read_nv(USER_DATA_INDEX, limit=USER_DATA_BYTES)
    if found is None or found.data != user_data:
        tpm.write_nv(USER_DATA_INDEX, user_data)


def _is_answer(hcl: ParsedHclReport, user_data: bytes) -> bool:
    """Return whether a report has this user data and is consistent: it is read in pieces, and may change between."""
    if hcl.report_type is HclReportType.TDX:
        committed = hcl.td_report_data
    else:
        committed = parsed(parse_report, hcl.hardware_report, "SNP report in the TPM", hint=NO_KNOWN_VM).report_data
    whole = hmac.compare_digest(committed, hcl.runtime_digest)
    return whole and hmac.compare_digest(_claims(hcl).user_data or b"", user_data)


def _stale(user_data: bytes, hcl: ParsedHclReport) -> CollectionError:
    return CollectionError(
        f"the paravisor did not remake its report within {REPORT_SECONDS:.0f} s",
        code="azure-report-stale",
        field="user-data",
        expected=user_data.hex(),
        got=(_claims(hcl).user_data or b"").hex(),
        hint="ask again; if it stays, others collect all the time, or the paravisor takes no user data: restart the VM",
        retryable=True,
    )


# -- the quote


def _quoted(tpm: Tpm, nonce: bytes) -> RawTpmQuote:
    for _ in range(MAX_QUOTES):
        made = tpm.quote(AK_HANDLE, nonce)
        values = tpm.read_pcrs()
        quote = parsed(parse_tpm_quote, made.message, "quote of the TPM", hint=NO_KNOWN_VM)
        if not hmac.compare_digest(quote.extra_data, nonce):
            raise ignored("the TPM's quote", "extraData", nonce, quote.extra_data, who=TPM_OR_HOST)
        if hmac.compare_digest(sha256(b"".join(values)).digest(), quote.pcr_digest):
            return RawTpmQuote(made.signature, made.message, values)
    raise CollectionError(
        f"a register changed during each of {MAX_QUOTES} quotes",
        code="tpm-pcrs-changing",
        field="pcrDigest",
        expected="registers that stay as they are for a moment",
        got="others each time",
        hint="ask again when the machine has started; a process that extends PCRs all the time has to stop for it",
        retryable=True,
    )
