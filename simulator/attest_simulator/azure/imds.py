"""A software instance-metadata service of Azure's VMs: its answers, without a socket.

``serving.py`` serves it on the loopback address.

Spec: specs/azure-cvm.md, sections 6 and 7.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from attest.encoding import base64url_bytes, base64url_text, json_value
from attest.errors import EvidenceError
from attest_simulator.azure.host import SimulatedSnpHost, SimulatedTdxHost

THIM_PATH: Final = "/metadata/THIM/amd/certification"
QUOTE_PATH: Final = "/acc/tdquote"
MAX_BODY_BYTES: Final = 16 * 1024
"""A TDREPORT in JSON has some 1,400 bytes."""

_JSON: Final = {"Content-Type": "application/json; charset=utf-8"}


class ImdsAnswer(NamedTuple):
    """An answer.

    Attributes:
        status: HTTP status.
        headers: names and values.
        body: JSON; for a refusal, an object with ``error``.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedImds:
    """The service of one host's VMs. Each kind of host has its own request only."""

    host: SimulatedSnpHost | SimulatedTdxHost

    def get(self, path: str, headers: Mapping[str, str]) -> ImdsAnswer:
        """Answer a GET request.

        Args:
            path: part of the URL between the host and ``?``.
            headers: by lower-case names.

        Returns:
            200 with VCEK, TCB and issuers; 400 without ``Metadata: true``, or for a forwarded request (both
            protect against deceived proxies); otherwise 404.
        """
        if headers.get("metadata", "").lower() != "true" or "x-forwarded-for" in headers:
            return refusal(400, "expected the header Metadata: true, and no X-Forwarded-For")
        if path != THIM_PATH or not isinstance(self.host, SimulatedSnpHost):
            return refusal(404, "no such resource")
        return ImdsAnswer(200, _JSON, self.host.certification())

    def post(self, path: str, headers: Mapping[str, str], body: bytes) -> ImdsAnswer:
        """Answer a POST request.

        Args:
            path: as of ``get``.
            headers: as of ``get``; the content type must be JSON.
            body: ``{"report": base64url of a TDREPORT}``.

        Returns:
            200 with ``{"quote": base64url}``; 400 without a TDREPORT of this host, 413 or 415 for an unread
            body, 404 for another path or host.
        """
        if path != QUOTE_PATH or not isinstance(self.host, SimulatedTdxHost):
            return refusal(404, "no such resource")
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return refusal(415, "expected the content type application/json")
        if len(body) > MAX_BODY_BYTES:
            return refusal(413, f"expected at most {MAX_BODY_BYTES} bytes")
        try:
            quote = self.host.quote(_report(body))
        except (EvidenceError, ValueError) as exc:
            return refusal(400, str(exc))
        return ImdsAnswer(200, _JSON, json.dumps({"quote": base64url_text(quote)}).encode("ascii"))


def refusal(status: int, text: str) -> ImdsAnswer:
    """Return an error answer."""
    return ImdsAnswer(status, _JSON, json.dumps({"error": text}).encode("utf-8"))


def _report(body: bytes) -> bytes:
    document = json_value(body, what="the request")
    if not isinstance(document, dict) or set(document) != {"report"} or not isinstance(document["report"], str):
        raise ValueError("expected an object with one member, report, of base64url text")
    return base64url_bytes(document["report"], what="report")
