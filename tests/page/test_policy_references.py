"""Documents of reference values in the page: accepted, refused and judged as Python does, signatures included."""

import json
from base64 import b64encode
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from attest.appraisal import appraise
from attest.errors import AttestError, ConfigurationError
from attest.policy import Policy, load_policy
from attest.policy.reference_values.reference_documents import ReferenceDocument, decode_reference_document
from attest.policy.signatures import read_signature, sign_policy, signature_json
from attest.policy.signed_documents import read_signed_document
from attest.policy.signing_keys import PolicyPrivateKey, key_id, read_public_key
from tests.page.browser import Verifier
from tests.page.policies import ask, prepare, seen, told_by_page, verdict_of
from tests.policy.documents import MEASUREMENT, STRICT
from tests.policy.mixed import mixed, snp_cpu
from tests.policy.test_documents_at_hand import IMAGES as ONE_IMAGE
from tests.samples import AT

pytestmark = pytest.mark.loopback
Json = dict[str, Any]
OTHER, SHORT = "ab" * 48, "cd" * 32
KEYS: Mapping[str, PolicyPrivateKey] = {
    "alice": Ed25519PrivateKey.from_private_bytes(b"a" * 32),
    "bob": ec.derive_private_key(0xB0B, ec.SECP256R1()),
    "carol": ec.derive_private_key(0xCA401, ec.SECP384R1()),
    "stranger": Ed25519PrivateKey.from_private_bytes(b"s" * 32),
}
CASES = 160
IMAGES: Json = {**ONE_IMAGE, "values": {"image": {"kind": "snp-measurement", "values": [MEASUREMENT, OTHER]}}}


@pytest.fixture(scope="module")
def page(in_browser: Verifier) -> Verifier:
    return prepare(in_browser)


def public_of(name: str) -> str:
    return KEYS[name].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def id_of(name: str) -> str:
    return key_id(KEYS[name].public_key()).hex()


def signed(document: Json, name: str, **changes: object) -> str:
    return json.dumps(signature_json(sign_policy(document, key=KEYS[name], at=AT)) | changes)


def policy_with(*rows: Json, own: Json | None = None) -> str:
    whole = {name: value for name, value in STRICT.items() if name != "reference_values"}
    return json.dumps(whole | {"references": list(rows)} | ({} if own is None else {"reference_values": own}))


def in_python(policy: str, files: list[str]) -> Policy | str:
    """Read a policy, or return the code by which it is refused."""
    try:
        return read_all(policy, files)
    except AttestError as error:
        return error.code


def read_all(policy: str, files: list[str]) -> Policy:
    """Read as the command line reads: keys, then signatures, then documents, then the policy."""
    parsed = [(text, json.loads(text) if text.startswith("{") else None) for text in files]
    keys = [read_public_key(text.encode()) for text, value in parsed if value is None]
    own = [(text, value["schema"]) for text, value in parsed if value is not None]
    signatures = [read_signature(text.encode()) for text, schema in own if schema == "attest.policy-signature/1"]
    documents: dict[str, ReferenceDocument] = {}
    for text, schema in own:
        if schema == "attest.references/1":
            found = read_signed_document(text.encode(), signatures=signatures, keys=keys, name="a file")
            assert documents.setdefault(found.name, found) is found
    return load_policy(policy.encode(), references=documents)


def digest_of(document: Json) -> str:
    return decode_reference_document(document).digest.hex()


def random_case(random: Random) -> tuple[str, list[str]]:
    """A policy and its files, most of them as they should be; from a seed."""
    changes = random.choice(
        (
            {},
            {"version": 2},
            {"expires": {"unchecked": "no end"}},
            {"expires": "2026-05-31T00:00:00Z"},
            {"revoked": [{"value": random.choice((MEASUREMENT, OTHER, SHORT)), "reason": "a test"}]},
            {"revoked": [{"value": MEASUREMENT, "reason": "a"}, {"value": OTHER, "reason": "b"}]},
            {"values": IMAGES["values"] | {"enclave": {"kind": "sgx-mr-enclave", "values": [SHORT]}}},
            {"values": {"image": IMAGES["values"]["image"] | {"expires": "2026-05-31T23:59:59Z", "origin": "x"}}},
        )
    )
    images = IMAGES | changes
    signers = random.sample(list(KEYS), random.choice((1, 2, 3)))
    accepted = random.sample(list(KEYS), random.choice((1, 2, 3)))
    known = list(KEYS) if random.random() < 0.6 else random.sample(list(KEYS), 2)
    files = [json.dumps(images), *(signed(images, name) for name in signers), *map(public_of, known)]
    if random.random() < 0.2:
        files[1] = broken(random, files[1], images)
    if random.random() < 0.1:
        del files[0]
    random.shuffle(files)
    by_key = {"signers": [id_of(name) for name in accepted], "at_least": random.randint(1, len(accepted))}
    pin = digest_of(images if random.random() < 0.8 else IMAGES | {"version": 9})
    row: Json = {"document": "images", "minimum_version": random.choice((1, 3))}
    row |= {"sha256": pin} if random.random() < 0.3 else by_key
    own: Json | None = None
    if random.random() < 0.3:
        own = {random.choice(("image", "other")): {"values": [random.choice((MEASUREMENT, OTHER))], "origin": "x"}}
    return policy_with(row, own=own), files


def broken(random: Random, signature: str, images: Json) -> str:
    """A signature that does not hold, or is over something else, or is none."""
    found: Json = json.loads(signature)
    return random.choice(
        (
            lambda: json.dumps(found | {"signature": b64encode(bytes(64)).decode()}),
            lambda: json.dumps(found | {"version": 7}),
            lambda: json.dumps(found | {"algorithm": "ES384"}),
            lambda: json.dumps(found | {"key_id": id_of("bob")}),
            lambda: signed(images | {"origin": "another"}, "alice"),
            lambda: json.dumps(found | {"signature": "not base64"}),
            lambda: json.dumps(found | {"colour": "red"}),
        )
    )()


def test_documents_of_reference_values_are_accepted_and_judged_as_in_python(page: Verifier) -> None:
    random = Random(20261123)
    evidence = [mixed(snp_cpu()), mixed(snp_cpu(measurement=bytes.fromhex(OTHER)))]
    cases = [random_case(random) for _ in range(CASES)]
    answers = ask(page, [(policy, [0, 1], files) for policy, files in cases], [seen(one) for one in evidence])
    codes: dict[str, int] = {}
    affirmed = 0
    for (policy, files), answer in zip(cases, answers, strict=True):
        loaded = in_python(policy, files)
        if isinstance(loaded, str):
            assert answer.get("code") == loaded, (policy, files)
            codes[loaded] = codes.get(loaded, 0) + 1
            continue
        assert answer.get("digest") == loaded.digest.hex(), (answer, policy, files)
        for one, judged in zip(evidence, answer["judged"], strict=True):
            expected = verdict_of(appraise(one, policy=loaded, at=one.at))
            assert told_by_page(judged) == expected, (policy, files)
            affirmed += expected[0]
    assert affirmed > 30
    refused = ("missing", "not-accepted", "collide", "revoked")
    assert all(codes.get(f"references-{name}", 0) > 2 for name in refused), codes
    assert codes["policy-signature-unreadable"] > 1


@pytest.mark.parametrize(
    "changes",
    [
        {"colour": "red"},
        {"schema": "attest.references/2"},
        {"version": 0},
        {"version": 1.5},
        {"origin": " "},
        {"issued": "2026-02-30T00:00:00Z"},
        {"expires": "2025-12-31T23:59:59Z"},
        {"expires": None},
        {"values": {}},
        {"values": {"image": {"kind": "snp-measurement", "values": [SHORT]}}},
        {"values": {"image": {"kind": "azure-pcr24", "values": [SHORT]}}},
        {"values": {"image": {"kind": "tdx-rtmr4", "values": [OTHER]}}},
        {"values": {"image": {"kind": "snp-measurement", "values": [OTHER, OTHER.upper()]}}},
        {"revoked": []},
        {"revoked": [{"value": "ab", "reason": "x"}]},
        {"revoked": [{"value": OTHER}]},
    ],
)
def test_a_document_that_python_refuses_the_page_refuses(page: Verifier, changes: Json) -> None:
    images = IMAGES | changes
    with pytest.raises(ConfigurationError) as outcome:
        decode_reference_document(images)
    row = {"document": "images", "sha256": "00" * 32}
    ((answer),) = ask(page, [(policy_with(row), [], [json.dumps(images)])])
    assert answer["code"] == outcome.value.code == "policy-invalid"
    assert outcome.value.field in {answer["path"], answer["path"].rpartition("[")[0]}


@pytest.mark.parametrize(
    "row",
    [
        {"document": "images"},
        {"document": "images", "sha256": "00" * 32, "signers": [SHORT]},
        {"document": "images", "signers": []},
        {"document": "images", "signers": [SHORT, SHORT], "at_least": 2},
        {"document": "images", "sha256": "00" * 32, "at_least": 2},
        {"document": "images", "sha256": "00" * 32, "minimum_version": 0},
        {"document": " ", "sha256": "00" * 32},
        {"sha256": "00" * 32},
    ],
)
def test_a_row_that_python_refuses_the_page_refuses_at_the_same_place(page: Verifier, row: Json) -> None:
    text = policy_with(row)
    with pytest.raises(ConfigurationError) as outcome:
        load_policy(text.encode())
    ((answer),) = ask(page, [(text, [], [json.dumps(IMAGES)])])
    assert (answer["code"], answer["path"]) == (outcome.value.code, outcome.value.field)


@pytest.mark.parametrize(
    "file",
    [
        "",
        "no key",
        public_of("bob").replace("PUBLIC", "PRIVATE"),
        "-----BEGIN PUBLIC KEY-----\nA\n-----END PUBLIC KEY-----\n",
        "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
    ],
)
def test_what_is_no_key_is_refused(page: Verifier, file: str) -> None:
    row = {"document": "images", "sha256": digest_of(IMAGES)}
    ((answer),) = ask(page, [(policy_with(row), [], [json.dumps(IMAGES), file])])
    assert answer["code"] == "policy-key-invalid"


def test_two_documents_of_one_name_are_refused(page: Verifier) -> None:
    row = {"document": "images", "sha256": digest_of(IMAGES)}
    files = [json.dumps(IMAGES), json.dumps(IMAGES | {"version": 4})]
    ((answer),) = ask(page, [(policy_with(row), [], files)])
    assert answer["code"] == "references-collide"
