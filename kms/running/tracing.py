"""OpenTelemetry traces: a span for each request and for each of its stages, sent to one configured address.

Spans contain names from closed sets, a status and codes, but no path, body, key, tenant, address or error text.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Span, SpanKind, StatusCode, format_trace_id, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from requests import Session
from starlette.datastructures import Headers
from starlette.types import Scope

from attest import __version__
from attest.errors import AttestError
from kms.telemetry import Outcome, Stage

EXPORT_SECONDS: Final = 5
"""Time limit of the collector; spans that it does not accept are dropped, and no request waits for it."""
_PROPAGATOR: Final = TraceContextTextMapPropagator()
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER_METHOD: Final = "_OTHER"
_BUG: Final = "internal-error"
_SERVER_ERROR: Final = 500


def exporter_to(endpoint: str) -> SpanExporter:
    """Return an exporter of spans to this address, without a proxy of the environment."""
    session = Session()
    session.trust_env = False
    return OTLPSpanExporter(endpoint=endpoint, timeout=EXPORT_SECONDS, session=session, headers={})


def make_provider(exporter: SpanExporter, *, origin: str, percent: int) -> TracerProvider:
    """Create a provider of spans, with a thread that sends them in batches. The caller shuts it down.

    It samples ``percent`` of the traces that start here; for the trace of a caller, the caller's decision applies.
    """
    resource = Resource({"service.name": "kms", "service.namespace": origin, "service.version": __version__})
    sampler = ParentBased(TraceIdRatioBased(percent / 100))
    provider = TracerProvider(resource=resource, sampler=sampler, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


class RequestTracer:
    """Observer that makes spans of requests and their stages."""

    def __init__(self, provider: TracerProvider) -> None:
        """Create the observer."""
        self._tracer = provider.get_tracer("kms", __version__)

    @contextmanager
    def request(self, scope: Scope) -> Iterator[str | None]:
        """Span a whole request, and yield the id of its trace in hex, or None if it is not sampled.

        The span is part of the caller's trace (W3C ``traceparent``), if any.
        """
        headers = Headers(scope=scope)
        given = {name: headers[name] for name in ("traceparent",) if name in headers}
        context = _PROPAGATOR.extract(given)
        with self._tracer.start_as_current_span(
            _method(scope),
            context=context,
            kind=SpanKind.SERVER,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            span.set_attribute("http.request.method", _method(scope))
            kept = span.get_span_context().trace_flags.sampled
            yield format_trace_id(span.get_span_context().trace_id) if kept else None

    def answered(self, scope: Scope, route: str, status: int) -> None:
        """Complete the span of the current request with its route and status."""
        span = get_current_span()
        span.update_name(f"{_method(scope)} {route}")
        span.set_attribute("http.route", route)
        span.set_attribute("http.response.status_code", status)
        if status >= _SERVER_ERROR:
            span.set_status(StatusCode.ERROR)

    @contextmanager
    def stage(self, name: Stage, *, tee: str | None) -> Iterator[None]:
        """Span a stage."""
        with self._tracer.start_as_current_span(
            f"kms.{name}", record_exception=False, set_status_on_exception=False
        ) as span:
            if tee is not None:
                span.set_attribute("kms.tee", tee)
            try:
                yield
            except BaseException as exc:
                _mark(span, exc)
                raise

    def decided(self, outcome: Outcome, code: str) -> None:
        """Complete the current span with the outcome of the request for keys."""
        span = get_current_span()
        span.set_attribute("kms.outcome", outcome)
        span.set_attribute("kms.code", code)

    def state_refused(self, code: str) -> None:
        """Mark the current span."""
        get_current_span().set_attribute("kms.state", code)


def _method(scope: Scope) -> str:
    """Return an HTTP method, or a placeholder for an unknown one."""
    method: str = scope["method"]
    return method if method in _METHODS else _OTHER_METHOD


def _mark(span: Span, error: BaseException) -> None:
    """Record the failure of a stage with its code, but not its text, which may contain input of a caller."""
    span.set_status(StatusCode.ERROR)
    span.set_attribute("error.type", error.code if isinstance(error, AttestError) else _BUG)
