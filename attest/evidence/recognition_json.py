"""Evidence in JSON by its members: line 10 of ``recognition``."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from attest.encoding import JsonValue
from attest.evidence.azure.forms import is_azure_json
from attest.evidence.dstack.forms import (
    is_app_compose,
    is_attestation,
    is_info,
    is_log,
    is_quote_answer,
    read_quote_answer,
)
from attest.evidence.envelope import (
    MAX_DEPTH,
    MEDIA_AZURE_CVM,
    MEDIA_CONFIGFS_TSM,
    MEDIA_DSTACK_LOG,
    MEDIA_INTEL_QUOTE,
    MEDIA_PROVIDER_DOCUMENT,
    MEDIA_SAMPLE,
    EvidenceItem,
)
from attest.evidence.gpu.collection import is_nvidia_collection
from attest.evidence.gpu.forms import is_nvidia_json, nvidia_items
from attest.evidence.input_file import FileContent, FileKind, RecognisedFile, as_envelope, as_item, as_piece
from attest.evidence.providers.chutes import is_instances
from attest.evidence.providers.families import FAMILIES
from attest.evidence.quote_forms import (
    TEES,
    FormContent,
    is_attestation_rs_quote,
    is_azure_container,
    is_ita_request,
    is_maa_quote,
    is_maa_report,
    is_trustee_quote,
    read_attestation_rs_quote,
    read_azure_container,
    read_ita_request,
    read_maa_request,
    read_trustee_quote,
)
from attest.evidence.snp.peer_forms import PeerSnpEvidence, read_attestation_rs, read_report_json

_MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,127}/[A-Za-z0-9!#$&^_.+-]{1,127}\s*(?:;.*)?")


def _is_record(value: JsonValue) -> bool:
    """``[media type, value]``; nothing else that is known here begins with a media type."""
    return (
        isinstance(value, list) and bool(value) and isinstance(value[0], str) and bool(_MEDIA_TYPE.fullmatch(value[0]))
    )


def _is_collection(value: JsonValue, depth: int = MAX_DEPTH) -> bool:
    """Return True if every member is a record or again a collection, as only in an envelope."""
    if not isinstance(value, dict) or not value or not depth:
        return False
    if isinstance(value.get("__cmwc_t"), str):
        return True
    return all(_is_record(member) or _is_collection(member, depth - 1) for member in value.values())


def _has(*names: str) -> Callable[[JsonValue], bool]:
    """Recognise an object by members that it has, whatever else it has."""
    return lambda document: isinstance(document, dict) and set(names) <= set(document)


def _is_token(document: JsonValue) -> bool:
    """Recognise a signature in JSON, and NVIDIA's array of tokens."""
    if isinstance(document, list):
        return any(isinstance(part, list) and part[:1] == ["JWT"] for part in document[:1])
    return isinstance(document, dict) and "payload" in document and bool({"signature", "signatures"} & set(document))


def _peer(read: Callable[[JsonValue], PeerSnpEvidence], file: RecognisedFile) -> FileContent:
    evidence = read(file.document)
    return FileContent(label=evidence.form, items=(evidence.to_item(),))


def _dstack(file: RecognisedFile) -> FileContent:
    """Make items of quote and event log; what is stated beside them joins what other files state."""
    answer = read_quote_answer(file.document)
    quote = EvidenceItem(name="cpu", media_type=MEDIA_INTEL_QUOTE, value=answer.quote)
    log = EvidenceItem(name="eventlog", media_type=MEDIA_DSTACK_LOG, value=answer.log)
    return FileContent(label=file.label, items=(quote, log), pieces={"dstack-answer": answer.statements})


def _quoted(read: Callable[[JsonValue], FormContent], file: RecognisedFile) -> FileContent:
    content = read(file.document)
    return FileContent(label=file.label, items=content.items, certificates=content.certificates)


def _is_cca(document: JsonValue) -> bool:
    """Recognise Trustee's array of the bytes of a token, and no token in text."""
    return isinstance(document, dict) and isinstance(document.get("token"), list)


def _is_dpu(document: JsonValue) -> bool:
    devices = document.get("devices") if isinstance(document, dict) else None
    return isinstance(devices, list) and any(isinstance(one, dict) and "device_id_cert" in one for one in devices)


_NAMED: tuple[FileKind[JsonValue], ...] = tuple(
    FileKind(form="coco-json", label=f"{name} (JSON)", looks=looks, read=None)
    for name, looks in (
        ("Trustee evidence of Hygon CSV", _has("attestation_report", "serial_number")),
        ("Trustee evidence of a Hygon DCU", _has("attestation_reports")),
        ("Trustee evidence of a TPM alone", _has("ak_public", "tpm_quote")),
        ("Trustee evidence of IBM Secure Execution", _has("cuid", "encr_measurement_key")),
        ("Trustee evidence of Arm CCA", _is_cca),
        ("Trustee evidence of an NVIDIA DPU", _is_dpu),
    )
)
"""Evidence that this version recognises and does not verify."""


def _nvidia(file: RecognisedFile) -> FileContent:
    """Make an item of each device, numbered among its like; ``input_files.py`` numbers those of several files."""
    return FileContent(label=file.label, items=nvidia_items(file.document))


JSON_KINDS: tuple[FileKind[JsonValue], ...] = (
    # Before the envelope, whose outer form it has.
    FileKind(form="nvidia-json", label="NVIDIA evidence (CMW)", looks=is_nvidia_collection, read=_nvidia),
    FileKind(
        form="envelope",
        label="evidence envelope (JSON)",
        looks=lambda document: _is_record(document) or _is_collection(document),
        read=as_envelope,
    ),
    *(
        FileKind(
            form="provider-json",
            label=family.label,
            looks=family.looks,
            read=partial(as_item, MEDIA_PROVIDER_DOCUMENT, name="document"),
        )
        for family in FAMILIES
    ),
    FileKind(
        form=None,
        label="keys of a service's machines (JSON)",
        looks=is_instances,
        read=partial(as_piece, "provider-keys"),
    ),
    FileKind(
        form="snp-extended",
        label="configfs-tsm report (JSON)",
        looks=_has("provider", "outblob"),
        read=partial(as_item, MEDIA_CONFIGFS_TSM),
    ),
    *_NAMED,
    FileKind(
        form="snp-extended",
        label="Azure container group evidence (JSON)",
        looks=is_azure_container,
        read=partial(_quoted, read_azure_container),
    ),
    FileKind(
        form="coco-json",
        label="Trustee sample evidence (JSON)",
        looks=_has("svn", "report_data"),
        read=partial(as_item, MEDIA_SAMPLE),
    ),
    FileKind(
        form="coco-json",
        label="SEV-SNP evidence (JSON)",
        looks=_has("attestation_report"),
        read=partial(_peer, read_report_json),
    ),
    FileKind(
        form="azure-json",
        label="Azure confidential VM evidence (JSON)",
        looks=is_azure_json,
        read=partial(as_item, MEDIA_AZURE_CVM),
    ),
    FileKind(
        form="coco-json",
        label="attestation-rs evidence with a quote (JSON)",
        looks=is_attestation_rs_quote,
        read=partial(_quoted, read_attestation_rs_quote),
    ),
    FileKind(
        form="coco-json",
        label="attestation-rs evidence (JSON)",
        looks=_has("platform", "evidence"),
        read=partial(_peer, read_attestation_rs),
    ),
    FileKind(form="dstack-json", label="dstack GetQuote answer (JSON)", looks=is_quote_answer, read=_dstack),
    FileKind(form="dstack-json", label="dstack event log (JSON)", looks=is_log, read=None),
    FileKind(form="dstack-json", label="dstack attestation (SCALE or msgpack)", looks=is_attestation, read=None),
    FileKind(form=None, label="dstack Info answer (JSON)", looks=is_info, read=partial(as_piece, "dstack-info")),
    FileKind(form=None, label="app-compose (JSON)", looks=is_app_compose, read=partial(as_piece, "app-compose")),
    FileKind(form="nvidia-json", label="NVIDIA evidence (JSON)", looks=is_nvidia_json, read=_nvidia),
    FileKind(form="token", label="token (JSON)", looks=_is_token, read=None),
    *(
        FileKind(
            form=f"{tee}-quote",
            label=f"request to Microsoft Azure Attestation with a quote of {tee.upper()} (JSON)",
            looks=partial(is_maa_quote, tee),
            read=partial(_quoted, read_maa_request),
        )
        for tee in TEES
    ),
    FileKind(
        form="snp-extended",
        label="request to Microsoft Azure Attestation with a report (JSON)",
        looks=is_maa_report,
        read=partial(_quoted, read_maa_request),
    ),
    *(
        FileKind(
            form=f"{tee}-quote",
            label=f"request to Intel Trust Authority with a quote of {tee.upper()} (JSON)",
            looks=partial(is_ita_request, tee),
            read=partial(_quoted, partial(read_ita_request, tee)),
        )
        for tee in TEES
    ),
    FileKind(
        form="coco-json",
        label="Trustee evidence with a quote (JSON)",
        looks=is_trustee_quote,
        read=partial(_quoted, read_trustee_quote),
    ),
)
