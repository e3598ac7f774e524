"""Traces: which spans a release has, whose trace they join, and what is never in them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

pytest.importorskip("opentelemetry.sdk", reason="the extra `otel` is not installed")

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from attest.errors import ConfigurationError
from attest.release import Challenge
from kms.api.app import create_app
from kms.api.observation import Watching
from kms.config.settings import load_settings
from kms.running.tracing import RequestTracer, make_provider
from tests.kms.process import ServedProcess
from tests.kms.support import MATERIAL, Harness, Workload
from tests.kms.test_replicas import workload_of_today
from tests.kms.test_workers import config

__all__ = ["config"]

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def client(harness: Harness, exporter: InMemorySpanExporter) -> Iterator[TestClient]:
    harness.add_key("a-telling-name")
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = RequestTracer(provider)
    watching = Watching(observers=(tracer,), tracer=tracer)
    with TestClient(create_app(harness.settings, harness.services, watching=watching)) as made:
        yield made


def release(client: TestClient, workload: Workload | None = None, **headers: str) -> tuple[int, Challenge]:
    challenge = Challenge.from_json(client.post("/v1/challenges", json={}, headers=headers).json())
    request = (workload or Workload()).request(challenge, "a-telling-name").to_json()
    return client.post("/v1/releases", json=request, headers=headers).status_code, challenge


def spans(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in exporter.get_finished_spans()}


def parent_of(span: ReadableSpan, found: dict[str, ReadableSpan]) -> str | None:
    ids = {one.context.span_id: name for name, one in found.items()}
    return None if span.parent is None else ids.get(span.parent.span_id)


def test_a_release_is_one_trace_with_a_span_for_each_stage(client: TestClient, exporter: InMemorySpanExporter) -> None:
    assert release(client)[0] == 200
    found = spans(exporter)
    root = found["POST /v1/releases"]
    for stage in ("kms.verify", "kms.decide", "kms.unwrap", "kms.log", "kms.prove"):
        assert parent_of(found[stage], found) == "POST /v1/releases", stage
        assert found[stage].context.trace_id == root.context.trace_id
    assert found["kms.wrap"].context.trace_id == root.context.trace_id
    assert parent_of(found["kms.challenge"], found) == "POST /v1/challenges"
    assert dict(root.attributes or {}) == {
        "http.request.method": "POST",
        "http.route": "/v1/releases",
        "http.response.status_code": 200,
        "kms.outcome": "allow",
        "kms.code": "released",
    }
    assert dict(found["kms.verify"].attributes or {}) == {"kms.tee": "snp"}


def test_a_refusal_is_marked_with_its_code_where_it_arose(client: TestClient, exporter: InMemorySpanExporter) -> None:
    assert release(client, Workload(audience="somebody else"))[0] == 403
    found = spans(exporter)
    verify = found["kms.verify"]
    assert verify.status.status_code is StatusCode.ERROR
    assert verify.status.description is None
    assert (verify.attributes or {})["error.type"] == "binding-audience-mismatch"
    assert (found["POST /v1/releases"].attributes or {})["kms.outcome"] == "deny"


def test_a_callers_traceparent_is_honoured_and_nonsense_is_not(
    client: TestClient, exporter: InMemorySpanExporter
) -> None:
    release(client, traceparent=PARENT)
    assert {f"{span.context.trace_id:032x}" for span in exporter.get_finished_spans()} == {TRACE}
    exporter.clear()
    for given in ("nonsense", PARENT.replace("00-", "ff-", 1), f"00-{'0' * 32}-b7ad6b7169203331-01"):
        assert client.get("/v1/identity", headers={"traceparent": given}).status_code == 200
    assert TRACE not in {f"{span.context.trace_id:032x}" for span in exporter.get_finished_spans()}
    exporter.clear()
    client.get("/v1/identity", headers={"traceparent": PARENT.removesuffix("01") + "00"})
    assert exporter.get_finished_spans() == (), "the caller does not keep it"


def test_mc_33_no_span_names_a_key_a_path_a_body_or_the_text_of_an_error(
    client: TestClient, exporter: InMemorySpanExporter
) -> None:
    _, challenge = release(client)
    release(client, Workload().with_measurement(b"\x01" * 48))
    client.get("/a/path/that/tells?token=in-the-query")
    client.request("TELLS", "/healthz")
    text = "".join(span.to_json() for span in exporter.get_finished_spans())
    for word in (
        "telling",
        "tells",
        "TELLS",
        "in-the-query",
        challenge.token,
        challenge.nonce.hex(),
        MATERIAL.hex(),
        "01" * 48,
    ):
        assert word not in text
    assert not any(span.events for span in exporter.get_finished_spans())


def test_a_part_of_the_traces_that_begin_here_may_be_left_out() -> None:
    exporter = InMemorySpanExporter()
    provider = make_provider(exporter, origin="kms.test/unit", percent=10)
    tracer = provider.get_tracer("test")
    for _ in range(400):
        tracer.start_span("one").end()
    provider.shutdown()
    kept = exporter.get_finished_spans()
    assert 5 < len(kept) < 120
    assert kept[0].resource.attributes["service.namespace"] == "kms.test/unit"


@pytest.mark.parametrize(
    "address",
    [
        "http://collector.example/v1/traces",
        "https://user:word@collector.example/v1/traces",
        "https://collector.example/v1/traces?token=x",
        "ftp://127.0.0.1/",
        "https://",
    ],
)
def test_traces_go_to_an_address_without_secret_and_not_in_the_clear(tmp_path: Path, address: str) -> None:
    flags = {"database": "d", "kek_file": tmp_path / "k", "origin": "o", "otlp_endpoint": address}
    with pytest.raises(ConfigurationError, match="otlp_endpoint"):
        load_settings(flags=flags, environ={}, config=None)


@contextmanager
def collector() -> Iterator[tuple[int, list[ExportTraceServiceRequest]]]:
    """A collector on the loopback address, as far as OTLP over HTTP goes."""
    taken: list[ExportTraceServiceRequest] = []

    class Taking(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            taken.append(ExportTraceServiceRequest.FromString(content))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Taking)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1], taken
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.loopback
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_running_service_sends_its_traces_to_the_collector(config: Path, workers: str) -> None:
    with collector() as (port, taken):
        service = ServedProcess.start(
            config, "--workers", workers, "--otlp-endpoint", f"http://127.0.0.1:{port}/v1/traces"
        )
        document = workload_of_today().request(service.challenge(), "model").to_json()
        answer = service.post("/v1/releases", document)
        assert answer is not None
        assert answer[0] == 200
        assert service.terminate() == 0
    names = {
        span.name
        for request in taken
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    }
    assert {"POST /v1/challenges", "POST /v1/releases", "kms.verify", "kms.wrap"} <= names


@pytest.mark.loopback
def test_a_collector_that_is_away_delays_nobody(config: Path) -> None:
    service = ServedProcess.start(config, "--otlp-endpoint", "http://127.0.0.1:9/v1/traces", "--drain-seconds", "1")
    service.challenge()
    assert service.terminate() == 0
