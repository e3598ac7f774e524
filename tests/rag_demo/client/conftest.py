"""One server for each module; each test finds it as new."""

from collections.abc import Iterator

import pytest

from tests.rag_demo.client.site import Site


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("site")).running() as site:
        yield site


@pytest.fixture
def site(server: Site) -> Site:
    return server.reset()
