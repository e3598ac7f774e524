"""Documents of services that are made for tests: the page answers what the Python verifier answers."""

import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from attest.appraisal import appraise
from attest.encoding import JsonValue, rfc3339_text
from attest.policy import load_policy
from tests.evidence.dstack import made as dstack_made
from tests.evidence.providers import made
from tests.evidence.providers.test_documents import CHANGED, MALFORMED, OTHER, OTHER_NONCE, other_bytes
from tests.page.browser import Question, Verifier
from tests.page.policies import ask, prepare, seen, told_by_page, verdict_of
from tests.page.reference import answer, differences
from tests.samples import AT

pytestmark = pytest.mark.loopback
POLICIES = Path(__file__).resolve().parents[2] / "policies"
UNCHECKED = dict.fromkeys(("rim", "revocation", "topology", "tcb"), "a test")
_BATCH = 40
VERIFIED = {f"{family}, nonce {made.NONCE!r}" for family in made.HONEST}
"""Cases that are honest: that both refuse them alike is not enough."""
_Case = tuple[str, object, object, bytes | None]


def _cases() -> Iterator[_Case]:
    """Name, document, keys and nonce."""
    for family, build in made.HONEST.items():
        for nonce in (made.NONCE, OTHER_NONCE, None, b"short"):
            yield f"{family}, nonce {nonce!r}", *build(), nonce
    for name, (case, _, _) in CHANGED.items():
        yield name, *case(), made.NONCE
    for name, (document, keys, _) in MALFORMED.items():
        yield name, document, keys, made.NONCE
    top, other = made.machine(), made.machine(td=OTHER, gpus=("another gpu",))
    yield "a copy and another machine", {**top, "all_attestations": [dict(top), other]}, None, made.NONCE
    yield "one machine twice", made.listed(made.entry("a"), made.entry("a")), None, made.NONCE
    once = made.machine(gpus=())
    for name in ("bytes behind a report", "signature"):
        again = once | {"intel_quote": other_bytes(once["intel_quote"], signature=name == "signature"), "quote": None}
        yield f"one report twice, other {name}", made.gateway(once, again), None, made.NONCE
    yield "one GPU in two machines", made.gateway(made.machine(), made.machine(td=OTHER)), None, made.NONCE
    yield "no key", made.chutes(made.instance("a")), None, None
    yield "tinfoil v2", made.tinfoil_v2(), None, None
    yield "tinfoil v2 with a nonce", made.tinfoil_v2(), None, made.NONCE
    yield "tinfoil v1", made.tinfoil_v2() | {"format": "https://tinfoil.sh/predicate/sev-snp-guest/v1"}, None, None
    manager = made.machine(compose_manager_attestation=made.manager(by_name=True))
    yield "a list in the order of names", manager, None, made.NONCE
    for by_name in (False, True):
        odd = made.manager(actions=made.ODD_ACTIONS, by_name=by_name)
        yield f"odd numbers and names, {by_name}", made.machine(compose_manager_attestation=odd), None, made.NONCE
    top = made.machine(info={"odd": [1, 1e22]}, gpus=())
    yield "numbers in a statement", top, None, made.NONCE
    for value in (True, 1.0):
        copy = {**top, "info": {"odd": [value, 1e22]}}
        yield f"a copy with {value}", {**top, "all_attestations": [copy]}, None, made.NONCE


def _asked(document: object, keys: object, nonce: bytes | None, files: dict[str, bytes]) -> Question:
    contents = [document if isinstance(document, bytes) else made.jsons(document)]
    contents += [] if keys is None else [made.jsons(keys)]
    names = [f"{len(data)}-{hash(data):x}" for data in contents]
    issuers = dict(zip(("vcek", "ask", "ark"), made.GUEST.chip.certificates(), strict=True))
    files.update(dict(zip(names, contents, strict=True)) | issuers)
    return Question(
        input=names,
        at=rfc3339_text(AT),
        nonce=None if nonce is None else nonce.hex(),
        unchecked=UNCHECKED,
        anchors="simulation",
        endorsements=list(issuers),
    )


def _compared(page: Verifier, questions: list[tuple[str, Question]], files: dict[str, bytes]) -> list[str]:
    page.hold(files)
    found: list[str] = []
    for begin in range(0, len(questions), _BATCH):
        batch = questions[begin : begin + _BATCH]
        for (name, question), got in zip(batch, page.ask_all([asked for _, asked in batch]), strict=True):
            found += [f"{name}: {text}" for text in differences(answer(question, files), got)]
            found += [f"{name}: {got['error']}"] * (name in VERIFIED and got["outcome"] != "verified")
    return found


def test_the_page_answers_what_python_answers_about_made_documents(in_browser: Verifier) -> None:
    files: dict[str, bytes] = {}
    # A nonce of another length is wrong use in Python.
    cases = [case for case in _cases() if case[3] != b"short"]
    questions = [(name, _asked(document, keys, nonce, files)) for name, document, keys, nonce in cases]
    assert _compared(in_browser, questions, files) == []


def test_the_page_refuses_a_nonce_or_report_data_that_no_document_can_meet(in_browser: Verifier) -> None:
    files: dict[str, bytes] = {}
    short = _asked(made.machine(), None, b"short", files)
    in_browser.hold(files)
    got = in_browser.ask_all([short])[0]
    assert (got["outcome"], got["error"]["code"]) == ("refused", "nonce-length")


def test_the_page_judges_every_machine_of_a_document_by_a_policy_as_python_does(in_browser: Verifier) -> None:
    document = YAML(typ="safe").load((POLICIES / "tdx-hgx-h100-lab-simulated.yaml").read_text())
    policy = load_policy(json.dumps(document).encode())
    evidence = [
        made.verified(made.gateway(made.machine(), made.machine(td=OTHER, gpus=("another gpu",)))),
        made.verified(made.tinfoil_bytes(made.tinfoil())),
        made.verified(made.tinfoil_bytes(made.tinfoil(gpus=False))),
    ]
    (found,) = ask(prepare(in_browser), [(json.dumps(document), [0, 1, 2])], [seen(one) for one in evidence])
    for verified, got in zip(evidence, found["judged"], strict=True):
        assert told_by_page(got) == verdict_of(appraise(verified, policy=policy, at=verified.at))


VALUES: tuple[object, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        1.5,
        1e22,
        10**30,
        [],
        {},
        [None],
        [{}],
        {"": {}},
        [[]],
        {"name": "kms", "id": "00"},
    ),
    *("", " ", "0", "00", "0x00", "é", "x" * 100, "AAAA", "null", "{}", "[]", '{"nvidia_payload":"[]"}'),
)
_Path = tuple[Any, ...]


def _places(value: JsonValue, path: _Path = ()) -> Iterator[_Path]:
    """Yield the path of each value in a document."""
    yield path
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, member in members:
        yield from _places(member, (*path, name))


def _with(value: Any, path: _Path, other: object) -> object:  # noqa: ANN401  members of any type
    """Return a copy in which another value stands at a path."""
    if not path:
        return other
    copied = value.copy()
    copied[path[0]] = _with(value[path[0]], path[1:], other)
    return copied


def _retyped(count: int) -> Iterator[_Case]:
    """Documents and keys in which one value has another type, or another member stands."""
    entries = [*dstack_made.RUNTIME_EVENTS]
    info = {"app_id": dstack_made.APP_ID.hex(), "tcb_info": json.dumps({"mrtd": "00" * 48}), "key_provider_info": ""}
    beside: Mapping[str, Any] = {"event_log": entries, "info": info, "vm_config": "{}", "report_data": "00" * 64}
    signed: Mapping[str, Any] = {"ohttp_attestation": made.ohttp(), "compose_manager_attestation": made.manager()}
    documents: list[tuple[str, Any, Any]] = [
        ("dstack", made.machine(gpus=(), **beside, **signed), None),
        ("dstack with GPUs", {**made.ecdsa_machine(), "all_attestations": [made.ecdsa_machine()]}, None),
        ("gateway", made.gateway(made.machine(gpus=()), ohttp_attestation=made.ohttp(), ohttp_key_config="00"), None),
        ("Chutes", made.chutes(made.instance("a")), made.instances("a", "b")),
        ("list of Chutes", made.listed(), None),
        ("tinfoil", json.loads(made.tinfoil_bytes(made.tinfoil(switches=True))), None),
        ("tinfoil v2", made.tinfoil_v2(), None),
    ]
    chance = random.Random(count)
    cases = [
        (f"{name}, {path}: {value!r}", document, keys, path, value, in_keys)
        for name, document, keys in documents
        for in_keys in ((False, True) if keys else (False,))
        for path in _places(keys if in_keys else document)
        for value in VALUES
    ]
    for name, document, keys, path, value, in_keys in chance.sample(cases, min(count, len(cases))):
        if in_keys:
            yield f"keys of {name}", document, _with(keys, path, value), made.NONCE
        else:
            yield name, _with(document, path, value), keys, made.NONCE


def test_the_page_answers_what_python_answers_where_a_value_has_another_type(in_browser: Verifier) -> None:
    files: dict[str, bytes] = {}
    questions = [(name, _asked(document, keys, nonce, files)) for name, document, keys, nonce in _retyped(120)]
    assert _compared(in_browser, questions, files) == []
