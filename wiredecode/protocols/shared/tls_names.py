"""Names in TLS handshakes, as IANA registers them (tls-parameters, tls-extensiontype-values)."""

from __future__ import annotations

from wiredecode.protocols.shared.data import data_of, numbered

NAMES = data_of("shared", "tls_names.toml")
RECORDS = numbered(NAMES["records"])
MESSAGES = numbered(NAMES["messages"])
RETRY = "HelloRetryRequest"
"""Name of a ServerHello with a certain random (RFC 8446 section 4.1.3)."""
VERSIONS = {0x0300: "SSL 3.0", 0x0301: "TLS 1.0", 0x0302: "TLS 1.1", 0x0303: "TLS 1.2", 0x0304: "TLS 1.3"}
LEVELS = {1: "warning", 2: "fatal"}
ALERTS = {int(number): (name, meaning) for number, (name, meaning) in NAMES["alerts"].items()}

CIPHERS = numbered(NAMES["ciphers"])
"""Those that are decrypted, and what clients offer beside them; others show their number."""
