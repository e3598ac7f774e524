"""NVIDIA's reference integrity manifests, as the exact signed bytes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from hashlib import sha256

from attest.encoding import base64_bytes, hex_bytes, json_value
from attest.endorsements.malformed import malformed

MAX_RIM_BYTES = 256 * 1024
"""The largest known has 26 KiB."""
MAX_RIM_ANSWER_BYTES = MAX_RIM_BYTES // 3 * 4 + 8192
"""Base64 of the document, and a few short members."""

_ID = re.compile(r"NV_[A-Za-z0-9_.-]{1,125}")
_SWID = re.compile(
    rb"(?:\xef\xbb\xbf)?[ \t\r\n]*(?:<\?xml[^>]{0,256}>[ \t\r\n]*)?"  # byte-order mark, declaration
    rb"<(?:[A-Za-z_][\w.-]{0,32}:)?SoftwareIdentity[ \t\r\n>/]"
)
_ANSWER_MEMBERS = ("id", "rim", "sha256")
_malformed = partial(
    malformed, code="rim-answer-malformed", of=" of the RIM service's answer", clause="NVIDIA RIM service"
)
_no_document = partial(malformed, "rim", code="rim-malformed", clause="TCG Reference Integrity Manifest")
_BLANKS = b" \t\r\n"
_RIM_MEMBER = re.compile(rb'"rim"[ \t\r\n]*:[ \t\r\n]*"')
_DIGEST_MEMBER = re.compile(rb'"sha256"[ \t\r\n]*:')


@dataclass(frozen=True, slots=True, kw_only=True)
class RimDocument:
    """A RIM as presented, untrusted until its signature and signers are verified.

    Attributes:
        xml: the SWID document, exactly as served and signed.
    """

    xml: bytes

    @property
    def sha256(self) -> bytes:
        """Digest of the document, which distinguishes issues of one id."""
        return sha256(self.xml).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class RimAnswer:
    """Answer of NVIDIA's RIM service; only the document in it is signed.

    Attributes:
        id: the service's id of the document; the document itself does not contain it.
        document: with the digest that the answer states.
    """

    id: str
    document: RimDocument


def is_rim_id(text: str) -> bool:
    """Return True if a text is a valid RIM id: it becomes part of a URL, and evidence contributes to it."""
    return _ID.fullmatch(text) is not None


def looks_like_rim(data: bytes) -> bool:
    """Return True if the first element is that of a SWID document, without parsing."""
    return _SWID.match(data) is not None


def looks_like_rim_answer(data: bytes) -> bool:
    """Return True if this is a JSON object with the members of the RIM service's answer."""
    text = data[:MAX_RIM_ANSWER_BYTES]
    return text[:64].lstrip(_BLANKS)[:1] == b"{" and all(p.search(text) for p in (_RIM_MEMBER, _DIGEST_MEMBER))


def parse_rim_answer(data: bytes) -> RimAnswer:
    """Parse an answer of NVIDIA's RIM service and compare its stated digest (specs/nvidia-gpu.md, section 9.1).

    An answer is JSON ``{"id", "rim", "sha256", …}``, at most ``MAX_RIM_ANSWER_BYTES``; other members are ignored.
    ``rim`` is base64 of the document, ``sha256`` the hex digest of the decoded document.

    Raises:
        EvidenceError: ``rim-answer-malformed``, ``rim-malformed``, ``json-invalid``, ``base64-invalid`` or
            ``hex-invalid``.
    """
    if len(data) > MAX_RIM_ANSWER_BYTES:
        raise _malformed("body", f"at most {MAX_RIM_ANSWER_BYTES} bytes", f"{len(data)} bytes")
    members = json_value(data, what="answer of the RIM service")
    if not isinstance(members, dict):
        raise _malformed("body", "an object", type(members).__name__)
    name, rim, digest = (members.get(member) for member in _ANSWER_MEMBERS)
    if not (isinstance(name, str) and isinstance(rim, str) and isinstance(digest, str)):
        raise _malformed("body", "texts under id, rim and sha256", "something else")
    if not is_rim_id(name):
        raise _malformed("id", "the id of a RIM", repr(name[:40]))
    document = RimDocument(xml=base64_bytes(rim, what="rim"))
    stated = hex_bytes(digest, what="sha256", length=32)
    if document.sha256 != stated:
        raise _malformed("sha256", document.sha256.hex(), stated.hex())
    return RimAnswer(id=name, document=read_rim_document(document.xml))


def read_rim_document(xml: bytes) -> RimDocument:
    """Return bytes as a RIM if they start like one; ``attest.evidence.gpu.rim`` parses them.

    Raises:
        EvidenceError: ``rim-malformed``, too long, or another document.
    """
    if len(xml) > MAX_RIM_BYTES:
        raise _no_document(f"at most {MAX_RIM_BYTES} bytes", f"{len(xml)} bytes")
    if not looks_like_rim(xml):
        raise _no_document("the element SoftwareIdentity", "something else")
    return RimDocument(xml=xml)
