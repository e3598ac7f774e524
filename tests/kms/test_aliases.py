"""Addresses of other protocols that lead to keys, and the protocols through which a key is released."""

import pytest

from attest.errors import ConfigurationError
from attest.release import KeyName
from kms.domain.aliases import Alias, is_kbs_path, require_address, vault_address
from kms.domain.decide import ReleaseTerms
from kms.domain.errors import KeyConflictError, KeyUnknownError, ReleaseDeniedError
from kms.domain.keys import Disclosure
from kms.domain.wires import NATIVE_ONLY, Wire, parse_wires, wires_text
from kms.keys.admin import require_key
from kms.keys.aliases import add_alias, key_of, remove_alias
from kms.keys.release_settings import ReleaseSettings, set_release_settings
from kms.operations.replay import LoggedState
from tests.kms.support import ACTOR, MODEL, Harness, Workload

ADDRESS = "kbs:///default/model-key/llama"


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    """Both kinds of database."""
    return str(request.param)


def put_via(harness: Harness, *wires: Wire) -> None:
    then = ReleaseSettings(disclosure=Disclosure.CHECKS, lease_seconds=None, via=frozenset(wires))
    set_release_settings(harness.services.store, MODEL, then, actor=ACTOR, at=harness.clock())


def differences(harness: Harness) -> list[str]:
    state = LoggedState()
    with harness.services.store.reading() as tx:
        return [one.line for one in (*state.advance_to_end(tx), *state.differences(tx))]


# -- addresses


@pytest.mark.parametrize("path", ["default/key/1", "a/b/c", "_/-/A.b", "default/test/.".replace(".", "x.")])
def test_a_path_has_three_segments(path: str) -> None:
    assert is_kbs_path(path)
    assert require_address(f"kbs:///{path}") == f"kbs:///{path}"


@pytest.mark.parametrize(
    "path",
    ["", "a/b", "a/b/c/d", "a//c", "/a/b/c", "a/b/c/", "a/../c", ".a/b/c", "a/b/ü", "a/b/c\n", "a/b/" + "c" * 600],
)
def test_no_other_text_is_a_path(path: str) -> None:
    assert not is_kbs_path(path)
    with pytest.raises(ConfigurationError) as caught:
        require_address(f"kbs:///{path}")
    assert caught.value.code == "alias-address-invalid"


@pytest.mark.parametrize("address", ["default/key/1", "kbs://host/default/key/1", "http://vault/keys/a"])
def test_an_address_names_its_protocol(address: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        require_address(address)
    assert caught.value.code == "alias-address-invalid"


@pytest.mark.parametrize("place", ["v1.localhost:8443", "v1.kms.example", "[::1]:8443"])
def test_a_key_of_a_vault_has_an_address(place: str) -> None:
    assert require_address(f"https://{place}/keys/Key-1") == vault_address(place, "Key-1")


@pytest.mark.parametrize(
    "address",
    [
        "https://V1.kms.example/keys/a",
        "https://v1.kms.example:443/keys/a",
        "https://v1.kms.example/keys/a/keys/b",
        "https://v1.kms.example/x/keys/a",
        "https://v1.kms.example/keys/",
        "https://v1.kms.example/keys/a_b",
        "https://v1.kms.example/keys/a?b",
        "https://user@v1.kms.example/keys/a",
        "https://v1.kms.example/keys/" + "a" * 128,
        "https:///keys/a",
        "https://" + "v" * 600 + "/keys/a",
    ],
)
def test_a_vaults_key_has_one_spelling(address: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        require_address(address)
    assert caught.value.code == "alias-address-invalid"


# -- aliases


def test_an_alias_leads_to_a_key_until_it_is_removed(harness: Harness) -> None:
    harness.add_key("model")
    store = harness.services.store
    add_alias(store, Alias(address=ADDRESS, key=MODEL), actor=ACTOR, at=harness.clock())
    with store.reading() as tx:
        assert key_of(tx, ADDRESS) == MODEL
        assert [one.address for one in tx.aliases.all()] == [ADDRESS]
    assert differences(harness) == []
    remove_alias(store, ADDRESS, actor=ACTOR, at=harness.clock())
    with store.reading() as tx:
        assert key_of(tx, ADDRESS) is None
    assert [entry["kind"] for entry in harness.entries()][-2:] == ["alias-added", "alias-removed"]
    assert differences(harness) == []


def test_an_alias_needs_its_key_and_is_not_taken_over(harness: Harness) -> None:
    harness.add_key("model")
    harness.add_key("other")
    store, at = harness.services.store, harness.clock()
    with pytest.raises(KeyUnknownError) as unknown:
        add_alias(store, Alias(address=ADDRESS, key=KeyName(key_id="none")), actor=ACTOR, at=at)
    assert unknown.value.code == "key-unknown"
    add_alias(store, Alias(address=ADDRESS, key=MODEL), actor=ACTOR, at=at)
    with pytest.raises(KeyConflictError) as taken:
        add_alias(store, Alias(address=ADDRESS, key=KeyName(key_id="other")), actor=ACTOR, at=at)
    assert taken.value.code == "alias-exists"
    with pytest.raises(KeyUnknownError) as gone:
        remove_alias(store, "kbs:///a/b/c", actor=ACTOR, at=at)
    assert gone.value.code == "alias-unknown"


def test_an_alias_that_another_program_wrote_is_refused(harness: Harness) -> None:
    harness.add_key("model")
    harness.add_key("other")
    store = harness.services.store
    add_alias(store, Alias(address=ADDRESS, key=MODEL), actor=ACTOR, at=harness.clock())
    harness.alter("UPDATE aliases SET key_id = 'other'")
    with pytest.raises(Exception, match="altered"), store.reading() as tx:
        key_of(tx, ADDRESS)
    assert any("alias" in line for line in differences(harness))


# -- protocols


def test_a_new_key_is_released_natively_alone(harness: Harness) -> None:
    harness.add_key("model")
    with harness.services.store.reading() as tx:
        assert require_key(tx, MODEL).via == NATIVE_ONLY
    harness.releases.release(Workload().request(harness.releases.challenge(), "model"))
    assert harness.decisions()[-1]["via"] == "native"
    assert ReleaseTerms.__dataclass_fields__["via"].default is Wire.NATIVE


def test_a_key_of_another_protocol_alone_is_not_released_natively(harness: Harness) -> None:
    harness.add_key("model")
    put_via(harness, Wire.KBS)
    with pytest.raises(ReleaseDeniedError) as caught:
        harness.releases.release(Workload().request(harness.releases.challenge(), "model"))
    assert caught.value.code == "via-not-allowed"
    assert differences(harness) == []
    put_via(harness, Wire.NATIVE, Wire.KBS)
    harness.releases.release(Workload().request(harness.releases.challenge(), "model"))
    entry = next(one for one in reversed(harness.entries()) if one["kind"] == "key-release-set")
    assert entry["via"] == "kbs,native"


def test_protocols_are_named_as_they_are() -> None:
    assert parse_wires(["native", "kbs", "skr", "kbs"]) == frozenset(Wire)
    assert wires_text(frozenset(Wire)) == "kbs,native,skr"
    for wrong in ([], ["nativ"], ["native", ""]):
        with pytest.raises(ConfigurationError) as caught:
            parse_wires(wrong)
        assert caught.value.code == "wire-unknown"


def test_an_altered_protocol_of_a_key_is_refused(harness: Harness) -> None:
    harness.add_key("model")
    harness.alter("UPDATE keys SET via = 'kbs,native'")
    with pytest.raises(Exception, match="altered"), harness.services.store.reading() as tx:
        tx.keys.find(MODEL)
