"""Client for witnesses that cosign checkpoints (C2SP tlog-witness, ``add-checkpoint``).

A witness without a valid answer in time is left out, and its cosignature is missing from the checkpoint. After a
failure a witness is paused, so that it does not slow down every release.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from attest.clock import Clock
from attest.errors import AttestError, ConfigurationError
from attest.release import Checkpoint, WitnessKey
from kms.domain.bounded_content import bounded_content

if TYPE_CHECKING:
    import httpx

ASK_SECONDS: Final = 2.0
"""Longest wait of a release for witnesses."""
PAUSE_SECONDS: Final = 30
MAX_WITNESSES: Final = 16
MAX_ANSWER_BYTES: Final = 16 * 1024
_OK, _CONFLICT = 200, 409
_SIZE = re.compile(r"(0|[1-9][0-9]{0,18})\n")

Prove = Callable[[int, int], tuple[bytes, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """One witness: its key, and its submission prefix, without a slash at the end."""

    key: WitnessKey
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WitnessAnswer:
    """HTTP status and body of a witness's answer; the body has at most ``MAX_ANSWER_BYTES``."""

    status: int
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class WitnessRound:
    """Result of one round of witnesses.

    ``lines`` are verified, in the order of the witnesses; ``behind``: a witness has seen a longer log of this name.
    """

    lines: tuple[str, ...]
    behind: bool


Post = Callable[[str, bytes], WitnessAnswer]
"""Sends a body to an address.

Raises:
    OSError: no answer, or one that is too long.
"""


def poster(http: httpx.Client) -> Post:
    """Return a sender of requests to witnesses; the client's time limit is ``ASK_SECONDS``."""
    import httpx  # noqa: PLC0415  slow to load, and few commands send anything

    def post(url: str, body: bytes) -> WitnessAnswer:
        try:
            with http.stream("POST", url, content=body) as answer:
                return WitnessAnswer(
                    status=answer.status_code, content=bounded_content(answer.iter_bytes(), MAX_ANSWER_BYTES)
                )
        except (httpx.HTTPError, httpx.InvalidURL) as exc:
            raise OSError(str(exc)) from exc

    return post


def read_witnesses(content: bytes) -> tuple[Witness, ...]:
    """Read a file of witnesses: a line for each, its verifier key and its address; ``#`` begins a comment.

    Raises:
        ConfigurationError: ``witnesses-invalid`` or ``verifier-key-invalid``.
    """
    try:
        lines = [line.partition("#")[0].split() for line in content.decode("utf-8").splitlines()]
    except UnicodeDecodeError as exc:
        raise _invalid("it is not UTF-8") from exc
    found = [_witness(words, number) for number, words in enumerate(lines, 1) if words]
    names = {one.key.name for one in found}
    if not 0 < len(found) <= MAX_WITNESSES or len(names) != len(found):
        raise _invalid(f"expected 1 to {MAX_WITNESSES} witnesses of different names")
    return tuple(found)


def _witness(words: list[str], number: int) -> Witness:
    if len(words) != 2:
        raise _invalid(f"line {number}: expected a verifier key and an address")
    key, url = WitnessKey.parse(words[0]), words[1].rstrip("/")
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise _invalid(f"line {number}: expected an address that begins with https:// or http://")
    return Witness(key=key, url=url)


class WitnessPanel:
    """The witnesses of a log, and the state of each.

    ``report`` takes messages for the operator, ``post`` sends requests; a round takes at most ``seconds``.
    """

    def __init__(
        self,
        witnesses: tuple[Witness, ...],
        *,
        clock: Clock,
        report: Callable[[str], None],
        post: Post,
        seconds: float = ASK_SECONDS,
    ) -> None:
        self._witnesses = witnesses
        self._clock = clock
        self._report = report
        self._post = post
        self._seconds = seconds
        self._sizes = {one.key.name: 0 for one in witnesses}
        self._paused: dict[str, datetime] = {}
        self._pool = ThreadPoolExecutor(len(witnesses), thread_name_prefix="witness")

    def ask(self, checkpoint: Checkpoint, *, prove: Prove) -> WitnessRound:
        """Request cosignatures of all witnesses that are not paused, concurrently; return those that arrive in time."""
        now = self._clock()
        asked = [one for one in self._witnesses if self._paused.get(one.key.name, now) <= now]
        futures = {one.key.name: self._pool.submit(self._cosigned, one, checkpoint, prove) for one in asked}
        wait(futures.values(), timeout=self._seconds)
        lines: list[str] = []
        behind = False
        for name, future in futures.items():
            try:
                if not future.done():
                    future.cancel()
                    raise OSError("no answer in time")  # noqa: TRY301  as any other failure of a witness
                line = future.result()
            except (OSError, AttestError, ValueError) as exc:
                self._paused[name] = now + timedelta(seconds=PAUSE_SECONDS)
                self._report(f"warning: the witness {name} did not cosign: {exc}")
                continue
            behind |= line is None
            lines += [line] if line else []
        return WitnessRound(lines=tuple(lines), behind=behind)

    def _cosigned(self, witness: Witness, checkpoint: Checkpoint, prove: Prove) -> str | None:
        """Return the witness's verified line, or None when it has seen a longer log.

        Raises:
            OSError: no answer, or a refusal.
            ValueError: a malformed answer.
            AttestError: an invalid cosignature, or no proof can be made.
        """
        name = witness.key.name
        answer = self._sent(witness, checkpoint, self._sizes[name], prove)
        if answer.status == _CONFLICT:
            self._sizes[name] = _stated_size(answer)
            if self._sizes[name] > checkpoint.size:
                self._sizes[name] = 0  # learnt again next time: this log may be the shorter one
                return None
            answer = self._sent(witness, checkpoint, self._sizes[name], prove)
        if answer.status != _OK:
            raise OSError(f"status {answer.status}")
        line = _cosignature(witness, checkpoint, answer)
        self._sizes[name] = checkpoint.size
        return line

    def _sent(self, witness: Witness, checkpoint: Checkpoint, old: int, prove: Prove) -> WitnessAnswer:
        proof = "".join(f"{b64encode(one).decode()}\n" for one in prove(old, checkpoint.size))
        return self._post(f"{witness.url}/add-checkpoint", f"old {old}\n{proof}\n{checkpoint.note}".encode())


def _stated_size(answer: WitnessAnswer) -> int:
    match = _SIZE.fullmatch(answer.content.decode("ascii"))
    if match is None:
        raise ValueError("a conflict without a size")
    return int(match[1])


def _cosignature(witness: Witness, checkpoint: Checkpoint, answer: WitnessAnswer) -> str:
    lines = [f"{line}\n" for line in answer.content.decode("utf-8").split("\n") if line]
    for line in lines:
        if witness.key.cosigned_at(checkpoint.note + line) is not None:
            return line
    raise ValueError("an answer without its cosignature")


def _invalid(problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"the file of witnesses: {problem}", code="witnesses-invalid", field="witnesses_file", got=problem
    )
