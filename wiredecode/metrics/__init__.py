"""Metrics of traffic for Prometheus and OTLP: what ``stats`` and ``check`` count, as OpenTelemetry instruments."""
