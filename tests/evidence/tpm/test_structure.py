"""A TPM's quote: closed, total, and the same bytes again."""

import contextlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import EvidenceError, UnsupportedError
from attest.evidence.tpm.structure import (
    ATTEST,
    SHA256,
    SIGNATURE,
    ParsedTpmQuote,
    PcrSelection,
    bitmap_of,
    parse_tpm_quote,
    parse_tpm_signature,
)

QUOTE = ParsedTpmQuote(
    raw=b"",
    qualified_signer=b"\x00\x0b" + bytes(32),
    extra_data=b"nonce",
    clock=7,
    reset_count=2,
    restart_count=1,
    safe=True,
    firmware_version=1 << 63,
    selections=(PcrSelection(algorithm=SHA256, bitmap=b"\xff\xff\xff"),),
    pcr_digest=bytes(range(32)),
)
DATA = QUOTE.to_bytes()

selections = st.builds(PcrSelection, algorithm=st.integers(0, 0xFFFF), bitmap=st.binary(min_size=3, max_size=3))
quotes = st.builds(
    ParsedTpmQuote,
    raw=st.just(b""),
    qualified_signer=st.binary(max_size=68),
    extra_data=st.binary(max_size=66),
    clock=st.integers(0, (1 << 64) - 1),
    reset_count=st.integers(0, (1 << 32) - 1),
    restart_count=st.integers(0, (1 << 32) - 1),
    safe=st.booleans(),
    firmware_version=st.integers(0, (1 << 64) - 1),
    selections=st.lists(selections, max_size=16).map(tuple),
    pcr_digest=st.binary(max_size=64),
)


@given(quotes)
def test_every_quote_is_read_as_it_was_written(quote: ParsedTpmQuote) -> None:
    data = quote.to_bytes()
    parsed = parse_tpm_quote(data)
    assert replace(parsed, raw=b"") == quote
    assert parsed.to_bytes() == parsed.raw == data


def test_a_quote_has_at_most_sixteen_selections() -> None:
    quote = parse_tpm_quote(DATA)
    most = replace(quote, selections=quote.selections[:1] * 16)
    assert len(parse_tpm_quote(most.to_bytes()).selections) == 16
    with pytest.raises(EvidenceError) as caught:
        parse_tpm_quote(replace(quote, selections=quote.selections[:1] * 17).to_bytes())
    assert caught.value.field == "selections"


def test_what_has_a_length_has_a_limit_and_nothing_else_has_one() -> None:
    limits = {field.name: field.limit for field in (*ATTEST, *SIGNATURE) if field.limit != 0}
    assert limits == {"qualified_signer": 68, "extra_data": 66, "pcr_digest": 64, "signature": 512}
    assert set(limits) == {field.name for field in (*ATTEST, *SIGNATURE) if field.kind == "sized"}


def test_every_value_of_the_class_has_its_row() -> None:
    rows = [field.name for field in ATTEST]
    assert rows[:2] == ["magic", "type"]
    assert set(rows[2:]) == set(ParsedTpmQuote.__dataclass_fields__) - {"raw"}


def test_integers_are_big_endian_and_in_their_places() -> None:
    assert DATA[:6] == bytes.fromhex("ff5443478018")
    assert DATA[6:8] == b"\x00\x22"
    assert parse_tpm_quote(DATA).clock == 7


def test_a_change_of_any_bit_shows_or_is_refused() -> None:
    for at in range(len(DATA)):
        for bit in range(8):
            changed = DATA[:at] + bytes([DATA[at] ^ 1 << bit]) + DATA[at + 1 :]
            try:
                found = parse_tpm_quote(changed)
            except EvidenceError:
                continue
            assert replace(found, raw=b"") != QUOTE
            assert found.to_bytes() == changed


def test_a_quote_cut_anywhere_or_longer_by_a_byte_is_malformed() -> None:
    for length in range(len(DATA)):
        with pytest.raises(EvidenceError) as outcome:
            parse_tpm_quote(DATA[:length])
        assert outcome.value.code == "truncated"
    with pytest.raises(EvidenceError) as outcome:
        parse_tpm_quote(DATA + b"\0")
    assert outcome.value.code == "trailing-bytes"


@pytest.mark.parametrize("offset", [0, 3, 4, 5])
def test_what_is_no_quote_of_a_tpm_is_unsupported(offset: int) -> None:
    changed = DATA[:offset] + bytes([DATA[offset] ^ 1]) + DATA[offset + 1 :]
    with pytest.raises(UnsupportedError) as outcome:
        parse_tpm_quote(changed)
    assert outcome.value.code == "tpm-attest-unsupported"


LONG: tuple[tuple[str, object], ...] = (
    ("qualified_signer", bytes(69)),
    ("extra_data", bytes(67)),
    ("pcr_digest", bytes(65)),
    ("selections", QUOTE.selections * 17),
    ("selections", (PcrSelection(algorithm=SHA256, bitmap=bytes(2)),)),
    ("selections", (PcrSelection(algorithm=SHA256, bitmap=bytes(4)),)),
    ("safe", 2),
)


@pytest.mark.parametrize(("field", "value"), LONG)
def test_limits_are_those_of_the_specification(field: str, value: object) -> None:
    with pytest.raises(EvidenceError) as outcome:
        parse_tpm_quote(replace(QUOTE, **{field: value}).to_bytes())  # type: ignore[arg-type]
    assert outcome.value.code == "tpm-quote-malformed"


@given(st.binary(max_size=200) | st.binary(max_size=120).map(lambda tail: DATA[:8] + tail))
def test_any_bytes_are_a_quote_or_a_documented_refusal(data: bytes) -> None:
    with contextlib.suppress(EvidenceError):
        assert parse_tpm_quote(data).to_bytes() == data


@given(st.sets(st.integers(0, 23)))
def test_a_bitmap_selects_what_it_was_made_for(indices: set[int]) -> None:
    chosen = PcrSelection(algorithm=SHA256, bitmap=bitmap_of(tuple(indices)))
    assert chosen.indices == tuple(sorted(indices))


def test_bit_i_of_byte_j_is_register_8j_plus_i() -> None:
    assert PcrSelection(algorithm=SHA256, bitmap=b"\x01\x80\x02").indices == (0, 15, 17)


def test_a_signature_is_read_out_of_its_structure() -> None:
    assert parse_tpm_signature(bytes.fromhex("0014000b0006") + b"signed") == b"signed"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (bytes.fromhex("0018000b0000"), "tpm-signature-unsupported"),
        (bytes.fromhex("001400040000"), "tpm-signature-unsupported"),
        (bytes.fromhex("0014000b0201") + bytes(513), "tpm-quote-malformed"),
        (bytes.fromhex("0014000b0001"), "truncated"),
        (bytes.fromhex("0014000b000000"), "trailing-bytes"),
    ],
)
def test_another_signature_is_refused(data: bytes, code: str) -> None:
    with pytest.raises(EvidenceError) as outcome:
        parse_tpm_signature(data)
    assert outcome.value.code == code


def test_recorded_quotes_say_what_the_manifest_says(vectors_dir: Path) -> None:
    manifest = json.loads((vectors_dir / "azure/MANIFEST.json").read_text())
    for vector in (v for v in manifest["vectors"] if "file" in v):
        document = json.loads((vectors_dir / "azure" / vector["file"]["path"]).read_text())
        document = document.get("evidence", document)
        message = document.get("tpm_quote", document.get("quote"))["message"]
        raw = bytes.fromhex(message) if isinstance(message, str) else bytes(message)
        quote, said = parse_tpm_quote(raw), vector["tpm"]
        assert quote.to_bytes() == raw
        assert quote.extra_data.hex() == said["extra_data"]
        assert quote.qualified_signer.hex() == said["qualified_signer"]
        assert (quote.clock, quote.reset_count) == (said["clock"], said["reset_count"])
        assert f"{quote.firmware_version:#x}" == said["firmware_version"]
        assert list(quote.selections[0].indices) == said["pcr_selection"]["indices"]
