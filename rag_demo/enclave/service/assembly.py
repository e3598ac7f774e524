"""Assembly of a service from its settings and its parts; it opens nothing before the server starts."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from datetime import timedelta
from functools import partial
from typing import Any, Final

from attest.clock import Clock, system_clock, ticks
from attest.collect import THIS_MACHINE, collect_machine
from attest.extensions import load_extension
from attest.page import PageFile
from attest.release import Attester
from rag_demo.enclave.documents.kinds import DocumentKind
from rag_demo.enclave.service.app import Inside, create_app
from rag_demo.enclave.service.attestation import Offers, Vendors, files_of
from rag_demo.enclave.service.channel import (
    Channel,
    EphemeralChannel,
    Random,
    ReleasedChannel,
    note_of,
    open_window,
)
from rag_demo.enclave.service.composition import language_model_of
from rag_demo.enclave.service.concurrency import Threads
from rag_demo.enclave.service.held_keys import HeldKeys
from rag_demo.enclave.service.lifecycle import Enclave, LifecycleState
from rag_demo.enclave.service.models import (
    DocumentKindModel,
    LeaseModel,
    ModelModel,
    ServiceLimitsModel,
    StateModel,
    WhyModel,
    WriterModel,
    json_response,
)
from rag_demo.enclave.service.outer_app import OuterApp
from rag_demo.enclave.service.resources import OpenBench
from rag_demo.enclave.service.settings import EnclaveSettings, KeySource, MachineSettings
from rag_demo.enclave.service.simulated_changes import SimulatedChanges

CERTIFIED: Final = timedelta(days=7)
"""Age of a simulated chip's certificate."""
_log = logging.getLogger("rag.enclave")


class RagService:
    """One service. ``app`` is what a server serves.

    Args:
        open_bench: opens model and store once the keys are there.
        pages: files of a page, served in the clear.
        attester: gives evidence; None is what the settings say.
    """

    def __init__(
        self,
        settings: EnclaveSettings,
        *,
        open_bench: OpenBench,
        pages: Mapping[str, PageFile] | None = None,
        attester: Attester | None = None,
        clock: Clock = system_clock,
        random: Random = secrets.token_bytes,
    ) -> None:
        self.settings = settings
        self._clock = clock
        self._random = random
        own_attester, vendors = attester_of(settings.machine, clock=clock)
        proves = attester or own_attester
        llm = language_model_of(settings)
        self.writer = None if llm is None else llm.writer
        self.threads = Threads(settings.limits)
        self.enclave = Enclave(
            keyring=partial(
                HeldKeys, _key_sources(settings), attester=proves, renew_after=settings.limits.renew_seconds
            ),
            open_bench=open_bench,
            unlocked=self._unlocked,
            wiped=self._wiped,
            retry_seconds=settings.limits.retry_seconds,
        )
        self.offers = Offers(
            proves,
            audience=settings.name,
            vendors=vendors,
            clock=clock,
            ticks=ticks,
            per_minute=settings.limits.offers_per_minute,
        )
        self.channel = self._open_channel()
        change = settings.machine.simulated_change
        self.app = OuterApp(
            channel=lambda: self.channel.app,
            state=lambda: json_response(self.state()),
            is_ready=lambda: self.enclave.state is LifecycleState.READY,
            life=self._living,
            limits=settings.limits,
            ticks=ticks,
            pages=pages or {},
            changes=None if change is None else SimulatedChanges(change),
        )

    def _open_channel(self) -> Channel:
        """Return the channel to the application: its key is born here, or the service of the prompt key releases it."""
        settings, clock = self.settings, self._clock
        inside = create_app(
            Inside(
                enclave=self.enclave,
                state=self.state,
                limits=settings.limits,
                threads=self.threads,
                clock=clock,
                ticks=ticks,
            )
        )
        if settings.prompt_key is None or settings.replay_window is None:
            return EphemeralChannel(inside, settings, offers=self.offers, clock=clock, random=self._random)
        return ReleasedChannel(
            inside,
            settings,
            replays=open_window(settings.replay_window),
            note_of=note_of(settings.prompt_key, clock=clock),
            clock=clock,
            random=self._random,
        )

    def state(self) -> StateModel:
        """Return the present state of the service."""
        enclave, limits, why = self.enclave, self.settings.limits, self.enclave.why
        return StateModel(
            name=self.settings.name,
            state=enclave.state.value,
            why=None if why is None else WhyModel(**asdict(why)),
            simulated=self.settings.simulated,
            model=None if enclave.model is None else ModelModel(**asdict(enclave.model)),
            answers="quoted" if self.writer is None else "written",
            writer=None if self.writer is None else WriterModel(**asdict(self.writer)),
            leases=tuple(LeaseModel(key=key, until=until) for key, until in enclave.leases),
            limits=ServiceLimitsModel(
                document_bytes=limits.document_bytes,
                document_kinds=tuple(
                    DocumentKindModel(media_type=kind.media_type, suffixes=kind.suffixes) for kind in DocumentKind
                ),
                documents=limits.documents_per_user,
                passages_per_document=limits.passages_per_document,
                question_characters=limits.question_characters,
                requests_per_minute=limits.requests_per_minute,
            ),
        )

    async def _unlocked(self, keyring: HeldKeys) -> None:
        await self.channel.unlocked(keyring)

    def _wiped(self) -> None:
        self.channel.wipe()

    @asynccontextmanager
    async def _living(self) -> AsyncIterator[None]:
        """Run the enclave while the server runs; afterwards keys and weights are wiped."""
        living = asyncio.create_task(self.enclave.run(), name="rag-enclave")
        keeping = asyncio.create_task(_kept_up(self.channel.run), name="rag-channel")
        try:
            yield
        finally:
            self.enclave.end()
            for task in (living, keeping):
                task.cancel()
            # Cancelled once: the tasks overwrite keys and weights before they end.
            await asyncio.wait({living, keeping})
            self.channel.wipe()
            self.threads.close()
            _log.info("ended")


def _key_sources(settings: EnclaveSettings) -> dict[str, KeySource]:
    sources = {"model": settings.model_key, "database": settings.database_key, "prompt": settings.prompt_key}
    return {purpose: source for purpose, source in sources.items() if source is not None}


async def _kept_up(run: Callable[[], Coroutine[Any, Any, None]]) -> None:  # Any: of typeshed
    """Run a task that ends only when it is cancelled; a defect is logged, and the task starts again."""
    while True:
        try:
            await run()
        except Exception as exc:  # noqa: BLE001  as it says
            _log.error("a background task ended with an internal error", exc_info=exc)
        await asyncio.sleep(1)


def attester_of(machine: MachineSettings, *, clock: Clock) -> tuple[Attester, Vendors | None]:
    """Return what proves the machine, and what says what its vendors say of it, if anything does.

    Raises:
        ConfigurationError: ``distribution-missing``: a simulated machine is wanted, and the simulator is not installed.
    """
    files = files_of(machine.endorsements) if machine.endorsements else None
    if machine.simulate is None:
        access = THIS_MACHINE if machine.tcti is None else replace(THIS_MACHINE, tcti=machine.tcti)
        return partial(collect_machine, access=access, with_gpus=machine.with_gpus), files
    since = clock().replace(microsecond=0) - CERTIFIED
    given: dict[str, Any] = {"gpus": machine.gpus, "certified_from": since}  # Any: arguments of the extension
    if machine.simulated_change is not None:
        given["file"] = machine.simulated_change
    name = "changing" if "file" in given else "simulated"
    simulated = load_extension(name, group="attest.machines", of="attest-simulator")(machine.simulate, **given)
    return simulated, files or (lambda at: simulated.endorsement_files(at=at))
