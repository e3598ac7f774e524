"""Facts from the tokens of other Verifiers, in the vocabulary of verified evidence.

Every service has its own names for the fields of a report. Here they become the names of ``attest.evidence.claims``,
with the same types, so that one rule applies to both. A Verifier's own additions (for example that a machine complies
with its rules) have no such name and are kept apart, as its statements.

A claim that the token does not carry is absent. A claim with another type or length than its issuer documents refuses
the whole token: its meaning is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias, TypeVar

from attest.encoding import JsonValue, base64_bytes, base64url_bytes, hex_bytes, rfc3339, rfc3339_text
from attest.errors import EvidenceError, UnsupportedError
from attest.evidence.claims import ClaimTree

TokenService: TypeAlias = Literal["nras", "maa", "ita", "google"]
"""The issuing service: NVIDIA's Remote Attestation Service, Microsoft Azure Attestation, Intel Trust Authority, Google
Cloud Attestation."""
TokenKind: TypeAlias = Literal["sev-snp", "tdx", "sgx", "nvidia-gpu", "nvidia-switch", "sev", "sev-es", "vm"]
"""The kinds of verified evidence that a token can be about, and three that only tokens know: AMD SEV and SEV-ES, for
which no processor signs anything, and a virtual machine without any TEE."""

MAX_TEXT_CHARACTERS = 1024
MAX_MEMBERS = 256
_MAX_INTEGER = (1 << 64) - 1
_CLAUSE = "RFC 8725; docs/tokens.md"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFrame:
    """The properties that all facts of one token share: its issuer and its validity."""

    service: TokenService
    issuer: str
    issued: datetime
    expires: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFacts:
    """The statements of a token about one TEE or device, as reliable as their issuer.

    Attributes:
        name: of the item: ``cpu``, or a device's name in the token (``GPU-0``).
        kind: what it is; decides in which registry ``claims`` have their meaning.
        claims: dotted names of that registry (``policy.debug``, ``mr_td``) with values of its types.
        statements: those of the Verifier beyond that, in snake case after its own names (``compliance_status``).
        nonces: every nonce that the token repeats, as bytes; texts as UTF-8.
        held_data: what the guest chose and the Verifier found to be bound by ``report_data``.
        simulated: the claim ``simulated``, which Verifiers of this project state; None if absent, as in the tokens of
            the services themselves.
    """

    frame: TokenFrame
    name: str
    kind: TokenKind
    claims: Mapping[str, ClaimTree]
    statements: Mapping[str, ClaimTree]
    nonces: tuple[bytes, ...] = ()
    held_data: bytes | None = None
    simulated: bool | None = None

    @property
    def report_data(self) -> bytes | None:
        """The 64 bytes that the TEE signed for the guest; None when the token does not repeat them."""
        value = self.claims.get("report_data")
        return value if isinstance(value, bytes) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimReader:
    """Members of one object of a token, each read as exactly one type; JSON ``null`` is the same as absent.

    Attributes:
        path: of the object in the token, for messages; empty for the token itself.
    """

    members: Mapping[str, JsonValue]
    path: str = ""

    def __contains__(self, name: str) -> bool:
        """Return True for a member that is present and not ``null``."""
        return self.members.get(name) is not None

    def where(self, name: str) -> str:
        """Return the path of a member."""
        return f"{self.path}.{name}" if self.path else name

    def boolean(self, name: str) -> bool | None:
        """Read a boolean."""
        return self._typed(name, bool, "a boolean")

    def integer(self, name: str, *, most: int = _MAX_INTEGER) -> int | None:
        """Read an integer of 0 to ``most``."""
        return self._typed(name, int, f"an integer of 0 to {most}", lambda value: 0 <= value <= most)

    def text(self, name: str) -> str | None:
        """Read a text of 1 to ``MAX_TEXT_CHARACTERS`` characters."""
        expected = f"a text of 1 to {MAX_TEXT_CHARACTERS} characters"
        return self._typed(name, str, expected, lambda value: 0 < len(value) <= MAX_TEXT_CHARACTERS)

    def hexadecimal(self, name: str, length: int) -> bytes | None:
        """Read ``length`` bytes in hex."""
        text = self.text(name)
        return None if text is None else self._decoded(name, lambda: hex_bytes(text, what=name, length=length))

    def encoded(self, name: str, *, url: bool) -> bytes | None:
        """Read base64: of URLs without padding, or the standard one with it. It may be as long as the token."""
        value = self._typed(name, str, "base64")
        decode = base64url_bytes if url else base64_bytes
        return None if value is None else self._decoded(name, lambda: decode(value, what=name))

    def moment(self, name: str) -> str | None:
        """Read an RFC 3339 time, and return it in UTC as the claims of evidence spell it."""
        text = self.text(name)
        return None if text is None else self._decoded(name, lambda: rfc3339_text(rfc3339(text, what=name)))

    def texts(self, name: str) -> tuple[str, ...] | None:
        """Read a list of texts."""
        found = self.entries(name)
        if found is None:
            return None
        texts = tuple(text for text in found if isinstance(text, str) and 0 < len(text) <= MAX_TEXT_CHARACTERS)
        if len(texts) != len(found):
            raise claim_invalid(self.where(name), f"texts of 1 to {MAX_TEXT_CHARACTERS} characters", found)
        return texts

    def entries(self, name: str) -> list[JsonValue] | None:
        """Read a list of at most ``MAX_MEMBERS`` entries."""
        expected = f"a list of at most {MAX_MEMBERS} entries"
        return self._typed(name, list, expected, lambda value: len(value) <= MAX_MEMBERS)

    def objects(self, name: str) -> tuple[ClaimReader, ...] | None:
        """Read a list of objects."""
        found = self.entries(name)
        if found is None:
            return None
        for index, entry in enumerate(found):
            if not isinstance(entry, dict):
                raise claim_invalid(f"{self.where(name)}[{index}]", "an object", entry)
        listed = [entry for entry in found if isinstance(entry, dict)]
        return tuple(ClaimReader(members=m, path=f"{self.where(name)}[{i}]") for i, m in enumerate(listed))

    def object(self, name: str) -> ClaimReader | None:
        """Read an object."""
        value = self._typed(name, dict, "an object")
        return None if value is None else ClaimReader(members=value, path=self.where(name))

    def tree(self, name: str) -> ClaimTree | None:
        """Read an object as the claims of evidence hold it."""
        member = self.object(name)
        return None if member is None else claim_tree(dict(member.members), member.path)

    def required(self, name: str, value: _T | None) -> _T:
        """Return what was read of a member that has to be there."""
        if value is None:
            raise claim_invalid(self.where(name), "a value", None)
        return value

    def _typed(
        self, name: str, kind: type[_T], expected: str, fits: Callable[[_T], bool] = lambda _: True
    ) -> _T | None:
        """Read a value of exactly this type: a boolean is no integer."""
        value = self.members.get(name)
        if value is None:
            return None
        if type(value) is not kind or not fits(value):
            raise claim_invalid(self.where(name), expected, value)
        return value

    def _decoded(self, name: str, decode: Callable[[], _T]) -> _T:
        try:
            return decode()
        except EvidenceError as exc:
            raise claim_invalid(self.where(name), exc.expected or "another form", self.members[name]) from exc


def claim_invalid(where: str, expected: str, got: JsonValue) -> EvidenceError:
    """Return the refusal of a claim that is missing, or is not what its issuer documents."""
    found = "absent" if got is None else f"{_TYPES[type(got)]}" + (f" {got[:80]!r}" if isinstance(got, str) else "")
    return EvidenceError(
        f"token: {where}: expected {expected}, got {found}",
        code="token-claim-invalid",
        field=where,
        expected=expected,
        got=found,
        clause=_CLAUSE,
    )


def kind_unsupported(what: str, got: str, *, field: str, expected: str, clause: str) -> UnsupportedError:
    """Return the refusal of a token about another kind of TEE or device."""
    return UnsupportedError(
        f"token: {what} {got[:40]!r} is not supported",
        code="token-kind-unsupported",
        field=field,
        expected=expected,
        got=got[:40],
        clause=clause,
    )


_TYPES: Mapping[type, str] = {
    bool: "a boolean",
    int: "an integer",
    float: "a fraction",
    str: "the text",
    list: "a list",
    dict: "an object",
}


def claim_tree(value: JsonValue, where: str) -> ClaimTree | None:
    """Return a JSON value as the claims of evidence hold it; members that are ``null`` are left out.

    Raises:
        EvidenceError: ``token-claim-invalid``: a fraction, which no claim has.
    """
    match value:
        case float():
            raise claim_invalid(where, "anything but a fraction", value)
        case list():
            trees = (claim_tree(entry, f"{where}[{i}]") for i, entry in enumerate(value))
            return tuple(tree for tree in trees if tree is not None)
        case dict():
            members = ((name, claim_tree(member, f"{where}.{name}")) for name, member in value.items())
            return {name: tree for name, tree in members if tree is not None}
        case _:
            return value
