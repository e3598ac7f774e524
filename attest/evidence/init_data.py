"""Initialisation data of Confidential Containers: the text that a guest was launched with, and its digest in evidence.

The host hands the text to the guest and its digest to the hardware; the guest's agent compares the two. So the digest
in evidence shows with which configuration and which policy of its agent a guest runs.

Spec: specs/kbs-protocol.md, section 9.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from math import isfinite
from typing import Protocol, cast

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes

from attest.encoding import MAX_JSON_DEPTH, JsonValue, json_value
from attest.errors import EvidenceError, UnsupportedError
from attest.evidence.azure.verify import VerifiedAzureEvidence
from attest.evidence.intel.quote import ParsedQuote
from attest.evidence.intel.verify import VerifiedIntelQuote
from attest.evidence.procedure import require_equal
from attest.evidence.sample.verify import VerifiedSample
from attest.evidence.sgx.structure import ParsedEnclaveReport
from attest.evidence.snp.verify import VerifiedSnpReport
from attest.evidence.tdx.structure import ParsedTdReport

MAX_INIT_DATA_BYTES = 512 * 1024
MAX_ENTRIES = 64
MAX_NAME_CHARACTERS = 256
MAX_KEY_PARTS = 32
"""Parts of a dotted key. Python's TOML reader takes time and memory by the square of their number."""
_CLAUSE = "Confidential Containers, initdata"
_ALGORITHMS: Mapping[str, type[hashes.HashAlgorithm]] = {
    "sha256": hashes.SHA256,
    "sha384": hashes.SHA384,
    "sha512": hashes.SHA512,
    "sm3": hashes.SM3,
}
_KEY_PART = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+"""
_LONG_KEY = re.compile(f"(?<![A-Za-z0-9_-])(?:{_KEY_PART}){{{MAX_KEY_PARTS}}}")
_PCR = 8
_PCR_DIGEST_BYTES = 32
_TABLES = ("cdh.toml", "aa.toml")
_AGENT_POLICY = "policy.rego"
_POLICY_DATA = "policy_data := {"
_LARGEST_INTEGER = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class InitData:
    """Initialisation data as given; nothing of it is trusted until evidence carries its digest.

    Attributes:
        algorithm: ``sha256``, ``sha384``, ``sha512`` or ``sm3``.
        digest: of the whole text as given.
        data: files of the guest, by name.
    """

    version: str
    algorithm: str
    digest: bytes
    data: Mapping[str, str]

    @property
    def claims(self) -> dict[str, JsonValue]:
        """The files as a token shows them: configuration as objects, and of the agent's policy only its data."""
        found: dict[str, JsonValue] = dict(self.data)
        for name in _TABLES:
            table = _table_json(self.data[name]) if name in self.data else None
            if table is not None:
                found[name] = table
        policy_data = _policy_data(self.data.get(_AGENT_POLICY, ""))
        if policy_data is not None:
            del found[_AGENT_POLICY]
            found["agent_policy_claims"] = policy_data
        return found


class Attested(Protocol):
    """A verified device, as far as initialisation data is compared with it: a ``VerifiedItem``."""

    @property
    def name(self) -> str:
        """Its name in the evidence."""
        ...

    @property
    def kind(self) -> str:
        """Its kind."""
        ...

    @property
    def verified(self) -> object:
        """The result of the procedure of its format."""
        ...


def parse_init_data(text: str) -> InitData:
    """Read initialisation data: TOML with version, algorithm and a table of texts.

    Raises:
        EvidenceError: ``init-data-malformed``, or ``init-data-unsupported`` for an algorithm that is not available.
    """
    try:
        raw = text.encode("utf-8")
        document = _toml(text)
    except (ValueError, RecursionError) as exc:
        raise _malformed("init-data", "TOML of one table", "other text") from exc
    version = _text(document.get("version"), "version")
    algorithm = _text(document.get("algorithm"), "algorithm")
    if algorithm not in _ALGORITHMS:
        raise _malformed("algorithm", f"one of {', '.join(_ALGORITHMS)}", repr(algorithm[:40]))
    data = document.get("data")
    if not isinstance(data, dict) or len(cast("dict[str, object]", data)) > MAX_ENTRIES:
        raise _malformed("data", f"a table of at most {MAX_ENTRIES} texts", "something else")
    return InitData(
        version=version,
        algorithm=algorithm,
        digest=_digest(algorithm, raw),
        data={
            _name(name): _text(value, f"data.{name}"[:80]) for name, value in cast("dict[str, object]", data).items()
        },
    )


def require_init_data(item: Attested, init_data: InitData) -> None:
    """Require that evidence carries the digest of initialisation data.

    Sample evidence has no such field and proves nothing in any case: nothing is compared there.

    Raises:
        BindingError: ``init-data-mismatch``: the field has another value.
        UnsupportedError: ``init-data-unbound``: evidence of this kind has no such field, or the digest does not fit it.
    """
    digest = init_data.digest
    match item.verified:
        case VerifiedSample() if item.kind == "sample":
            return
        case VerifiedSnpReport(report=report):
            field, wanted, found = "HOST_DATA", _fitted(digest, 32), report.host_data
        case VerifiedIntelQuote(quote=ParsedQuote(body=ParsedTdReport(mr_config_id=found))):
            field, wanted = "MRCONFIGID", _fitted(digest, 48)
        case VerifiedIntelQuote(quote=ParsedQuote(body=ParsedEnclaveReport(config_id=found))):
            field, wanted = "CONFIGID", _fitted(digest, 64)
        case VerifiedAzureEvidence() as vm:
            field, wanted, found = f"PCR{_PCR}", _extended(item, digest), _register(item, vm)
        case _:
            raise _unbound(item, "evidence with a field for it", f"evidence of {item.kind}")
    problem = f"{field} of {item.name} is not that of the given initialisation data"
    hint = "send the text that the guest was launched with, byte for byte"
    require_equal(wanted, found, problem, code="init-data-mismatch", field=field, clause=_CLAUSE, hint=hint)


def _fitted(digest: bytes, size: int) -> bytes:
    """Return a digest of the size of a field: with zeros behind it, or its beginning."""
    return digest.ljust(size, b"\0")[:size]


def _extended(item: Attested, digest: bytes) -> bytes:
    """Return the register after its one extension, which takes digests of its bank's size."""
    if len(digest) != _PCR_DIGEST_BYTES:
        raise _unbound(item, "a digest of 32 bytes: sha256", f"one of {len(digest)}")
    return sha256(bytes(_PCR_DIGEST_BYTES) + digest).digest()


def _register(item: Attested, vm: VerifiedAzureEvidence) -> bytes:
    found = dict(vm.pcrs).get(_PCR)
    if found is None:
        raise _unbound(item, f"a TPM's quote over PCR{_PCR}", "one over other registers")
    return found


def _unbound(item: Attested, expected: str, got: str) -> UnsupportedError:
    return UnsupportedError(
        f"{item.name} carries no digest of initialisation data ({got})",
        code="init-data-unbound",
        field="init-data",
        expected=expected,
        got=got,
        clause=_CLAUSE,
        hint="leave initialisation data out, or use evidence whose hardware carries its digest",
    )


# -- reading


def _toml(text: str) -> dict[str, object]:
    """Read TOML within the limits of size and of dotted keys; a ``ValueError`` or ``RecursionError`` for others."""
    if len(text) > MAX_INIT_DATA_BYTES or _LONG_KEY.search(text):
        raise ValueError("beyond the limits")
    return tomllib.loads(text)


def _digest(algorithm: str, raw: bytes) -> bytes:
    try:
        state = hashes.Hash(_ALGORITHMS[algorithm]())
    except UnsupportedAlgorithm as exc:
        raise EvidenceError(
            f"init-data: this installation has no {algorithm}",
            code="init-data-unsupported",
            field="init-data.algorithm",
            expected="sha256, sha384 or sha512",
            got=algorithm,
            clause=_CLAUSE,
        ) from exc
    state.update(raw)
    return state.finalize()


def _text(value: object, path: str) -> str:
    if not isinstance(value, str):
        raise _malformed(path, "text", "nothing" if value is None else "another type")
    return value


def _name(name: str) -> str:
    if not 0 < len(name) <= MAX_NAME_CHARACTERS or not name.isprintable():
        raise _malformed("data", f"names of 1 to {MAX_NAME_CHARACTERS} printable characters", "another name")
    return name


def _malformed(path: str, expected: str, got: str) -> EvidenceError:
    where = path if path == "init-data" else f"init-data.{path}"
    return EvidenceError(
        f"{where}: expected {expected}, got {got}",
        code="init-data-malformed",
        field=where,
        expected=expected,
        got=got,
        clause=_CLAUSE,
    )


# -- claims


def _table_json(text: str) -> JsonValue:
    """Return a configuration file as an object; None for one that is no TOML, or has values that JSON lacks."""
    try:
        return _json(_toml(text), MAX_JSON_DEPTH)
    except (ValueError, RecursionError):
        return None


def _json(value: object, depth: int) -> JsonValue:
    if not depth:
        raise ValueError("nested too deep")
    match value:
        case bool() | str():
            return value
        case int() if -_LARGEST_INTEGER <= value <= _LARGEST_INTEGER:
            return value
        case float() if isfinite(value):
            return value
        case list():
            return [_json(member, depth - 1) for member in cast("list[object]", value)]
        case dict():
            return {name: _json(member, depth - 1) for name, member in cast("dict[str, object]", value).items()}
        case _:
            raise ValueError("a value that JSON does not have")


def _policy_data(text: str) -> JsonValue:
    """Return the object that ends the text of an agent's policy; None without one."""
    _, mark, rest = text.partition(_POLICY_DATA)
    if not mark:
        return None
    try:
        return json_value(b"{" + rest.encode(), what="policy data")
    except EvidenceError:
        return None
