"""app-compose, the compose hash in RTMR3 and MRCONFIGID agree, or the evidence is refused."""

import pytest

from attest.checks import Outcome
from attest.errors import VerificationError
from attest.evidence.dstack.compose import compose_hash_of, judge_compose
from attest.evidence.dstack.facts import DstackFacts, KeyProvider
from attest.evidence.keccak import keccak256
from tests.evidence.dstack.made import APP_COMPOSE, APP_ID, COMPOSE_HASH, CONFIG_ID, KEY_ID

FACTS = DstackFacts(compose_hash=COMPOSE_HASH, app_id=APP_ID, key_provider=KeyProvider(name="kms", id=KEY_ID))
TEXT = (("app_compose", APP_COMPOSE.encode()),)
NO_FACTS = DstackFacts()


def judged(
    config_id: bytes = CONFIG_ID, facts: DstackFacts = FACTS, texts: tuple[tuple[str, bytes], ...] = TEXT
) -> tuple[Outcome, str, str]:
    return judge_compose(mr_config_id=config_id, facts=facts, app_composes=texts)


def refused(
    config_id: bytes = CONFIG_ID, facts: DstackFacts = FACTS, texts: tuple[tuple[str, bytes], ...] = TEXT
) -> VerificationError:
    with pytest.raises(VerificationError) as caught:
        judged(config_id, facts, texts)
    assert caught.value.exit_code == 4
    return caught.value


def version_2(kind: int, identity: bytes, app_id: bytes = APP_ID) -> bytes:
    return b"\2" + keccak256(COMPOSE_HASH + app_id + bytes([kind]) + identity) + bytes(15)


def test_text_event_and_configuration_agree() -> None:
    outcome, expected, got = judged()
    assert (outcome, expected) == (Outcome.PASS, f"compose hash {COMPOSE_HASH.hex()}")
    assert got == "the event in RTMR3; MRCONFIGID of version 1; SHA-256 of app_compose"


def test_without_app_compose_the_event_and_the_configuration_are_compared() -> None:
    assert judged(texts=())[0] is Outcome.PASS
    assert refused(b"\1" + bytes(47), texts=()).code == "dstack-config-id-mismatch"


def test_without_a_log_the_configuration_alone_has_the_hash() -> None:
    assert judged(facts=NO_FACTS)[2] == "SHA-256 of app_compose"
    assert judged(facts=NO_FACTS, texts=()) == (
        Outcome.PASS,
        f"compose hash {COMPOSE_HASH.hex()}",
        "MRCONFIGID alone has it",
    )
    assert refused(facts=NO_FACTS, texts=(("app_compose", b"{}"),)).code == "dstack-compose-mismatch"


def test_where_nothing_signed_has_a_compose_hash_nothing_is_concluded() -> None:
    for config_id in (bytes(48), version_2(2, KEY_ID), CONFIG_ID[:-1] + b"\1"):
        assert judged(config_id, NO_FACTS)[0] is Outcome.NOT_EVALUATED


@pytest.mark.parametrize("text", [b"", APP_COMPOSE.encode() + b"\n", APP_COMPOSE.replace(",", ", ").encode()])
def test_the_hash_is_over_the_exact_bytes(text: bytes) -> None:
    error = refused(texts=(*TEXT, ("info.app_compose", text)))
    assert (error.code, error.field) == ("dstack-compose-mismatch", "info.app_compose")


def test_a_configuration_that_is_not_set_says_nothing() -> None:
    assert judged(bytes(48))[2].startswith("the event in RTMR3; MRCONFIGID is not set")


def test_a_configuration_of_version_1_is_the_hash_and_zeros() -> None:
    for wrong in (CONFIG_ID[:-1] + b"\1", b"\1" + bytes(32) + bytes(15)):
        error = refused(wrong)
        assert (error.code, error.expected) == ("dstack-config-id-mismatch", CONFIG_ID.hex())


@pytest.mark.parametrize(("name", "kind"), [("none", 0), ("local-sgx", 1), ("kms", 2), ("tpm", 3), ("other", 0)])
def test_a_configuration_of_version_2_covers_app_and_key_provider(name: str, kind: int) -> None:
    facts = DstackFacts(compose_hash=COMPOSE_HASH, app_id=APP_ID, key_provider=KeyProvider(name=name, id=KEY_ID))
    assert "version 2" in judged(version_2(kind, KEY_ID), facts)[2]
    assert refused(version_2(kind ^ 1, KEY_ID), facts).code == "dstack-config-id-mismatch"
    assert refused(version_2(kind, KEY_ID[:-1]), facts).code == "dstack-config-id-mismatch"


def test_a_configuration_of_version_2_without_app_or_provider_counts_them_as_empty() -> None:
    facts = DstackFacts(compose_hash=COMPOSE_HASH)
    assert judged(version_2(0, b"", app_id=b""), facts)[0] is Outcome.PASS


def test_a_configuration_of_version_3_covers_a_document_that_is_not_available() -> None:
    outcome, _, got = judged(b"\3" + bytes(46) + b"\1")
    assert (outcome, "not available" in got) == (Outcome.PASS, True)


def test_a_configuration_of_no_known_version_is_refused_by_name() -> None:
    error = refused(b"\4" + CONFIG_ID[1:])
    assert (error.code, error.got) == ("dstack-config-id-unknown", "4")


def test_only_version_1_has_the_hash_in_clear() -> None:
    assert compose_hash_of(CONFIG_ID) == COMPOSE_HASH
    for other in (bytes(48), b"\2" + CONFIG_ID[1:], CONFIG_ID[:-1] + b"\1"):
        assert compose_hash_of(other) is None
