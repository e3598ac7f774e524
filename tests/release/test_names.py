"""Names of keys: one spelling each, and nothing else is one."""

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import ConfigurationError
from attest.release import KeyName, KeyReference
from attest.release.names import KEY_ID_PATTERN, KEY_REFERENCE_PATTERN, TENANT_PATTERN, require_tenant

TENANTS = st.from_regex(TENANT_PATTERN[1:-1], fullmatch=True)
KEY_IDS = st.from_regex(KEY_ID_PATTERN[1:-1], fullmatch=True)
NAMES = st.builds(KeyName, tenant=st.just("default") | TENANTS, key_id=KEY_IDS)
REFERENCES = st.builds(KeyReference, name=NAMES, version=st.none() | st.integers(1, 999_999_999))


@given(NAMES)
def test_a_name_reads_back_as_it_is_printed(name: KeyName) -> None:
    assert KeyName.parse(str(name)) == name


@given(REFERENCES)
def test_a_reference_reads_back_as_it_is_printed(reference: KeyReference) -> None:
    text = str(reference)
    assert KeyReference.parse(text) == reference
    assert re.fullmatch(KEY_REFERENCE_PATTERN, text)


@given(st.text(max_size=20) | st.from_regex(KEY_REFERENCE_PATTERN, fullmatch=True))
def test_what_is_read_is_printed_as_it_was_read(text: str) -> None:
    with contextlib.suppress(ConfigurationError):
        assert str(KeyReference.parse(text)) == text


@pytest.mark.parametrize("key_id", ["a", "0", "model-7b.v2_x", "a" * 128])
def test_ids_of_the_grammar_are_accepted(key_id: str) -> None:
    assert KeyName.parse(key_id) == KeyName(tenant="default", key_id=key_id)


@pytest.mark.parametrize("key_id", ["", "A", "-a", ".a", "a/b", "../a", "a b", "a\n", "ä", "a" * 129, "a\0", "a@1"])
def test_mc_34_other_ids_are_refused(key_id: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        KeyName(key_id=key_id)
    assert caught.value.code == "key-id-invalid"


@pytest.mark.parametrize("tenant", ["a", "acme-7.eu_x", "a" * 64])
def test_tenants_of_the_grammar_are_accepted(tenant: str) -> None:
    assert require_tenant(tenant) == tenant
    assert KeyName.parse(f"{tenant}/model") == KeyName(tenant=tenant, key_id="model")


@pytest.mark.parametrize("tenant", ["", "A", "-a", ".", "..", "a b", "a\n", "ä", "a" * 65, "a@1"])
def test_mc_34_other_tenants_are_refused(tenant: str) -> None:
    for read in (require_tenant, lambda text: KeyName(tenant=text, key_id="model")):
        with pytest.raises(ConfigurationError) as caught:
            read(tenant)
        assert caught.value.code == "tenant-invalid"
    with pytest.raises(ConfigurationError):
        KeyName.parse(f"{tenant}/model")


@pytest.mark.parametrize("text", ["default/model", "acme/", "acme/b/c", "/model", "acme//model"])
def test_there_is_one_spelling_for_each_name(text: str) -> None:
    with pytest.raises(ConfigurationError):
        KeyName.parse(text)


@pytest.mark.parametrize(
    "text", ["a@", "a@0", "a@01", "a@-1", "a@1000000000", "a@1@2", "a@x", "a@1\n", "a@ 1", "a@\u0661"]
)
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        KeyReference.parse(text)
    assert caught.value.code == "key-version-invalid"
    assert KeyReference.parse("a@999999999").version == 999_999_999
