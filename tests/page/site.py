"""The sample's service on the simulator with the page in front, on a machine whose firmware a test may change."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext

from attest.clock import system_clock
from attest.evidence.binding import Binding
from attest.evidence.envelope import Evidence
from attest.page import page_files
from attest_simulator.changing_machine import ChangingMachine as ByFile
from attest_simulator.guest import SimulatedGuest
from attest_simulator.machines import SimulatedMachine
from rag_demo.enclave.service.assembly import RagService
from rag_demo.enclave.service.settings import MachineSettings, ServiceLimits
from tests.kms.process import ServedProcess
from tests.page.browser import Verifier
from tests.rag_demo.service.parts import Workshop
from tests.rag_demo.service.support import (
    DATABASE_KEY,
    MODEL_KEY,
    Owner,
    Site,
    ended,
    machine,
    prepared,
    serving,
    settings_of,
)

KEY = "page"


def machine_with_gpu() -> SimulatedMachine:
    """Return the machine of the sample with a GPU, whose format the page fetches when it meets it."""
    since = system_clock().replace(microsecond=0) - timedelta(days=7)
    return SimulatedMachine.of("snp", gpus=1, certified_from=since)


@dataclass
class ChangingMachine:
    """An Attester that becomes another one."""

    now: SimulatedMachine = field(default_factory=machine)

    def __call__(self, binding: Binding) -> Evidence:
        return self.now(binding)

    def with_microcode(self, change: int) -> None:
        """Put another microcode into the chip, whose key changes with it."""
        cpu = self.now.cpu
        assert isinstance(cpu, SimulatedGuest)
        chip = cpu.chip
        tcb = replace(chip.reported_tcb, microcode=chip.reported_tcb.microcode + change)
        changed = replace(chip, reported_tcb=tcb, current_tcb=tcb, committed_tcb=tcb)
        self.now = replace(self.now, cpu=replace(cpu, chip=changed))


@dataclass
class PagedSite:
    """A served service and its machine."""

    site: Site
    machine: ChangingMachine
    change: Path | None = None

    @property
    def url(self) -> str:
        """The page."""
        return f"{self.site.url}/"


@contextmanager
def paged_site(folder: Path, *, x25519: str | None = None, change: Path | None = None) -> Iterator[PagedSite]:
    """Serve it, with two owners' key-release services beside it; ``x25519`` and ``change`` as in its settings."""
    with ExitStack() as stack:
        owners: list[Owner] = []
        for name, material in (("model", MODEL_KEY), ("documents", DATABASE_KEY)):
            config = prepared(folder / name / "owner", {KEY: material})
            owners.append(Owner(config, stack.enter_context(ended(ServedProcess.start(config)))))
        model, documents = owners
        limits = ServiceLimits(
            document_bytes=4 * 1024 * 1024,
            requests_per_minute=100_000,
            request_burst=10_000,
            offers_per_minute=10_000,
            offers_per_minute_each=10_000,
            retry_seconds=0.2,
        )
        simulated = MachineSettings(simulate="snp", simulated_change=change)
        settings = settings_of(
            model.source(KEY), documents.source(KEY), limits=limits, x25519=x25519, machine=simulated
        )
        workshop, attester = Workshop(), ChangingMachine()
        by_file = None if change is None else ByFile(machine=attester.now, file=change, at=system_clock())
        service = RagService(settings, open_bench=workshop, pages=page_files(), attester=by_file or attester)
        site = stack.enter_context(serving(service, workshop))
        site.wait_for("ready")
        yield PagedSite(site, attester, change)


@contextmanager
def errorless(
    in_browser: Verifier,
    site: PagedSite,
    *,
    console: str | None = None,
    **options: Any,  # noqa: ANN401  as the driver takes them
) -> Iterator[BrowserContext]:
    """Give a browser that knows nothing yet, and fail on errors that a page would only log, or that have this text."""
    site.machine.now = machine()
    browser = in_browser.page.context.browser
    assert browser is not None
    made = browser.new_context(**options)
    errors: list[str] = []
    made.on("weberror", lambda error: errors.append(str(error.error)))
    if console is not None:
        made.on("console", lambda told: errors.append(told.text) if console in told.text else None)
    yield made
    made.close()
    assert not errors, errors
