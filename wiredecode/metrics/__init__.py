"""OpenTelemetry: what ``stats`` and ``check`` count as instruments, the hops of ``trace`` as spans."""
