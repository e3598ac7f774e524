"""The release policy that is shown of a key with an attest policy."""

import json

import pytest

from attest.policy import decode_policy, outline_skr, parse_skr, read_document

URLS = ("https://maa.example", "https://other.example")
EXACT = """
schema: attest.policy/1
name: exact
version: 1
unchecked: {freshness: a token has no challenge}
reference_values:
  image: {values: ["MEASURED"], origin: a test}
snp:
  products: [Genoa]
  measurement: [image]
  minimum_tcb: {Genoa: {bootloader: 10, tee: 0, snp: 27, microcode: 88}}
"""


def outlined(text: str, urls: tuple[str, ...] = URLS) -> dict[str, object]:
    written = outline_skr(decode_policy(read_document(text.encode())), urls)
    parse_skr(written)
    found: dict[str, object] = json.loads(written)
    return found


def test_a_policy_that_loses_something_is_outlined_by_its_authorities() -> None:
    text = EXACT.replace("MEASURED", "ab" * 48)
    kinds = [{"claim": "x-ms-attestation-type", "equals": kind} for kind in ("sevsnpvm", "tdxvm", "azurevm")]
    assert outlined(text) == {"version": "1.0.0", "anyOf": [{"authority": url, "anyOf": kinds} for url in URLS]}


def test_a_policy_about_other_devices_is_outlined_by_its_authorities() -> None:
    head = "schema: attest.policy/1\nname: sample\nversion: 1\nsimulated: {unchecked: a test}\n"
    found = outlined(head + "sample: {launch_digest: [abcde]}", URLS[:1])
    assert found["anyOf"][0]["authority"] == URLS[0]  # type: ignore[index]  # JSON


def test_a_policy_that_loses_nothing_is_written_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    from attest.policy.foreign import skr_outline
    from attest.policy.foreign.conversion import Conversion

    whole = {"version": "1.0.0", "anyOf": [{"authority": URLS[0], "allOf": [{"claim": "ä", "equals": "b"}]}]}
    made = Conversion(document=whole, carried=(), losses=(), stricter=())  # type: ignore[arg-type]  # JSON
    monkeypatch.setattr(skr_outline, "export_skr", lambda *_, **__: made)
    text = EXACT.replace("MEASURED", "ab" * 48)
    assert outlined(text) == whole
