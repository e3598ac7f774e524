"""The section ``dstack`` of a policy: the page reads it, and judges by it, as Python does."""

import json
from typing import Any

import pytest

from attest.appraisal import appraise
from attest.errors import ConfigurationError
from attest.policy.loader import load_policy
from tests.evidence.dstack.made import APP_ID, COMPOSE_HASH, GUEST, KEY_ID
from tests.page.browser import Verifier
from tests.page.policies import ask, prepare, seen, told_by_page, verdict_of
from tests.policy.intel_documents import AT
from tests.policy.test_dstack import DEMANDS, OTHER, text, verified, with_provider

pytestmark = pytest.mark.loopback
CHOICES: tuple[dict[str, Any], ...] = (
    DEMANDS,
    *({key: DEMANDS[key]} for key in DEMANDS),
    {"compose_hashes": [OTHER]},
    {"compose_hashes": {"unchecked": "a trial"}, "app_ids": [APP_ID.hex().upper()]},
    {"os_images": [OTHER], "key_providers": [{"name": "tpm"}]},
    {"key_providers": [{"name": "kms"}]},
    {"key_providers": [{"name": "km", "id": KEY_ID.hex()}]},
)
REFUSED: tuple[dict[str, Any], ...] = (
    {},
    {"compose_hashes": []},
    {"compose_hashes": [COMPOSE_HASH.hex()[:-2]]},
    {"compose": [OTHER]},
    {"app_ids": [OTHER]},
    {"key_providers": [{"id": "00"}]},
    {"key_providers": [{"name": "K M S"}]},
    {"key_providers": [{"name": "kms", "id": ""}]},
    {"key_providers": [{"name": "kms", "more": 1}]},
)


def test_every_check_comes_out_as_in_python(in_browser: Verifier) -> None:
    page = prepare(in_browser)
    evidence = [verified(), verified(GUEST.without("os-image-hash", "key-provider")), verified(log="ccel")]
    evidence += [verified(with_provider(name)) for name in ("kms:more", "", "tpm")]
    documents = [text(**choice) for choice in CHOICES]
    answers = ask(
        page, [(document.decode(), [*range(len(evidence))]) for document in documents], [seen(one) for one in evidence]
    )
    for document, answer in zip(documents, answers, strict=True):
        policy = load_policy(document)
        assert answer["digest"] == policy.digest.hex()
        for one, judged in zip(evidence, answer["judged"], strict=True):
            assert told_by_page(judged) == verdict_of(appraise(one, policy=policy, at=AT))


def test_what_does_not_load_in_python_does_not_load_in_the_page(in_browser: Verifier) -> None:
    whole = json.loads(text(**DEMANDS))
    documents = [json.loads(text(**choice)) for choice in REFUSED]
    documents += [{name: value for name, value in whole.items() if name != "tdx"}]
    documents += [{**whole, "tdx": {k: v for k, v in whole["tdx"].items() if k != left}} for left in ("rtmr1", "rtmr2")]
    documents += [{**whole, "azure": {"pcr4": {"unchecked": "not here"}}}]
    answers = ask(prepare(in_browser), [(json.dumps(document), []) for document in documents])
    for document, answer in zip(documents, answers, strict=True):
        with pytest.raises(ConfigurationError) as caught:
            load_policy(json.dumps(document).encode())
        assert (answer["code"], answer["path"]) == (caught.value.code, caught.value.field), document["dstack"]
