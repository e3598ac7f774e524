"""Schemathesis reads the OpenAPI document and asks for everything in it, rightly and wrongly: no 500, no surprise.

Each operation is asked with what its schema allows and with what it forbids. Every answer must have a status, a media
type, headers and a body that the document describes. One of its checks is left out: a request of the right shape that
proves nothing is refused, as it should be.
"""

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import positive_data_acceptance

from kms.api.app import create_app
from kms.domain.permissions import Role
from tests.kms.admins import AdminClient, admin_client
from tests.kms.support import Harness

DOCS = Path(__file__).resolve().parents[2] / "docs"
DOCUMENT: dict[str, Any] = json.loads((DOCS / "openapi.json").read_text(encoding="utf-8"))
ADMIN: dict[str, Any] = json.loads((DOCS / "openapi-admin.json").read_text(encoding="utf-8"))
EXAMPLES = settings().max_examples // 5
MANY = 20
pytestmark = pytest.mark.hypothesis


def operations(document: dict[str, Any]) -> list[tuple[str, str]]:
    return [(path, method) for path, methods in document["paths"].items() for method in methods]


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    made = Harness.make(tmp_path)
    made.add_key("model")
    yield made
    made.close()


def explore(
    document: dict[str, Any], path: str, method: str, *, app: object, headers: dict[str, str], examples: int = EXAMPLES
) -> set[int]:
    """Ask for one operation in many ways and return the statuses that were seen."""
    schema = schemathesis.openapi.from_dict(document)
    schema.app = app
    refusing = schema.config.checks.negative_data_rejection
    refusing.expected_statuses = [*refusing.expected_statuses, "414"]  # what is too long is refused before it is read
    operation = schema[path][method.upper()]
    ways = [operation.as_strategy(generation_mode=mode) for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)]
    seen: set[int] = set()

    @given(case=st.one_of(*ways))
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    def ask(case: schemathesis.Case[Any]) -> None:
        answer = case.call(headers=headers)
        case.validate_response(answer, excluded_checks=[positive_data_acceptance])
        seen.add(answer.status_code)

    ask()
    return seen


@pytest.mark.parametrize(("path", "method"), operations(DOCUMENT))
def test_every_operation_answers_as_its_document_says(harness: Harness, path: str, method: str) -> None:
    app = create_app(harness.settings, harness.services)
    seen = explore(DOCUMENT, path, method, app=app, headers={})
    assert seen
    assert 500 not in seen


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminClient]:
    made = Harness.make(tmp_path_factory.mktemp("admin"))
    made.add_key("model")
    with admin_client(made) as client:
        for role in Role:
            client.give("all", role)
        yield client
    made.close()


@pytest.mark.parametrize(("path", "method"), operations(ADMIN))
@pytest.mark.parametrize("who", ["all", None])
def test_every_operation_of_administration_does_too_for_who_may_all_and_for_nobody(
    admin: AdminClient, who: str | None, path: str, method: str
) -> None:
    headers = {} if who is None else admin.bearer(who)
    seen = explore(ADMIN, path, method, app=admin.connection, headers=headers)
    assert seen
    assert 500 not in seen
    if who is None:
        assert 401 in seen
        assert not any(200 <= status < 300 for status in seen)


def test_an_answer_that_the_document_leaves_out_is_found(harness: Harness) -> None:
    document = deepcopy(DOCUMENT)
    del document["paths"]["/v1/challenges"]["post"]["responses"]["422"]
    app = create_app(harness.settings, harness.services)
    with pytest.raises(FailureGroup, match="Undocumented status code"):
        explore(document, "/v1/challenges", "post", app=app, headers={}, examples=MANY)
