"""The settings of the service, fixed at its start. None is secret, and together they define its trust.

They must be part of the machine's measurement: a change can name other services and other keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from attest.session import SessionSettings

SimulatedKind = Literal["snp", "tdx", "azure-snp", "azure-tdx"]
POSTGRES_SCHEMES: Final = ("postgresql://", "postgres://")
"""Beginnings of a replay window that is a database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySource:
    """A key, and the service that releases it.

    Attributes:
        name: ``KEY``, ``TENANT/KEY``, or one of them with ``@VERSION``.
        service: the key-release service, and its expected identity.
    """

    name: str
    service: SessionSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSettings:
    """The source of the machine's evidence.

    Attributes:
        simulate: a simulated machine instead of this one; it proves nothing about hardware.
        gpus: number of GPUs of the simulated machine.
        simulated_change: file with the present change of the simulated machine, read before each evidence.
        with_gpus: true if the evidence includes this machine's own GPUs; None: where their driver is loaded.
        tcti: Azure: the way to the virtual TPM.
        endorsements: files and folders with its endorsements, sent with its evidence.
    """

    simulate: SimulatedKind | None = None
    gpus: int = 0
    simulated_change: Path | None = None
    with_gpus: bool | None = None
    tcti: str | None = None
    endorsements: tuple[Path, ...] = ()


MODEL_NAME: Final = "all-MiniLM-L6-v2"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """The embedding model, sealed.

    Attributes:
        name: shown to users.
        trust: files with the public keys of the accepted signers.
        model_id: expected sealing, 16 bytes; None accepts any of its owner's.
    """

    place: Path
    trust: tuple[Path, ...]
    model_id: bytes | None = None
    name: str = MODEL_NAME


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmSettings:
    """A server of a language model; it receives documents and questions in the clear.

    Attributes:
        url: of a server with OpenAI's protocol.
        inside_boundary: the reason why it is inside the TEE, where its address is not this machine's own.
        weights: how its weights are known, in words, for the readers of its answers.
    """

    url: str
    model: str = "default"
    inside_boundary: str | None = None
    weights: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceLimits:
    """Limits of sizes, counts, rates and times. All have defaults.

    Attributes:
        passages_per_document: that one file may come to; they are in memory until it is stored. 10,000 full pages are
            40,000.
        uploads: worked on at a time.
        questions: answered at a time.
        requests_per_minute: of one user, of every kind.
        request_burst: at once, after a pause.
        upload_seconds: for one file, from its complete arrival.
        question_seconds: for one answer.
        offers_per_minute: proofs for all clients together.
        offers_per_minute_each: for one address.
        waiting_bytes: of all pending requests together.
        body_seconds: for one request to arrive.
        drain_seconds: for running requests, when the service ends.
        retry_seconds: longest pause between attempts to get the keys.
        renew_seconds: after which a lease is renewed, where that is sooner than after two thirds of its time: so soon
            does a policy that was tightened stop the service.
    """

    document_bytes: int = 64 * 1024 * 1024
    documents_per_user: int = 500
    passages_per_document: int = 50_000
    uploads: int = 4
    uploads_per_user: int = 1
    questions: int = 16
    questions_per_user: int = 4
    requests_per_minute: int = 240
    request_burst: int = 60
    question_characters: int = 2_000
    upload_seconds: float = 1_800.0
    question_seconds: float = 120.0
    offers_per_minute: int = 600
    offers_per_minute_each: int = 120
    waiting_bytes: int = 512 * 1024 * 1024
    body_seconds: float = 300.0
    connections: int = 512
    drain_seconds: float = 10.0
    retry_seconds: float = 30.0
    renew_seconds: float = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EnclaveSettings:
    """All settings of the service.

    Attributes:
        name: its name for clients: the audience of its evidence and the host of their requests.
        model_key: opens the model; its owner's service releases it.
        database: file of documents, encrypted.
        database_key: opens the database; the service of the documents' owner releases it.
        port: 0 takes any.
        authorities: further hosts that requests may be for.
        prompt_key: a channel key that a key-release service releases to every replica; None makes one at the start.
        x25519: why a key of X25519 alone is offered beside the hybrid one, for browsers that lack ML-KEM; None: there
            is no such key.
        replay_window: file or database of seen requests to that key: a path, or ``postgresql://…``.
        llm: server that words answers; None answers with passages alone.
        unconfined_documents: the reason to read documents where the kernel offers no filter of system calls.
    """

    name: str
    model: ModelSettings
    model_key: KeySource
    database: Path
    database_key: KeySource
    host: str = "127.0.0.1"
    port: int = 8460
    authorities: tuple[str, ...] = ()
    machine: MachineSettings = field(default_factory=MachineSettings)
    prompt_key: KeySource | None = None
    x25519: str | None = None
    replay_window: str | None = None
    llm: LlmSettings | None = None
    unconfined_documents: str | None = None
    limits: ServiceLimits = field(default_factory=ServiceLimits)

    @property
    def simulated(self) -> bool:
        """True if the evidence comes from the simulator."""
        return self.machine.simulate is not None


def relaxations(settings: EnclaveSettings) -> Iterator[str]:
    """Yield each setting that relaxes a check, with its reason; the service logs them at its start."""
    machine = settings.machine
    if machine.simulate is not None:
        yield f"machine.simulate = {machine.simulate}: the evidence of this machine proves nothing about hardware"
    keys = {"model.key": settings.model_key, "database.key": settings.database_key, "prompt_key": settings.prompt_key}
    for name, source in keys.items():
        if source is None:
            continue
        if source.service.allow_simulated:
            yield f"{name}.allow_simulated: the service that releases it may run on a simulated machine"
        if source.service.unchecked_tls is not None:
            yield f"{name}.unchecked_tls: {source.service.unchecked_tls}"
    if settings.x25519 is not None:
        yield f"channel.x25519: {settings.x25519}"
    if settings.unconfined_documents is not None:
        yield f"documents.unconfined: {settings.unconfined_documents}"
    if settings.llm is not None and settings.llm.inside_boundary is not None:
        yield f"llm.inside_boundary: {settings.llm.inside_boundary}"
