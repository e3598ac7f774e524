"""The encrypted channel of the page against the Python gateway: what it sends, what it believes, what it notices."""

import base64
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, cast

import pytest

from attest.channel import ChannelKey, KeyDocument, KeyOffer
from attest.release.sealed_key import KEM_HYBRID, KEM_X25519
from attest_simulator.revocation_lists import simulated_crl
from tests.channel.support import AUDIENCE, AUTHORITY, WORLD, Service, offer_of
from tests.channel.test_served import SECRET, Site, serving, site_of
from tests.page.browser import Verifier
from tests.samples import AT

pytestmark = pytest.mark.loopback
HYBRID, CURVE = [KEM_HYBRID], [KEM_X25519]
CRL = base64.b64encode(simulated_crl(WORLD.guest.chip.product, at=AT)).decode()
CERTIFICATES = [base64.b64encode(one).decode() for one in WORLD.guest.chip.certificates()]

PREPARE_CHANNEL = """
async () => {
    const { Channel, askForKeys, recordOf } = await import("/channel.js");
    const { verifyEvidence } = await import("/verifier.js");
    const text = async (content) => {
        let all = "";
        const decoder = new TextDecoder("latin1");
        for await (const piece of content) all += decoder.decode(piece, { stream: true });
        return all;
    };
    globalThis.channelTest = async ({ url, at, files, audience, authority, kems, affirmed, asks, renews, later }) => {
        const endorsements = files.map((file) => attest.bytesOf(file));
        const fetched = [];
        let now = at;
        const way = {
            audience, authority, kems, now: () => now,
            fetch: (where, how) => {
                fetched.push([how.method ?? "GET", new URL(where).pathname]);
                if (how.body) globalThis.lastSent = [where, how];
                return fetch(where, how);
            },
            verify: (evidence, binding, at) =>
                verifyEvidence(evidence, { at, binding, endorsements, anchors: "simulation" }),
        };
        const prove = async () => recordOf(await askForKeys(url, way), affirmed, kems);
        const answers = [];
        try {
            const channel = new Channel(url, way, renews ? prove : async () => undefined);
            channel.hold(await prove());
            for (const { content, size, ...request } of asks) {
                now += later;
                const body = size ? new Blob([new Uint8Array(size).fill(7)]) : new TextEncoder().encode(content ?? "");
                const answer = await channel.send({ ...request, content: body });
                const told = { status: answer.status, fields: answer.fields, key: answer.key };
                answers.push(told);
                told.content = await text(answer.content);
            }
            return JSON.stringify({ answers, fetched });
        } catch (error) {
            return JSON.stringify({ answers, fetched, code: error.code ?? `${error}`, message: error.message });
        }
    };
}
"""
ASK = {
    "method": "POST",
    "path": "/v1/ask?k=5",
    "fields": [["content-type", "text/plain"]],
    "content": "what is in the contract?",
}
COUNT = {"method": "GET", "path": "/v1/count?n=400"}


@contextmanager
def channel_site(service: Service | None = None) -> Iterator[Site]:
    """A service that a page of another origin may ask."""
    made = site_of()
    if service is not None:
        made.service = service
        made.gateway._gateway = service.gateway  # noqa: SLF001  the site is made for another
    with serving(_allowing_others(made.wire)) as made.port:
        yield made


def _allowing_others(inner: Callable[..., Any]) -> Callable[..., Any]:
    allowed = [(b"access-control-allow-origin", b"*"), (b"access-control-allow-headers", b"content-type, incremental")]

    async def application(scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401  of ASGI
        async def writing(message: Any) -> None:  # noqa: ANN401  of ASGI
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *allowed]}
            await send(message)

        if scope["type"] == "http" and scope["method"] == "OPTIONS":
            await writing({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})
        else:
            await inner(scope, receive, writing)

    return application


@pytest.fixture(scope="module")
def page(in_browser: Verifier) -> Verifier:
    in_browser.page.evaluate(PREPARE_CHANNEL)
    return in_browser


@pytest.fixture
def own() -> Iterator[Site]:
    with channel_site() as made:
        yield made


def send(page: Verifier, where: Site, *asks: dict[str, Any], **changes: Any) -> dict[str, Any]:  # noqa: ANN401
    """Prove the service, and send it requests one after the other."""
    told = {
        "url": where.url,
        "at": int(AT.timestamp() * 1000),
        "files": [CRL, *CERTIFICATES],
        "audience": AUDIENCE,
        "authority": AUTHORITY,
        "kems": HYBRID,
        "affirmed": True,
        "renews": True,
        "later": 0,
        "asks": list(asks or [ASK]),
    }
    answered: str = page.page.evaluate("(told) => channelTest(told)", told | changes)
    return cast("dict[str, Any]", json.loads(answered))


# -- it works


def test_a_question_is_answered_and_nobody_on_the_way_reads_it(page: Verifier, own: Site) -> None:
    found = send(page, own, ASK, COUNT)
    asked, counted = found["answers"]
    assert (asked["status"], json.loads(asked["content"])) == (201, {"asked": ASK["content"], "k": "5"})
    assert counted["content"].count(SECRET.decode()) == 400
    assert asked["key"] == {"id": 0, "digest": own.service.key.document.digest.hex()}
    wire = bytes(own.wire.seen)
    assert b"ohttp-gateway" in wire
    for plain in (SECRET, b"what is in the contract", b"/v1/ask", b"/v1/count"):
        assert plain not in wire


def test_one_proof_is_enough_until_it_ends(page: Verifier, own: Site) -> None:
    assert [way for way in send(page, own, ASK, ASK)["fetched"] if "attest-channel" in way[1]] == [
        ["GET", "/.well-known/attest-channel"]
    ]
    ended = send(page, own, ASK, later=5 * 60 * 1000)
    assert (ended["code"], ended["answers"]) == ("channel-record-expired", [])
    assert [way for way in ended["fetched"] if way[0] == "POST"] == []


def test_an_upload_of_megabytes_arrives_whole(page: Verifier, own: Site) -> None:
    (told,) = send(page, own, {"method": "PUT", "path": "/v1/upload", "size": 3 << 20})["answers"]
    assert told["content"] == str(3 << 20)


def test_lengths_say_no_more_than_their_bucket(page: Verifier, own: Site) -> None:
    lengths = set()
    for content in ("no", "yes, as far as anybody knows"):
        before = len(own.wire.seen)
        send(page, own, ASK | {"content": content})
        lengths.add(len(own.wire.seen) - before)
    assert len(lengths) == 1


@pytest.mark.parametrize("offered", [HYBRID, CURVE, CURVE + HYBRID])
def test_what_is_not_accepted_is_not_sealed_to(page: Verifier, offered: list[int]) -> None:
    service = Service(key=ChannelKey.born(random=os.urandom, at=AT, kems=offered))
    with channel_site(service) as where:
        found = send(page, where)
        assert found.get("code") == (None if KEM_HYBRID in offered else "channel-keys-unsupported")
        allowed = send(page, where, kems=CURVE + HYBRID)
        assert [one["status"] for one in allowed["answers"]] == [201]


# -- who is sent nothing


def not_asked(found: dict[str, Any]) -> bool:
    return all(how == "GET" for how, _ in found["fetched"]) and found["answers"] == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"affirmed": False}, "not-affirmed"),
        ({"audience": "another.example/prod"}, "binding-audience-mismatch"),
        ({"files": CERTIFICATES}, "crl-missing"),
        ({"at": int((AT + timedelta(days=400)).timestamp() * 1000)}, "crl-expired"),
    ],
)
def test_a_machine_that_does_not_conform_is_sent_nothing(
    page: Verifier, own: Site, changes: dict[str, Any], code: str
) -> None:
    found = send(page, own, **changes)
    assert found["code"] == code
    assert not_asked(found)


def offering(own: Site, made: Callable[[KeyDocument, bytes], KeyOffer]) -> None:
    own.gateway._offer = made  # noqa: SLF001  what a dishonest service would be built with


def test_keys_that_somebody_put_there_are_not_believed(page: Verifier, own: Site) -> None:
    theirs = ChannelKey.born(random=os.urandom, at=AT).document
    offering(own, lambda document, nonce: replace(offer_of(document, nonce), keys=theirs.to_bytes()))
    found = send(page, own)
    assert found["code"] == "channel-keys-mismatch"
    assert not_asked(found)


def test_evidence_of_another_moment_or_purpose_is_not_believed(page: Verifier, own: Site) -> None:
    offering(own, lambda document, _: offer_of(document, bytes(32)))
    assert send(page, own)["code"] == "nonce-mismatch"
    offering(own, lambda document, nonce: offer_of(document, nonce, context="kms-release/v1"))
    assert send(page, own)["code"] == "binding-context-mismatch"
    offering(own, lambda document, nonce: offer_of(document, nonce, role="workload"))
    found = send(page, own)
    assert found["code"] == "binding-role-mismatch"
    assert not_asked(found)


def _with_keys(keys: bytes, document: KeyDocument, nonce: bytes) -> KeyOffer:
    return replace(offer_of(document, nonce), keys=keys)


def test_every_cut_and_flipped_byte_of_a_key_document_is_refused(page: Verifier, own: Site) -> None:
    whole = own.service.key.document.to_bytes()
    for at in (0, 2, 3, 5, 700, len(whole) - 9, len(whole) - 1):
        altered = bytearray(whole)
        altered[at] ^= 1
        for keys in (bytes(altered), whole[:at], whole + whole[: at + 1]):
            offering(own, partial(_with_keys, keys))
            found = send(page, own)
            assert found["code"] in {"channel-keys-mismatch", "channel-keys-malformed"}
            assert not_asked(found)


# -- what is noticed


def test_a_relay_that_alters_cuts_swaps_or_repeats_an_answer_is_noticed(page: Verifier, own: Site) -> None:
    def flipped(body: bytes) -> bytes:
        return body[:-1] + bytes((body[-1] ^ 1,)) if body else body

    own.wire.alter = lambda body: body if b'"evidence"' in body else flipped(body)
    assert send(page, own)["code"] == "channel-not-opened"
    own.wire.alter = lambda body: body if b'"evidence"' in body else body[:-30]
    assert send(page, own)["code"] in {"channel-truncated", "channel-not-opened"}
    own.wire.alter = lambda body: body if b'"evidence"' in body else body + body
    assert send(page, own)["code"] in {"channel-not-opened", "channel-chunk-invalid", "channel-truncated"}
    own.wire.alter = lambda body: body if b'"evidence"' in body else b""
    assert send(page, own)["code"] == "channel-truncated"


def test_an_answer_that_breaks_off_is_never_taken_for_whole(page: Verifier, own: Site) -> None:
    found = send(page, own, {"method": "GET", "path": "/v1/break"})
    assert found["code"] == "channel-truncated"
    # A browser that is late gives none of what came before the end.
    assert [one["status"] for one in found["answers"]] in ([], [200])


def test_a_recorded_request_is_not_answered_again(page: Verifier, own: Site) -> None:
    assert send(page, own)["answers"]
    again = page.page.evaluate(
        """async () => {
            const answer = await fetch(...lastSent);
            return [answer.status, (await answer.arrayBuffer()).byteLength];
        }"""
    )
    # It is answered inside the encryption, where whoever repeats it cannot read, and with the one length of refusals.
    assert again[0] == 200
    assert 1024 < again[1] < 1200


def test_a_request_for_another_service_is_refused_inside(page: Verifier, own: Site) -> None:
    (told,) = send(page, own, authority="other.example")["answers"]
    assert told["status"] == 421
    assert ["attest-refused", "authority-unknown"] in told["fields"]


def test_with_stale_evidence_it_asks_anew_once_and_not_where_the_machine_is_trusted_no_more(
    page: Verifier, own: Site
) -> None:
    def forgetting(body: bytes) -> bytes:
        if b'"evidence"' in body and own.offers in forgotten:
            own.service.key.proofs.__init__()  # type: ignore[misc]  # as though it had given out too much since
        return body

    own.wire.alter, forgotten = forgetting, {1, 3}
    found = send(page, own)
    assert [one["status"] for one in found["answers"]] == [201]
    asked = [where.rpartition("/")[2] for _, where in found["fetched"]]
    assert asked == ["attest-channel", "ohttp-gateway", "attest-channel", "ohttp-gateway"]
    found = send(page, own, renews=False)
    assert found["code"] == "channel-record-expired"
    assert len(found["fetched"]) == 2


def test_with_a_clock_that_is_off_it_asks_once_more_with_the_services_date(page: Verifier, own: Site) -> None:
    own.clock.at = AT + timedelta(minutes=4)
    found = send(page, own)
    assert [one["status"] for one in found["answers"]] == [201]
    assert [way[0] for way in found["fetched"]] == ["GET", "POST", "POST"]


def test_who_says_no_in_the_clear_is_not_believed(page: Verifier, own: Site) -> None:
    own.service.gateway.replace_key(ChannelKey.born(random=os.urandom, at=AT, first_id=9), at=AT)
    own.wire.alter = lambda body: body if b'"evidence"' in body else b"<b>trust me</b>"
    found = send(page, own)
    assert found["code"].startswith("channel-")
    assert "trust me" not in json.dumps(found)
