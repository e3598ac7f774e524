"""Witness: cosign the checkpoint of a log if it extends the last one cosigned.

A witness is useful if another party runs it on another machine. Its state is one file for each log, with the last
checkpoint that it cosigned; the file is on disk before the cosignature is returned.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from attest.encoding import base64_bytes, json_value
from attest.errors import AttestError, ConfigurationError, EndorsementError, EvidenceError, VerificationError
from attest.release import (
    MAX_PROOF_HASHES,
    Checkpoint,
    FetchProof,
    FileMemory,
    LogWatch,
    VerifierKey,
    WitnessKey,
    cosign,
    read_checkpoint,
    require_name,
)
from kms.domain.bounded_content import bounded_content

if TYPE_CHECKING:
    import httpx

MAX_ANSWER_BYTES: Final = 64 * 1024
TIMEOUT_SECONDS: Final = 30.0
_OK, _NOT_FOUND = 200, 404


def read_witness_key(content: bytes, *, name: str) -> tuple[Ed25519PrivateKey, WitnessKey]:
    """Read a witness's private key; return it with its public half.

    Raises:
        ConfigurationError: ``witness-key-invalid`` or ``verifier-key-invalid``.
    """
    require_name(name)
    try:
        key = load_pem_private_key(content, password=None)
    except (ValueError, TypeError) as exc:
        raise _bad_key() from exc
    if not isinstance(key, Ed25519PrivateKey):
        raise _bad_key()
    return key, WitnessKey(name=name, public=key.public_key().public_bytes_raw())


def cosign_next(
    *, note: str, log: VerifierKey, name: str, key: Ed25519PrivateKey, memory: Path, fetch: FetchProof, at: datetime
) -> tuple[Checkpoint, str]:
    """Cosign a checkpoint that extends or equals the last one cosigned; return it and the signature line.

    ``memory`` is the witness's file with the last checkpoint, made if it is missing.

    Raises:
        AttestError: as ``read_checkpoint`` and ``LogWatch.follow``, or ``checkpoint-older``.
    """
    checkpoint, kept = read_checkpoint(note, log=log), FileMemory(memory)
    LogWatch(log, memory=kept).follow(checkpoint, fetch=fetch)
    largest = read_checkpoint(kept.recall() or note, log=log)
    if largest.size > checkpoint.size:
        raise VerificationError(
            "a larger checkpoint of this log was already cosigned",
            code="checkpoint-older",
            expected=f"at least {largest.size} entries",
            got=str(checkpoint.size),
            clause="C2SP tlog-witness",
        )
    return checkpoint, cosign(checkpoint.note, name=name, key=key, at=int(at.timestamp()))


class LogAtUrl:
    """Client of a service's log over HTTP; ``http`` replaces the default client."""

    def __init__(self, url: str, *, http: httpx.Client | None = None) -> None:
        import httpx  # noqa: PLC0415  slow to load, and few commands send anything

        self._url = url.rstrip("/")
        self._http = httpx.Client(timeout=TIMEOUT_SECONDS) if http is None else http

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the client."""
        self._http.close()

    def checkpoint(self) -> str:
        """Return the checkpoint as text, unverified.

        Raises:
            EndorsementError: ``service-unreachable``.
        """
        return self._get("/v1/log/checkpoint").decode("utf-8", errors="replace")

    def consistency(self, old: int, new: int) -> tuple[bytes, ...]:
        """Request the proof that the log of one size extends that of another.

        Raises:
            VerificationError: ``log-consistency-invalid``: the service has no such proof.
            EndorsementError: ``service-unreachable``.
        """
        try:
            document = json_value(self._get(f"/v1/log/proof/consistency?old={old}&new={new}"), what="proof")
            proof = document["proof"] if isinstance(document, dict) else None
            if not isinstance(proof, list) or len(proof) > MAX_PROOF_HASHES:
                raise _no_proof()
            return tuple(base64_bytes(one if isinstance(one, str) else "!", what="hash") for one in proof)
        except (EvidenceError, KeyError) as exc:
            raise _no_proof() from exc

    def _get(self, path: str) -> bytes:
        import httpx  # noqa: PLC0415  slow to load, and few commands send anything

        try:
            with self._http.stream("GET", self._url + path) as answer:
                content = bounded_content(answer.iter_bytes(), MAX_ANSWER_BYTES)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as exc:
            raise _unreachable(str(exc)) from exc
        if answer.status_code == _NOT_FOUND:
            raise _no_proof()
        if answer.status_code != _OK:
            raise _unreachable(f"status {answer.status_code}")
        return content


def _no_proof() -> AttestError:
    return VerificationError("the service cannot prove that its log is consistent", code="log-consistency-invalid")


def _unreachable(problem: str) -> EndorsementError:
    return EndorsementError(
        f"the service's log cannot be read: {problem}", code="service-unreachable", got=problem, retryable=True
    )


def _bad_key() -> ConfigurationError:
    return ConfigurationError(
        "the key of a witness must be an unencrypted Ed25519 private key in PEM",
        code="witness-key-invalid",
        field="key",
        hint="create one with 'openssl genpkey -algorithm ed25519'",
    )
