"""Literal bytes of the protocol, as recorded from other clients or computed by hand: documents, digests, headers."""

from base64 import b64encode
from hashlib import sha384

import pytest

from attest.encoding import JsonValue, canonical_json
from attest.errors import VerificationError
from attest.kbs import key_encryption_key, read_tee_key, runtime_digest, runtime_document

NONCE = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
KEY: dict[str, JsonValue] = {
    "kty": "EC",
    "crv": "P-256",
    "alg": "ECDH-ES+A256KW",
    "x": "gI0GAILBdu7T53akrFmMyGcsF3n5dO7MmwNBHKW5SV0",
    "y": "SLW_xSffzlPWrHEVI30DHM_4egVwt3NQqeUD7nMFpps",
}
DEVICE = '{"sampledevice":{"report_data":"m9KKOK+SxKz+tpoBCkzXd8VGptmTn7Dz3VfiU1zd9NbZaZGxhcNXCkcl2n0iMnDz","svn":"2"}}'
RECORDED = {
    "without devices": (
        "LuJMg4mx//ekk2ao24uH3awLgkbcuXul55EspIpoQ0U=",
        ("l80LGEezsmGPA7swN_6Eqc6RHfmcRF3TJ1QEPldaM7Q", "zRo9YlMtKIFEDhv98vUFSjFz1tr2CrGheJ2J9_vtLjU"),
        "",
        "0jO1De1E8YQYdeGZP7w3fts2izLkrcoeHo3+Zh4YmG8obtZlbkLwhl++jlJp1fww",
    ),
    "with a device": (
        "PpIq0ZAWMBb6S/zTq2atMv85VsbDdkXibvM2Lk+wApk=",
        ("eO535Kc5nGGd8VYu9x--dx6uDGgxReniLh0pOulPmds", "MkyCgaWD-eY2_GjoVi-m2ItRsFjt-SuXwBjRlm_L6VA"),
        '{"sampledevice":{"report_data":"wN4mWzE+vT9ONkEbHf7eQYdjXoNO2EXpG2nthGOJtcaN5Us2hWLPTulvcTy81I9e","svn":"2"}}',
        "ZCW1JdPuruDw8OV7KrrI3hrBC313tmcPn0nOqZJQHOqOojDdH2ViYmReP5COiyuC",
    ),
}
"""Digests in evidence of other clients: nonce, coordinates, evidence of devices, ``report_data``."""


def jwk(**members: JsonValue) -> dict[str, str]:
    return read_tee_key({**KEY, **members}).jwk


def test_canonical_json_sorts_names_and_adds_nothing() -> None:
    document: JsonValue = {"b": 1, "a": "test", "c": {"d": "e"}}
    assert canonical_json(document) == b'{"a":"test","b":1,"c":{"d":"e"}}'
    assert sha384(canonical_json(document)).hexdigest() == (
        "e71ce8e70d814ba6639c3612ebee0ff1f76f650f8dbb5e47157e0f3f525cd22c4597480a186427c813ca941da78870c3"
    )


def test_canonical_json_escapes_the_least() -> None:
    document: JsonValue = {"z": '"\\/\x08\x0c\n\r\t\x1f\x7fé\u2028😀', "é": "", "😀": "", "\ufb33": ""}
    expected = '{"z":"\\"\\\\/\\b\\f\\n\\r\\t\\u001f\x7fé\u2028😀","é":"","😀":"","\ufb33":""}'
    assert canonical_json(document) == expected.encode()


def test_the_document_of_devices_has_nonce_and_key_alone() -> None:
    written = canonical_json(runtime_document(jwk(), nonce=NONCE))
    assert written == (
        b'{"nonce":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=","tee-pubkey":{"alg":"ECDH-ES+A256KW","crv":"P-256",'
        b'"kty":"EC","x":"gI0GAILBdu7T53akrFmMyGcsF3n5dO7MmwNBHKW5SV0","y":"SLW_xSffzlPWrHEVI30DHM_4egVwt3NQqeUD7nMFpps"}}'
    )
    assert runtime_digest(runtime_document(jwk(), nonce=NONCE)).hex() == (
        "9bd28a38af92c4acfeb69a010a4cd777c546a6d9939fb0f3dd57e2535cddf4d6d96991b185c3570a4725da7d223270f3"
    )


def test_the_document_of_the_cpu_has_the_evidence_of_devices_as_text() -> None:
    alone = runtime_document(jwk(), nonce=NONCE, additional="")
    assert canonical_json(alone).startswith(b'{"additional-evidence":"","nonce":"AAEC')
    assert runtime_digest(alone).hex() == (
        "24d7b8634a25cc74ab1ce3c78b8cd9ec5a23e33f3a66ce3a04cf6b9a48f11d56986edb023749150a64850073a9c2e043"
    )
    beside = runtime_document(jwk(), nonce=NONCE, additional=DEVICE)
    assert canonical_json(beside).startswith(b'{"additional-evidence":"{\\"sampledevice\\":{\\"report_data\\":\\"m9KK')
    assert runtime_digest(beside).hex() == (
        "101957b38b996f262247ed531da8f4e275a4fe59196a3dcfb519de7afe85928ba51aceb78258b0d06b23b49c2292db60"
    )


@pytest.mark.parametrize("name", RECORDED)
def test_digests_are_those_that_another_client_sent(name: str) -> None:
    nonce, (x, y), additional, report_data = RECORDED[name]
    digest = runtime_digest(runtime_document(jwk(x=x, y=y), nonce=nonce, additional=additional))
    assert b64encode(digest).decode() == report_data


def test_a_key_is_hashed_without_the_members_that_the_protocol_does_not_know() -> None:
    assert jwk(kid="a name", use="enc") == jwk()


def test_the_key_of_a_guest_is_a_point_of_its_curve() -> None:
    with pytest.raises(VerificationError) as caught:
        jwk(y=KEY["x"])
    assert (caught.value.code, caught.value.field) == ("tee-key-invalid", "tee-pubkey.x")


def test_the_wrapping_key_is_one_round_of_concat_kdf() -> None:
    assert key_encryption_key(bytes(range(32))).hex() == (
        "ead36a3ab953bb6e5a6709471c0fd35fcc62cf920994cede2f3aa2544e9f47ac"
    )
    assert key_encryption_key(bytes(range(66))).hex() == (
        "3e6609c07a08404eae372dd90baa6ab82e7f1104c848e414079726e64e92f00c"
    )
