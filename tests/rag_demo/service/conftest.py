"""Two owners' key-release services, and one service that is ready, for all tests that do them no harm."""

from collections.abc import Iterator

import pytest

from rag_demo.enclave.service.assembly import RagService
from rag_demo.enclave.service.settings import ServiceLimits
from tests.kms.process import ServedProcess
from tests.rag_demo.service.parts import Workshop
from tests.rag_demo.service.support import DATABASE_KEY, MODEL_KEY, Owner, Site, ended, prepared, serving, settings_of

KEYS = ("quiet", "tightened", "real")
"""Keys of each owner, one for each group of tests that may change its policy."""


@pytest.fixture(scope="session")
def model_owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Owner]:
    config = prepared(tmp_path_factory.mktemp("model") / "owner", dict.fromkeys(KEYS, MODEL_KEY))
    with ended(ServedProcess.start(config)) as process:
        yield Owner(config, process)


@pytest.fixture(scope="session")
def document_owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Owner]:
    config = prepared(tmp_path_factory.mktemp("documents") / "owner", dict.fromkeys(KEYS, DATABASE_KEY), prompts=True)
    with ended(ServedProcess.start(config)) as process:
        yield Owner(config, process)


@pytest.fixture(scope="session")
def site(model_owner: Owner, document_owner: Owner) -> Iterator[Site]:
    """A service that is ready, and whose limits nobody reaches by accident."""
    workshop = Workshop()
    limits = ServiceLimits(
        document_bytes=1024 * 1024,
        documents_per_user=5,
        passages_per_document=200,
        requests_per_minute=100_000,
        request_burst=10_000,
        offers_per_minute=10_000,
        offers_per_minute_each=10_000,
        retry_seconds=0.2,
    )
    settings = settings_of(model_owner.source("quiet"), document_owner.source("quiet"), limits=limits)
    with serving(RagService(settings, open_bench=workshop), workshop) as found:
        found.wait_for("ready")
        yield found


@pytest.fixture(autouse=True)
def _as_before(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let what a test put into the middle of the shared service be there for that test alone."""
    yield
    if "site" in request.fixturenames:
        found: Site = request.getfixturevalue("site")
        found.workshop.reader.before_page = lambda _: None
        found.workshop.answers.writer = None
        found.workshop.answers.pause = None
        for bench in found.workshop.opened:
            bench.store.kept.clear()  # type: ignore[attr-defined]  # of the tests' own store
