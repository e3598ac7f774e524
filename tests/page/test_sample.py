"""Trustee's sample evidence: the page reads, refuses and judges it as Python does."""

import json
from typing import Any

import pytest

from attest.appraisal import appraise
from attest.errors import ConfigurationError
from attest.evidence.envelope import Evidence
from attest.policy.loader import load_policy
from attest.verification import ExpectedFreshness
from tests.evidence.sample.test_sample import NONCE, cpu, device, run, sample
from tests.page.browser import Question, Verifier
from tests.page.policies import ask, prepare, seen, told_by_page, verdict_of
from tests.page.reference import answer, differences
from tests.policy.test_sample import ACCEPTED, AT, document

pytestmark = pytest.mark.loopback
BOTH = Evidence(items=(cpu(sample()), device(sample(svn="2"))))
FILES: dict[str, bytes] = {
    "sample": sample(),
    "64 bytes": sample(bytes(range(64)), svn="1" * 64),
    "no report data": Evidence(items=(cpu(sample(None)),)).to_json(),
    "empty report data": sample(b""),
    "envelope": BOTH.to_json(),
    "device alone": Evidence(items=(device(sample()),)).to_json(),
    "device without report data": Evidence(items=(device(sample(None)),)).to_cbor(),
    "base64url": b'{"svn": "1", "report_data": "_-8"}',
    "padded": b'{"svn": "1", "report_data": "/+8="}',
    "mixture": b'{"svn": "1", "report_data": "/-8="}',
    "no base64": b'{"svn": "1", "report_data": "x"}',
    "null": b'{"svn": "1", "report_data": null}',
    "number": b'{"svn": 1, "report_data": ""}',
    "no version": b'{"svn": "", "report_data": ""}',
    "long version": sample(svn="1" * 65),
    "control": sample(svn="\u0000"),
    "65 bytes": sample(bytes(65)),
    "one more member": sample(more=1),
}


def test_sample_evidence_is_read_and_refused_in_the_page_as_in_python(in_browser: Verifier) -> None:
    in_browser.hold(FILES)
    questions = [
        Question(input=[name], at=AT.isoformat().replace("+00:00", "Z"), anchors=anchors, nonce=nonce)
        for name in FILES
        for anchors in ("vendors", "simulation")
        for nonce in (None, NONCE.hex(), bytes(32).hex())
    ]
    found: list[str] = []
    outcomes: set[tuple[str, str | None]] = set()
    for question, got in zip(questions, in_browser.ask_all(questions), strict=True):
        name = f"{question.input[0]}, {question.anchors}, {question.nonce}"
        found += [f"{name}: {text}" for text in differences(answer(question, FILES), got)]
        outcomes.add((question.anchors, (got["error"] or {}).get("code")))
    assert found == []
    assert {("vendors", "sample-refused"), ("simulation", None), ("simulation", "nonce-mismatch")} <= outcomes
    assert ("vendors", None) not in outcomes


CHOICES: tuple[dict[str, Any], ...] = (
    ACCEPTED,
    {"launch_digest": ["abcde"]},
    {"launch_digest": ["other"], "svn": ["1", "2"]},
    {"launch_digest": {"unchecked": "any"}, "device_svn": {"unchecked": "any"}},
)


def test_every_check_of_the_section_comes_out_as_in_python(in_browser: Verifier) -> None:
    page = prepare(in_browser)
    fresh = ExpectedFreshness(nonce=NONCE)
    evidence = [run(cpu(sample(svn=svn)), expected=fresh) for svn in ("1", "3")]
    documents = [json.dumps(document(sample=choice)) for choice in CHOICES]
    documents += [json.dumps(document(None, sample=ACCEPTED))]
    documents += [json.dumps(document(any_of=[{"sample": choice} for choice in CHOICES]))]
    answers = ask(page, [(one, [*range(len(evidence))]) for one in documents], [seen(one) for one in evidence])
    for text, told in zip(documents, answers, strict=True):
        policy = load_policy(text.encode())
        assert told["digest"] == policy.digest.hex()
        for one, judged in zip(evidence, told["judged"], strict=True):
            assert told_by_page(judged) == verdict_of(appraise(one, policy=policy, at=one.at))


def test_the_page_accepts_no_sample_device_under_a_policy(in_browser: Verifier) -> None:
    verified = run(*BOTH.items, expected=ExpectedFreshness(nonce=NONCE))
    text = json.dumps(document(sample=ACCEPTED))
    (told,) = ask(prepare(in_browser), [(text, [0])], [seen(verified)])
    failed = [(check["id"], check["item"]) for check in told["judged"][0]["checks"] if check["outcome"] == "fail"]
    assert failed == [("policy.kind", "sampledevice0")]


@pytest.mark.parametrize(
    "section",
    [
        {},
        {"launch_digest": "abcde"},
        {"launch_digest": [""]},
        {"launch_digest": ["abcde"], "device_svn": []},
        {"launch_digest": ["abcde"], "debug": False},
    ],
)
def test_what_does_not_load_in_python_does_not_load_in_the_page(in_browser: Verifier, section: dict[str, Any]) -> None:
    text = json.dumps(document(sample=section))
    with pytest.raises(ConfigurationError) as refused:
        load_policy(text.encode())
    (told,) = ask(prepare(in_browser), [(text, [])], [])
    assert (told["code"], told["path"]) == (refused.value.code, refused.value.field)
