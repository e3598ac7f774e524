"""Unsigned statements of dstack's services beside a quote: the answers of ``Info`` and ``GetQuote``, and app-compose.

A statement that repeats a signed value has to agree with it. Others, such as names and the device id, are no claims.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from attest.encoding import JsonValue, json_value
from attest.errors import BindingError, EvidenceError
from attest.evidence.dstack.facts import DstackFacts, key_provider_of
from attest.evidence.dstack.structure import ParsedDstackLog, dstack_log
from attest.evidence.json_form import JsonForm
from attest.evidence.tdx.structure import ParsedTdReport

_CLAUSE = "dstack Info and GetQuote"
_FORM = JsonForm(code="dstack-malformed", clause=_CLAUSE, check="dstack.log")
_REPORT_DATA_BYTES = 64
_REGISTER_BYTES = 48
MAX_STATEMENT_BYTES = 1024 * 1024
"""Maximum size of one text that contains a document; recorded ones have 40 kB."""

_OF_INFO: Mapping[str, tuple[str, int]] = {
    "app_id": ("app_id", 20),
    "instance_id": ("instance_id", 20),
    "compose_hash": ("compose_hash", 32),
    "os_image_hash": ("os_image_hash", 32),
    "mr_aggregated": ("mr_aggregated", 32),
}
_OF_TCB_INFO: Mapping[str, tuple[str, int]] = {
    **_OF_INFO,
    "mrtd": ("mr_td", _REGISTER_BYTES),
    **{f"rtmr{number}": (f"rtmr{number}", _REGISTER_BYTES) for number in range(4)},
}
_OF_VM_CONFIG: Mapping[str, tuple[str, int]] = {"os_image_hash": ("os_image_hash", 32)}
"""Members that repeat a signed value: its name here and its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement: its path in the document, the signed value that it repeats, and its value as text."""

    path: str
    subject: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DstackStatements:
    """Everything stated beside a quote and its log. Nothing of it is trusted.

    Attributes:
        app_composes: app-compose as presented, exact bytes, each with its path.
        logs: event logs that ``Info`` repeats.
    """

    stated: tuple[Statement, ...] = ()
    app_composes: tuple[tuple[str, bytes], ...] = ()
    logs: tuple[tuple[str, ParsedDstackLog], ...] = ()


NO_STATEMENTS = DstackStatements()


def read_statements(document: Mapping[str, JsonValue]) -> DstackStatements:
    """Read the statements beside a quote.

    Args:
        document: an object that may have ``report_data``, ``vm_config``, ``info`` (the answer of Info) and
            ``app_compose`` (its text), as an answer of GetQuote and the documents of services have them. Members that
            are null or empty text are not there; others are left out.

    Raises:
        EvidenceError: ``dstack-malformed``, or ``dstack-log-malformed`` of a repeated log.

    Spec: specs/dstack.md, section 7.
    """
    stated: list[Statement] = []
    composes: list[tuple[str, bytes]] = []
    logs: list[tuple[str, ParsedDstackLog]] = []
    stated += _members(document, "", {"report_data": ("report_data", _REPORT_DATA_BYTES)})
    stated += _vm_config(document, "")
    _compose(document, "", composes)
    info = _object(document, "", "info")
    if info is not None:
        stated += [*_members(info, "info.", _OF_INFO), *_vm_config(info, "info."), *_key_provider(info, "info.")]
        tcb_info = _object(info, "info.", "tcb_info")
        if tcb_info is not None:
            of_tcb = "info.tcb_info."
            stated += _members(tcb_info, of_tcb, _OF_TCB_INFO)
            _compose(tcb_info, of_tcb, composes)
            if _given(tcb_info, "event_log"):
                logs.append((f"{of_tcb}event_log", dstack_log(tcb_info["event_log"], f"{of_tcb}event_log")))
    return DstackStatements(stated=tuple(stated), app_composes=tuple(composes), logs=tuple(logs))


def _given(members: Mapping[str, JsonValue], name: str) -> bool:
    return members.get(name) not in (None, "")


def _members(members: Mapping[str, JsonValue], prefix: str, known: Mapping[str, tuple[str, int]]) -> list[Statement]:
    return [
        Statement(
            path=f"{prefix}{name}",
            subject=subject,
            value=_FORM.hex_of(members[name], f"{prefix}{name}", sizes=(size,)).hex(),
        )
        for name, (subject, size) in known.items()
        if _given(members, name)
    ]


def _vm_config(members: Mapping[str, JsonValue], prefix: str) -> list[Statement]:
    config = _object(members, prefix, "vm_config")
    return [] if config is None else _members(config, f"{prefix}vm_config.", _OF_VM_CONFIG)


def _key_provider(info: Mapping[str, JsonValue], prefix: str) -> list[Statement]:
    if not _given(info, "key_provider_info"):
        return []
    path, value = f"{prefix}key_provider_info", info["key_provider_info"]
    text = json.dumps(value) if isinstance(value, dict) else _FORM.text_of(value, path)
    provider = key_provider_of(text)
    if provider is None:
        raise _FORM.malformed(path, "JSON with name and id, the id in hex", "something else")
    return [Statement(path=path, subject="key_provider", value=str(provider))]


def _compose(members: Mapping[str, JsonValue], prefix: str, found: list[tuple[str, bytes]]) -> None:
    if _given(members, "app_compose"):
        path = f"{prefix}app_compose"
        found.append((path, _FORM.text_of(members["app_compose"], path).encode()))


def _object(members: Mapping[str, JsonValue], prefix: str, name: str) -> dict[str, JsonValue] | None:
    """Return a member that is an object, or the text of one; None where it is not there."""
    if not _given(members, name):
        return None
    path, value = f"{prefix}{name}", members[name]
    if isinstance(value, str):
        value = _document(value, path)
    return _FORM.object_of(value, path, members=None)


def _document(text: str, path: str) -> JsonValue:
    data = text.encode()
    if len(data) > MAX_STATEMENT_BYTES:
        raise _FORM.malformed(path, f"at most {MAX_STATEMENT_BYTES} bytes", f"{len(data)} bytes")
    try:
        return json_value(data, what=path)
    except EvidenceError as exc:
        raise _FORM.malformed(path, "one strict JSON document", exc.message) from exc


# -- comparison


def signed_values(report: ParsedTdReport, facts: DstackFacts, compose_hash: bytes | None) -> dict[str, str]:
    """Return the signed value of each subject as text; what neither quote nor log has is absent.

    Args:
        report: of the quote.
        facts: of the log that replays to its registers.
        compose_hash: of the log or of MRCONFIGID.

    Spec: specs/dstack.md, section 7, ``mr_aggregated``.
    """
    configuration = report.mr_config_id + report.mr_owner + report.mr_owner_config
    aggregated = report.mr_td + b"".join(report.rtmrs) + (configuration if any(configuration) else b"")
    values: dict[str, bytes | None] = {
        "report_data": report.report_data,
        "mr_td": report.mr_td,
        **{f"rtmr{number}": value for number, value in enumerate(report.rtmrs)},
        "mr_aggregated": sha256(aggregated).digest(),
        "compose_hash": compose_hash,
        "app_id": facts.app_id,
        "instance_id": facts.instance_id,
        "os_image_hash": facts.os_image_hash,
    }
    signed = {name: value.hex() for name, value in values.items() if value is not None}
    return signed if facts.key_provider is None else {**signed, "key_provider": str(facts.key_provider)}


def require_agreement(statements: DstackStatements, signed: Mapping[str, str]) -> int:
    """Require every statement that repeats a signed value to agree with it; return the number of those.

    Raises:
        BindingError: ``dstack-statement-mismatch``, with the path of the first one that differs.
    """
    compared = [statement for statement in statements.stated if statement.subject in signed]
    for statement in compared:
        expected = signed[statement.subject]
        if statement.value != expected:
            raise BindingError(
                f"{statement.path} says {statement.value}, quote and event log say {expected}",
                code="dstack-statement-mismatch",
                field=statement.path,
                expected=expected,
                got=statement.value,
                clause=_CLAUSE,
                hint="the document was changed, or combined from two machines: request a new one",
            )
    return len(compared)
