"""Documents of services with any JSON in any place: a result or a documented refusal, never another exception."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import AttestError
from tests.evidence.providers import made

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    SCALARS | st.sampled_from(["00", "0x00", "AA==", "{}", "[]", '"', "-----BEGIN CERTIFICATE-----"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def plain(document: object) -> Any:  # noqa: ANN401  any JSON
    return json.loads(document if isinstance(document, bytes) else made.jsons(document))


def replaced(draw: st.DrawFn, document: Any) -> Any:  # noqa: ANN401  any JSON
    """Walk down to some place and put another value there, or take the member away."""
    if isinstance(document, dict) and document and draw(st.integers(0, 4)):
        name = draw(st.sampled_from(sorted(document)))
        if draw(st.integers(0, 7)) == 0:
            return {other: value for other, value in document.items() if other != name}
        return {**document, name: replaced(draw, document[name])}
    if isinstance(document, list) and document and draw(st.integers(0, 4)):
        place = draw(st.integers(0, len(document) - 1))
        return [*document[:place], replaced(draw, document[place]), *document[place + 1 :]]
    return draw(VALUES)


@pytest.mark.parametrize("family", [*made.HONEST, "tinfoil v2"])
@given(data=st.data())
def test_any_value_in_any_place_gives_a_result_or_a_documented_refusal(family: str, data: st.DataObject) -> None:
    document, keys = made.HONEST[family]() if family in made.HONEST else (made.tinfoil_v2(), None)
    changed = data.draw(st.composite(lambda draw: replaced(draw, plain(document)))())
    nonce = data.draw(st.sampled_from([made.NONCE, None]))
    other_keys = keys if keys is None else data.draw(st.composite(lambda draw: replaced(draw, keys))())
    with contextlib.suppress(AttestError):
        assert made.verified(changed, other_keys, nonce=nonce).items
