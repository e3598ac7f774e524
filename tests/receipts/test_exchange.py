"""The machine's side: bodies are hashed as they pass, numbers are given once, and one model answers."""

from __future__ import annotations

import copy
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import VerificationError
from attest.receipts import ModelRecord, OpenedModel, ReceiptSigner, parse_receipt, record_of, require_consistent
from attest.receipts.exchange import parameters_of
from attest.receipts.signer import LIFETIME, MAX_LIFETIME
from tests.receipts.machine import REQUEST, RESPONSE, Machine, checked, opened, released, sealed_model, stream
from tests.samples import AT

MACHINE = Machine()


def pieces(body: bytes, cuts: list[int]) -> tuple[bytes, ...]:
    ends = sorted({0, len(body), *(cut % (len(body) + 1) for cut in cuts)})
    return tuple(body[begin:end] for begin, end in pairwise(ends))


@given(cuts=st.lists(st.integers(0, 10_000), max_size=20))
def test_the_pieces_of_a_stream_make_no_difference(cuts: list[int]) -> None:
    claims = parse_receipt(MACHINE.receipt(events=(b"", *pieces(RESPONSE, cuts), b""))).claims
    assert claims.response == parse_receipt(MACHINE.receipt()).claims.response
    assert claims.response.size == len(RESPONSE)


def test_an_empty_body_is_a_body() -> None:
    file = MACHINE.file(request=b"", events=())
    assert checked(file, request=b"", response=b"").claims.response.size == 0


def test_each_exchange_gets_its_own_number_and_identity_whatever_thread_begins_it() -> None:
    recorder = Machine().recorder(random=stream("threads"))

    def one(_: int) -> tuple[bytes, int]:
        return recorder.new_identity()

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(one, range(400)))
    assert sorted(number for _, number in found) == list(range(400))
    assert len({identity for identity, _ in found}) == 400


def test_recorders_of_one_signer_share_its_numbers() -> None:
    machine = Machine()
    first, second = machine.recorder(), machine.recorder()
    numbers = [parse_receipt(machine.receipt(recorder=one)).claims.sequence for one in (first, second, first)]
    assert numbers == [0, 1, 2]


def test_receipts_of_one_machine_with_different_numbers_are_consistent() -> None:
    machine = Machine()
    claims = [parse_receipt(machine.receipt()).claims for _ in range(3)]
    require_consistent(())
    require_consistent([*claims, claims[0], *claims[::-1]])
    require_consistent([claims[0], replace(claims[1], sequence=0, statement=bytes(32))])


def test_two_exchanges_with_one_number_are_a_contradiction() -> None:
    machine = Machine()
    first, second = (parse_receipt(machine.receipt()).claims for _ in range(2))
    with pytest.raises(VerificationError) as caught:
        require_consistent([first, replace(second, sequence=first.sequence)])
    assert caught.value.code == "receipt-sequence-repeated"
    assert first.receipt_id.hex() in (caught.value.got or "")


# -- the model


def loaded(name: str) -> OpenedModel:
    return OpenedModel(directory=opened(sealed_model(name)), release=released())


def test_a_model_that_is_exchanged_after_loading_gets_no_receipt() -> None:
    machine, current = Machine(), loaded("model")
    recorder = machine.recorder(current=lambda: record_of(current, loader="attest test"))
    assert machine.receipt(recorder=recorder)
    current = loaded("other")
    with pytest.raises(VerificationError) as caught:
        machine.receipt(recorder=recorder)
    assert caught.value.code == "receipt-model-changed"


@pytest.mark.parametrize("change", ["adapter", "quantisation", "loader", "release"])
def test_an_adapter_or_another_way_of_loading_is_another_model(change: str) -> None:
    model = loaded("model")
    before = record_of(model, loader="attest test")
    adapter = OpenedModel(directory=opened(sealed_model("adapter", adapter=True)))
    after: dict[str, ModelRecord] = {
        "adapter": record_of(model, adapter, loader="attest test"),
        "quantisation": record_of(model, loader="attest test", quantisation="int8"),
        "loader": record_of(model, loader="attest test 2"),
        "release": record_of(OpenedModel(directory=model.directory), loader="attest test"),
    }
    assert not before.is_same_model(after[change])
    assert before.digest != after[change].digest


def test_a_file_that_is_decrypted_later_leaves_the_model_the_same() -> None:
    directory = opened(sealed_model(), whole=False)
    model = OpenedModel(directory=directory, release=released())
    before = record_of(model)
    directory.read("model.safetensors")
    after = record_of(model)
    assert before != after
    assert before.is_same_model(after)


def test_a_recorder_takes_only_a_model_of_its_statement() -> None:
    machine = Machine()
    with pytest.raises(ValueError, match="does not have this model"):
        machine.recorder(model=record_of(loaded("other")))


@pytest.mark.parametrize(
    ("parts", "releases", "more"),
    [
        ((), (), {}),
        (MACHINE.record.parts, (), {}),
        (MACHINE.record.parts * 33, (None,) * 33, {}),
        (MACHINE.record.parts, (None,), {"loader": ""}),
        (MACHINE.record.parts, (None,), {"loader": "x" * 201}),
        (MACHINE.record.parts, (None,), {"quantisation": "a\n"}),
    ],
    ids=range(6),
)
def test_a_record_beyond_its_limits_is_a_mistake_of_the_caller(parts: Any, releases: Any, more: Any) -> None:  # noqa: ANN401  wrong ones
    with pytest.raises(ValueError, match="1 to"):
        ModelRecord(parts=parts, releases=releases, **{"quantisation": None, "loader": "x", **more})


# -- the keys


def test_the_keys_of_a_machine_do_not_leave_its_process() -> None:
    signer = Machine().signer
    for leave in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="does not leave its process"):
            leave(signer)
    assert repr(signer) == f"ReceiptSigner({signer.digest.hex()})"


@pytest.mark.parametrize("lifetime", [timedelta(0), -LIFETIME, MAX_LIFETIME + timedelta(seconds=1)])
def test_receipt_keys_live_for_a_limited_time(lifetime: timedelta) -> None:
    with pytest.raises(ValueError, match="at most"):
        ReceiptSigner.born((MACHINE.record,), random=stream(0), process=os.getpid, at=AT, lifetime=lifetime)


def test_a_signer_needs_models_each_once() -> None:
    for models in ((), (MACHINE.record, MACHINE.record)):
        with pytest.raises(ValueError, match="at least one model"):
            ReceiptSigner.born(models, random=stream(0), process=os.getpid, at=AT)


@pytest.mark.parametrize("late", [timedelta(seconds=-1), LIFETIME + timedelta(seconds=1)])
def test_a_signer_refuses_to_sign_outside_its_life(late: timedelta) -> None:
    machine = Machine()
    machine.now = AT + late
    with pytest.raises(VerificationError) as caught:
        machine.receipt()
    assert caught.value.code == "receipt-time-invalid"
    machine.now = AT + LIFETIME
    assert machine.receipt()


def test_a_signer_signs_no_claims_of_another_statement() -> None:
    claims = parse_receipt(MACHINE.receipt()).claims
    for changed in (replace(claims, statement=bytes(32)), replace(claims, model=bytes(32))):
        with pytest.raises(ValueError, match="another statement"):
            MACHINE.signer.sign(changed)


# -- the values of an exchange


@pytest.mark.parametrize(
    "values",
    [
        {"method": ""},
        {"method": "x" * 33},
        {"target": ""},
        {"target": "/" * 2049},
        {"target": "/\n"},
        {"challenge": bytes(7)},
        {"challenge": bytes(65)},
    ],
    ids=str,
)
def test_an_exchange_that_a_receipt_cannot_describe_does_not_begin(values: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"characters|bytes"):
        MACHINE.recorder().begin(**{"method": "POST", "target": "/v1", **values})


def test_an_issuer_beyond_the_limits_is_refused() -> None:
    with pytest.raises(ValueError, match="issuer"):
        MACHINE.recorder(issuer="x" * 513)


def test_an_exchange_ends_once_and_with_a_response() -> None:
    exchange = MACHINE.recorder().begin(method="POST", target="/v1")
    with pytest.raises(ValueError, match="response has begun"):
        exchange.end(complete=True)
    exchange.respond(204, "")
    assert exchange.end(complete=True)
    with pytest.raises(ValueError, match="ends once"):
        exchange.end(complete=True)


def test_a_media_type_that_a_receipt_cannot_hold_is_left_out() -> None:
    exchange = MACHINE.recorder().begin(method="POST", target="/v1", media_type="x" * 256)
    exchange.respond(200, "text/\x00")
    claims = parse_receipt(exchange.end(complete=True)).claims
    assert (claims.request.media_type, claims.response.media_type) == ("", "")


def test_parameters_are_those_of_the_request_and_simple_ones_alone() -> None:
    exchange = MACHINE.recorder().begin(method="POST", target="/v1")
    exchange.sampled(
        (
            *parameters_of(REQUEST),
            ("top_p", 1e-7),
            ("max_tokens", None),
            ("stop", ["x"]),
            ("n", [1]),
            ("top_k", 1 << 60),
            ("min_p", "x" * 300),
        )
    )
    exchange.respond(200, "")
    claims = parse_receipt(exchange.end(complete=True)).claims
    assert dict(claims.sampling) == {
        "max_tokens": "null",
        "model": '"tiny"',
        "seed": "42",
        "stream": "true",
        "temperature": "0.7",
        "top_p": "1e-7",
    }


@pytest.mark.parametrize("body", [b"", b"[1]", b'{"a":1,"a":2}', b"\xff", b"{"])
def test_a_body_that_is_no_json_object_has_no_parameters(body: bytes) -> None:
    assert parameters_of(body) == ()


def test_an_exchange_that_begins_with_another_model_gets_no_receipt_although_the_first_one_is_back_at_its_end() -> None:
    machine = Machine()
    loaded = record_of(*machine.models, loader="another loader")
    recorder = machine.recorder(current=lambda: loaded)
    with pytest.raises(VerificationError) as refusal:
        recorder.begin(method="POST", target="/v1")
    assert refusal.value.code == "receipt-model-changed"
    assert machine.signer.number() == 0  # what does not begin takes no number


def test_a_forked_process_has_no_receipt_keys() -> None:
    """Two processes would count alike, so that an honest machine contradicts itself."""
    processes = [1]
    signer = ReceiptSigner.born((MACHINE.record,), random=stream(0), process=lambda: processes[-1], at=AT)
    claims = replace(parse_receipt(MACHINE.receipt()).claims, statement=signer.digest)
    assert signer.number() == 0
    assert signer.sign(claims)
    processes.append(2)
    for use in (signer.number, lambda: signer.sign(claims)):
        with pytest.raises(RuntimeError, match="each process"):
            use()
