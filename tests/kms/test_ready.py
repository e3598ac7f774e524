"""`/healthz` and `/readyz`: what is tried, and which part is said to be missing."""

from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

from attest.errors import ConfigurationError
from kms.api.app import create_app
from kms.domain.errors import IntegrityError, UnavailableError
from kms.release.services import Services
from tests.kms.support import Harness


class Gone:
    """Something that is not there; whatever is asked of it refuses."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, name: str) -> object:
        raise self._error


def asked(harness: Harness, services: Services, *, draining: bool = False) -> tuple[int, dict[str, object]]:
    app = create_app(harness.settings, services, draining=lambda: draining)
    with TestClient(app, raise_server_exceptions=False) as client:
        assert client.get("/healthz").status_code == 200, "alive, whatever else is missing"
        answer = client.get("/readyz")
        return answer.status_code, answer.json()


@pytest.mark.parametrize(
    ("part", "field"), [("store", "database"), ("kek", "key-encryption-key"), ("endorsements", "endorsements")]
)
def test_the_part_that_is_missing_is_named(harness: Harness, part: str, field: str) -> None:
    gone = Gone(UnavailableError("away", code="store-unreachable"))
    services = replace(harness.services, **{part: gone})  # type: ignore[arg-type]
    found, document = asked(harness, services)
    assert (found, document["code"], document["field"]) == (503, "store-unreachable", field)


@pytest.mark.parametrize(
    "error", [IntegrityError("secret", code="wrapped-key-invalid"), ConfigurationError("s", code="x")]
)
def test_a_key_that_does_not_open_is_500_and_no_more_is_said(harness: Harness, error: Exception) -> None:
    found, document = asked(harness, replace(harness.services, kek=Gone(error)))  # type: ignore[arg-type]
    assert found == 500
    assert "secret" not in str(document)


def test_a_process_that_is_about_to_end_is_not_ready(harness: Harness) -> None:
    found, document = asked(harness, harness.services, draining=True)
    assert (found, document["code"]) == (503, "draining")


def test_a_clock_that_went_back_is_told_of_the_database(harness: Harness) -> None:
    harness.clock.forward(seconds=-120)
    found, document = asked(harness, harness.services)
    assert (found, document["code"], document["field"]) == (503, "clock-went-back", "database")
