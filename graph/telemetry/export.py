"""Send a run's spans to an OpenTelemetry collector (OTLP over HTTP), when the standard variables ask for it.

A thread of its own derives and sends them: a slow or dead collector costs the run nothing but, at the end of the
process, `LAST_SECONDS` at most. Without the variables nothing is imported; needs the extra `tuneloop[otel]`.
"""

from __future__ import annotations

import importlib.util
import logging
import os
from functools import cache
from typing import TYPE_CHECKING

import tuneloop
from tuneloop.core.events import Event, NodeFinished, RunPaused, RunStarted
from tuneloop.core.layout import RunFolder
from tuneloop.graph.telemetry.sender import BackgroundSender
from tuneloop.graph.telemetry.spans import Span, collect_spans, trace_id

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
NEEDED = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
LAST_SECONDS = 2.0
SAY = logging.getLogger("tuneloop.tracing")
Item = tuple[RunFolder, Event, int]


def send_event(run: RunFolder, event: Event) -> None:
    """Called after `event` was appended to the run's log; returns at once."""
    if isinstance(event, NodeFinished | RunStarted | RunPaused) and is_tracing_enabled():
        sender = _sender(tuple(os.environ.get(name, "") for name in ENDPOINTS))
        if sender is not None:
            sender.put((run, event, run.events.stat().st_size))


def is_tracing_enabled() -> bool:
    """Whether the standard variables ask for traces over OTLP."""
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporters = os.environ.get("OTEL_TRACES_EXPORTER", "").strip()
    return "otlp" in exporters.split(",") if exporters else any(os.environ.get(name) for name in ENDPOINTS)


@cache
def _sender(endpoints: tuple[str, ...]) -> SpanSender | None:  # noqa: ARG001 - one sender for each place to send to
    missing = [name for name in NEEDED if not _installed(name)]
    if missing:
        SAY.warning("traces are asked for but %s is missing: pip install 'tuneloop[otel]'", missing[0])
        return None
    return SpanSender()


def _installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


class SpanSender(BackgroundSender[Item]):
    """Derives the spans of an event and exports them."""

    def __init__(self) -> None:
        # Imported here: a thread cannot while the process ends.
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        _one_line_of("opentelemetry")
        self.exporter = OTLPSpanExporter()
        self.resource = _resource()
        super().__init__("tracing", self.export, LAST_SECONDS)

    def export(self, item: Item) -> None:
        """The spans that end with this event."""
        try:
            found = [to_otel_span(span, trace_id(item[0]), self.resource) for span in collect_spans(*item)]
        except (OSError, ValueError, KeyError) as e:
            SAY.warning("a span could not be derived: %s", type(e).__name__)
            return
        if found:
            self.exporter.export(found)


def to_otel_span(span: Span, trace: int, resource: Resource) -> ReadableSpan:
    """The span in OpenTelemetry's form."""
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
    from opentelemetry.trace.status import Status, StatusCode

    def context(number: int) -> SpanContext:
        return SpanContext(trace, number, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))

    return ReadableSpan(
        name=span.name,
        context=context(span.id),
        parent=context(span.parent) if span.parent is not None else None,
        resource=resource,
        attributes=dict(span.facts),
        kind=SpanKind.INTERNAL,
        status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.OK),
        start_time=int(span.begin.timestamp() * 1e9),
        end_time=int(max(span.begin, span.end).timestamp() * 1e9),
        instrumentation_scope=InstrumentationScope("tuneloop", tuneloop.__version__),
    )


def _resource() -> Resource:
    from opentelemetry.sdk.resources import Resource

    name = os.environ.get("OTEL_SERVICE_NAME") or "tuneloop"
    return Resource.create({"service.name": name, "service.version": tuneloop.__version__})


def _one_line_of(library: str) -> None:
    """A collector that is away is worth one line, not one an export."""
    logger = logging.getLogger(library)
    if not logger.handlers and not logging.getLogger().handlers:
        logger.addHandler(FirstRecordHandler())
        logger.propagate = False


class FirstRecordHandler(logging.Handler):
    """Passes the first record on."""

    said = False

    def emit(self, record: logging.LogRecord) -> None:
        """One line on stderr."""
        if not self.said:
            self.said = True
            SAY.warning("traces do not arrive; the run goes on without: %s", record.getMessage()[:200])
