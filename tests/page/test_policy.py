"""Policies in the page: the same verdict, check by check, as the Python engine's."""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
from ruamel.yaml import YAML

from attest.appraisal import appraise
from attest.errors import ConfigurationError
from attest.evidence.tolerances import GpuTolerances
from attest.policy import Policy, load_policy
from tests.page.browser import Verifier
from tests.page.policies import ask, prepare, seen, told_by_page, verdict_of
from tests.policy.documents import document, policy_of
from tests.policy.random_pairs import pool, random_policy

pytestmark = pytest.mark.loopback
POLICIES = Path(__file__).resolve().parents[2] / "policies"
RANDOM_POLICIES = 120


@pytest.fixture(scope="module")
def page(in_browser: Verifier) -> Verifier:
    return prepare(in_browser)


def tolerated(found: GpuTolerances) -> dict[str, Any]:
    waived = {str(one.index): one.reason for one in found.waived_measurements}
    held = {} if found.held_rim_signers is None else {"heldRimSigners": found.held_rim_signers}
    opaque = {one.value: one.reason for one in found.accepted_opaque}
    return {"waivedMeasurements": waived, "acceptedOpaque": opaque} | held


def random_documents(count: int) -> Iterator[dict[str, Any]]:
    random = Random(20261122)
    for _ in range(count):
        yield random_policy(random)


def test_every_check_of_random_policies_comes_out_as_in_python(page: Verifier) -> None:
    evidence = [verified for _, verified, _ in pool()]
    results = [seen(verified) for verified in evidence]
    documents = list(random_documents(RANDOM_POLICIES))
    chosen = [list(range(number % 5, len(evidence), 5)) for number, _ in enumerate(documents)]
    answers = ask(page, [(json.dumps(one), places) for one, places in zip(documents, chosen, strict=True)], results)
    affirmed = judged = 0
    of_logs: dict[str, int] = {}
    for one, places, answer in zip(documents, chosen, answers, strict=True):
        assert answer.get("code") is None, (answer, json.dumps(one))
        policy = policy_of(one)
        assert answer["digest"] == policy.digest.hex()
        tolerances = {"gpus": policy.tolerances.gpus, "switches": policy.tolerances.switches}
        named = {"spls": {one.value: one.reason for one in policy.tolerances.spls}}
        assert answer["tolerances"] == {kind: tolerated(found) for kind, found in tolerances.items()} | named
        for place, found in zip(places, answer["judged"], strict=True):
            verified = evidence[place]
            expected = verdict_of(appraise(verified, policy=policy, at=verified.at))
            got = told_by_page(found)
            odd = set(got[1]) ^ set(expected[1])
            assert (got[0], odd) == (expected[0], set()), (pool()[place][0], json.dumps(one))
            affirmed += found["affirmed"]
            judged += 1
            for check in found["checks"]:
                if ".event_log." in check["id"]:
                    of_logs[check["outcome"]] = of_logs.get(check["outcome"], 0) + 1
    assert judged > 900
    assert affirmed > 10
    assert min(of_logs.get(outcome, 0) for outcome in ("pass", "fail", "not evaluated")) > 20, of_logs


# -- what is no policy is none here


def refused(page: Verifier, *documents: object) -> list[tuple[str | None, str | None]]:
    told = [one if isinstance(one, str) else json.dumps(one) for one in documents]
    return [(answer.get("code"), answer.get("path")) for answer in ask(page, [(one, []) for one in told])]


def every_place(found: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every value in a document."""
    yield path
    members = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    for name, member in members:
        yield from every_place(member, (*path, name))


def changed(whole: dict[str, Any], path: tuple[str | int, ...], **members: object) -> dict[str, Any]:
    copied: dict[str, Any] = json.loads(json.dumps(whole))
    place: Any = copied
    for step in path:
        place = place[step]
    place.update(members)
    return copied


def test_an_unknown_key_is_refused_wherever_it_stands(page: Verifier) -> None:
    tried = []
    for one in random_documents(40):
        places = [path for path in every_place(one) if isinstance(_at(one, path), dict)]
        tried += [changed(one, path, colour="red") for path in places if path != ("reference_values",)]
    answers = refused(page, *tried)
    assert len(answers) > 200
    for code, _ in answers:
        assert code == "policy-invalid"


ODD: tuple[object, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1.5,
    2**53,
    "",
    " ",
    "\x1f",
    "\u200b\u2800",
    "x",
    "1",
    [],
    {},
    [None],
    ["x"],
    {"x": 1},
    {"unchecked": "why"},
    {"unchecked": "\u2060\u3164"},
    ["2030-01-01T00:00:00Z"],
    [["2030-01-01T00:00:00Z"]],
)
ODD_POLICIES = 400


def test_what_is_out_of_place_is_refused_or_read_as_in_python(page: Verifier) -> None:
    random = Random(20261124)
    tried = [oddly_changed(random, random_policy(random)) for _ in range(ODD_POLICIES)]
    answers = ask(page, [(json.dumps(one), []) for one in tried])
    refusals = 0
    for one, answer in zip(tried, answers, strict=True):
        expected = in_python(one)
        told = answer.get("digest") or refusal(answer["code"], answer["path"])
        assert told == expected, (answer, json.dumps(one))
        refusals += expected.startswith("policy-invalid")
    assert ODD_POLICIES / 2 < refusals < ODD_POLICIES


def in_python(whole: dict[str, Any]) -> str:
    """The digest of a policy, or its refusal."""
    try:
        return policy_of(whole).digest.hex()
    except ConfigurationError as error:
        return refusal(error.code, error.field)


def refusal(code: str, path: str | None) -> str:
    """Code and place; where a mapping has two faults, either of its members may be told."""
    return f"{code} {str(path).rpartition('.')[0]}"


def oddly_changed(random: Random, whole: dict[str, Any]) -> dict[str, Any]:
    """The document with one odd value somewhere."""
    copied: dict[str, Any] = json.loads(json.dumps(whole))
    path = random.choice([path for path in every_place(copied) if path])
    place = cast("Any", _at(copied, path[:-1]))
    place[path[-1]] = random.choice(ODD)
    return copied


def _at(whole: object, path: tuple[str | int, ...]) -> object:
    for step in path:
        whole = cast("Any", whole)[step]
    return whole


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        '["{}", 1]',
        "[{",
        "{}",
        "schema: attest.policy/1",
        '{"schema": "attest.policy/1", "schema": "attest.policy/1"}',
        json.dumps(document(vmpl=[])),
        json.dumps(document(vmpl=[4])),
        json.dumps(document(vmpl=[True])),
        json.dumps(document(vmpl=0)),
        json.dumps(document()).replace('"version": 1', '"version": 1.0'),
        json.dumps(document(products=["Rome"])),
        json.dumps(document(measurement=["other"])),
        json.dumps(document(minimum_tcb=None)),
        json.dumps(document(minimum_tcb={"Turin": {"bootloader": 1, "tee": 0, "snp": 1, "microcode": 1}})),
        json.dumps(document(provisional_firmware=True)),
        json.dumps(document(guest_policy={"debug": True})),
        json.dumps(document(vmpl={"unchecked": " "})),
        json.dumps(document(vmpl={"unchecked": "why", "value": 1})),
        json.dumps(document(host_data=["00"])),
        json.dumps(document() | {"any_of": []}),
        json.dumps(document() | {"azure": {"pcr4": ["image"]}}),
        json.dumps(document() | {"devices": {"gpus": 1}}),
        json.dumps(document() | {"simulated": "accept"}),
        json.dumps(document() | {"unchecked": {"everything": "because"}}),
    ],
)
def test_what_python_refuses_the_page_refuses_at_the_same_place(page: Verifier, text: str) -> None:
    ((code, path),) = refused(page, text)
    with pytest.raises(ConfigurationError) as outcome:
        load_policy(text.encode())
    assert {code, outcome.value.code} <= {"policy-invalid", "policy-unreadable"}
    if path is not None and path != "document":
        assert path == outcome.value.field


def test_the_policies_that_come_with_the_project_are_read(page: Verifier) -> None:
    read = 0
    for path in sorted(POLICIES.glob("*.yaml")):
        if path.name.endswith(".tests.yaml"):
            continue
        policy: Policy = load_policy(path.read_bytes())
        whole = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
        (answer,) = ask(page, [(json.dumps(whole), [])])
        assert answer.get("digest") == policy.digest.hex(), (path, answer)
        read += 1
    assert read > 1


@pytest.mark.parametrize("text", ["[]", "[{", '["{}", 1]', '[""]', '["{}"'])
def test_a_list_that_nobody_put_together_is_no_policy(page: Verifier, text: str) -> None:
    code = page.page.evaluate(
        "(text) => import('/policy.js').then((it) => it.loadPolicy(text)).catch((no) => no.code)", text
    )
    assert code in {"policy-unreadable", "policy-invalid"}
