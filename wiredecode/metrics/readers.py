"""Where metrics go: a page that Prometheus scrapes, an OTLP receiver, or a file in OpenMetrics."""

import sys
from collections.abc import Callable, Iterable, Iterator
from socket import SOCK_STREAM, getaddrinfo
from socketserver import ThreadingMixIn
from threading import Thread
from typing import Any
from urllib.parse import urlsplit
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import ObservableCounter, ObservableGauge
from opentelemetry.sdk.metrics.export import Metric, MetricReader, MetricsData, PeriodicExportingMetricReader
from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import Metric as Family
from prometheus_client.core import Sample
from prometheus_client.openmetrics.exposition import generate_latest

from wiredecode.dataclasses import dataclass, field, replace

METRICS_PATH, TRACES_PATH = "/v1/metrics", "/v1/traces"
EVERY_MS = 10_000
"""Between two exports by OTLP."""
UNBOUNDED: Any = dict.fromkeys((ObservableCounter, ObservableGauge), sys.maxsize)
"""Label sets of a metric: ``Series`` bounds them."""


class HistogramReader(MetricReader):
    """A reader that also gets histograms, which the SDK can only make of single values."""

    histograms: Callable[[], Iterable[Metric]] = tuple

    def _receive_metrics(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **more: Any) -> None:
        first, *others = metrics_data.resource_metrics
        scope, *scopes = first.scope_metrics
        scope = replace(scope, metrics=[*self.histograms(), *scope.metrics])
        whole = MetricsData([replace(first, scope_metrics=[scope, *scopes]), *others])
        super()._receive_metrics(whole, timeout_millis, **more)  # type: ignore[safe-super] # of the reader beside it


class PrometheusReader(HistogramReader, PrometheusMetricReader):
    """Shows values in a registry."""


class PeriodicReader(HistogramReader, PeriodicExportingMetricReader):
    """Sends values again and again."""


Point = tuple[tuple[tuple[str, str], ...], float, int, Sample]
"""A sample at a time: its labels without ``le``, time in seconds, place in the family."""


def prometheus() -> tuple[HistogramReader, CollectorRegistry]:
    """A reader, and the registry that shows its metrics."""
    registry = CollectorRegistry()
    return PrometheusReader(True, registry=registry, scope_info_enabled=False, cardinality_limits=UNBOUNDED), registry


PAGE = "/metrics"


class Server(ThreadingMixIn, WSGIServer):
    """A thread per request: a slow client delays no other one."""

    daemon_threads = True


class Handler(WSGIRequestHandler):
    """Logs nothing, and gives up clients that say nothing."""

    timeout = 10

    def log_message(self, *_: Any) -> None:
        """Standard error is for people."""


def serve(registry: CollectorRegistry, listen: str) -> str:
    """Serve metrics on ``ADDR:PORT`` in a thread; the address of the only page. Raises ValueError, OSError."""
    address, _, port = listen.rpartition(":")
    if not port.isdigit() or int(port) > 0xFFFF:
        raise ValueError("ADDR:PORT is needed")
    host = address.strip("[]") or "127.0.0.1"
    metrics = make_wsgi_app(registry)

    def page(environ: Any, start_response: Any) -> Any:
        if environ["PATH_INFO"] == PAGE:
            return metrics(environ, start_response)
        start_response("404 Not Found", [("Content-Type", "text/plain")])
        return [f"metrics are at {PAGE}\n".encode()]

    family = getaddrinfo(host, int(port), type=SOCK_STREAM)[0][0]
    kind: type[Server] = type("Server", (Server,), {"address_family": family})
    server = make_server(host, int(port), page, kind, Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    return f"http://{f'[{host}]' if ':' in host else host}:{server.server_port}{PAGE}"


def endpoint_of(url: str, path: str) -> str:
    """The address of a receiver of OTLP over HTTP; ``path`` is added if it has none. Raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("an address of OTLP over HTTP is needed, such as http://127.0.0.1:4318")
    return url if parts.path.strip("/") else url.rstrip("/") + path


def otlp(url: str) -> HistogramReader:
    """Send metrics to a receiver of OTLP over HTTP every ten seconds. Raises ValueError."""
    return PeriodicReader(OTLPMetricExporter(endpoint_of(url, METRICS_PATH)), EVERY_MS, cardinality_limits=UNBOUNDED)


@dataclass
class Steps:
    """Collects what a registry shows at several times; :meth:`text` is all of it in OpenMetrics."""

    registry: CollectorRegistry
    _families: dict[str, tuple[Family, list[Point]]] = field(default_factory=dict)

    def take(self, time_ns: int) -> None:
        """Values at a time, ns since 1970."""
        for family in self.registry.collect():
            _, points = self._families.setdefault(family.name, (family, []))
            for index, sample in enumerate(family.samples):
                series = tuple(sorted((name, value) for name, value in sample.labels.items() if name != "le"))
                points.append((series, time_ns / 1e9, index, sample))

    def text(self) -> bytes:
        """OpenMetrics: the values of a label set follow each other, in time order."""
        text: bytes = generate_latest(self)  # type: ignore[no-untyped-call]
        return text

    def collect(self) -> Iterator[Family]:
        """All families, as a registry has them."""
        for family, points in self._families.values():
            copy = Family(family.name, family.documentation, family.type, family.unit)
            for _, time, _, sample in sorted(points, key=lambda point: point[:3]):
                copy.add_sample(sample.name, sample.labels, sample.value, timestamp=time)
            yield copy
