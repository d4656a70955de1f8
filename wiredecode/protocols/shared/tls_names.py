"""Names in TLS handshakes, as IANA registers them (tls-parameters, tls-extensiontype-values)."""

from __future__ import annotations

RECORDS = {20: "ChangeCipherSpec", 21: "Alert", 22: "Handshake", 23: "ApplicationData"}
MESSAGES = {
    0: "HelloRequest",
    1: "ClientHello",
    2: "ServerHello",
    4: "NewSessionTicket",
    5: "EndOfEarlyData",
    8: "EncryptedExtensions",
    11: "Certificate",
    12: "ServerKeyExchange",
    13: "CertificateRequest",
    14: "ServerHelloDone",
    15: "CertificateVerify",
    16: "ClientKeyExchange",
    20: "Finished",
    22: "CertificateStatus",
    24: "KeyUpdate",
    25: "CompressedCertificate",
}
RETRY = "HelloRetryRequest"
"""Name of a ServerHello with a certain random (RFC 8446 section 4.1.3)."""
VERSIONS = {0x0300: "SSL 3.0", 0x0301: "TLS 1.0", 0x0302: "TLS 1.1", 0x0303: "TLS 1.2", 0x0304: "TLS 1.3"}
LEVELS = {1: "warning", 2: "fatal"}
ALERTS = {
    0: ("close_notify", "the sender has said everything"),
    10: ("unexpected_message", "a message came that does not fit here"),
    20: ("bad_record_mac", "a record cannot be opened: damaged, or other keys"),
    22: ("record_overflow", "a record is too long"),
    40: ("handshake_failure", "no cipher or parameter that both sides accept"),
    41: ("no_certificate", "the client has no certificate"),
    42: ("bad_certificate", "the certificate of the other side is damaged or wrongly signed"),
    43: ("unsupported_certificate", "the certificate of the other side is of a kind that is not supported"),
    44: ("certificate_revoked", "the certificate of the other side was revoked"),
    45: ("certificate_expired", "the certificate of the other side has expired or is not valid yet"),
    46: ("certificate_unknown", "the certificate of the other side is not accepted, for some other reason"),
    47: ("illegal_parameter", "a field of the handshake has a value that it must not have"),
    48: ("unknown_ca", "the certificate of the other side is not signed by an authority that the sender trusts"),
    49: ("access_denied", "the certificate is valid, but its owner may not connect"),
    50: ("decode_error", "a message cannot be read"),
    51: ("decrypt_error", "a signature or the check of the handshake is wrong"),
    70: ("protocol_version", "no version of TLS that both sides accept"),
    71: ("insufficient_security", "the ciphers of the client are too weak for the server"),
    80: ("internal_error", "the sender failed for a reason of its own"),
    86: ("inappropriate_fallback", "the client offers less than it could: somebody may force it to"),
    90: ("user_canceled", "the sender gives up the handshake"),
    100: ("no_renegotiation", "the sender does not negotiate again"),
    109: ("missing_extension", "a mandatory extension is missing in the handshake"),
    110: ("unsupported_extension", "an extension came that was not asked for"),
    112: ("unrecognized_name", "the server has no certificate for the host that the client asks for"),
    113: ("bad_certificate_status_response", "the OCSP response is wrong"),
    115: ("unknown_psk_identity", "the server does not know the pre-shared key"),
    116: ("certificate_required", "the server wants a certificate of the client and got none"),
    120: ("no_application_protocol", "no application protocol (ALPN) that both sides speak"),
}

_CIPHERS = """
2f RSA_WITH_AES_128_CBC_SHA|33 DHE_RSA_WITH_AES_128_CBC_SHA|35 RSA_WITH_AES_256_CBC_SHA|39 DHE_RSA_WITH_AES_256_CBC_SHA
3c RSA_WITH_AES_128_CBC_SHA256|3d RSA_WITH_AES_256_CBC_SHA256|67 DHE_RSA_WITH_AES_128_CBC_SHA256
6b DHE_RSA_WITH_AES_256_CBC_SHA256|8c PSK_WITH_AES_128_CBC_SHA|8d PSK_WITH_AES_256_CBC_SHA
9c RSA_WITH_AES_128_GCM_SHA256|9d RSA_WITH_AES_256_GCM_SHA384|9e DHE_RSA_WITH_AES_128_GCM_SHA256
9f DHE_RSA_WITH_AES_256_GCM_SHA384|a8 PSK_WITH_AES_128_GCM_SHA256|a9 PSK_WITH_AES_256_GCM_SHA384
ff EMPTY_RENEGOTIATION_INFO_SCSV|5600 FALLBACK_SCSV
1301 AES_128_GCM_SHA256|1302 AES_256_GCM_SHA384|1303 CHACHA20_POLY1305_SHA256|1304 AES_128_CCM_SHA256
1305 AES_128_CCM_8_SHA256|c009 ECDHE_ECDSA_WITH_AES_128_CBC_SHA|c00a ECDHE_ECDSA_WITH_AES_256_CBC_SHA
c013 ECDHE_RSA_WITH_AES_128_CBC_SHA|c014 ECDHE_RSA_WITH_AES_256_CBC_SHA|c023 ECDHE_ECDSA_WITH_AES_128_CBC_SHA256
c024 ECDHE_ECDSA_WITH_AES_256_CBC_SHA384|c027 ECDHE_RSA_WITH_AES_128_CBC_SHA256
c028 ECDHE_RSA_WITH_AES_256_CBC_SHA384|c02b ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
c02c ECDHE_ECDSA_WITH_AES_256_GCM_SHA384|c02f ECDHE_RSA_WITH_AES_128_GCM_SHA256
c030 ECDHE_RSA_WITH_AES_256_GCM_SHA384|c035 ECDHE_PSK_WITH_AES_128_CBC_SHA|c036 ECDHE_PSK_WITH_AES_256_CBC_SHA
c09c RSA_WITH_AES_128_CCM|c09d RSA_WITH_AES_256_CCM|c09e DHE_RSA_WITH_AES_128_CCM|c09f DHE_RSA_WITH_AES_256_CCM
c0a0 RSA_WITH_AES_128_CCM_8|c0a1 RSA_WITH_AES_256_CCM_8|c0a2 DHE_RSA_WITH_AES_128_CCM_8
c0a3 DHE_RSA_WITH_AES_256_CCM_8|c0a4 PSK_WITH_AES_128_CCM|c0a5 PSK_WITH_AES_256_CCM
c0ac ECDHE_ECDSA_WITH_AES_128_CCM|c0ad ECDHE_ECDSA_WITH_AES_256_CCM|c0ae ECDHE_ECDSA_WITH_AES_128_CCM_8
c0af ECDHE_ECDSA_WITH_AES_256_CCM_8|cca8 ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
cca9 ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256|ccaa DHE_RSA_WITH_CHACHA20_POLY1305_SHA256
ccab PSK_WITH_CHACHA20_POLY1305_SHA256|ccac ECDHE_PSK_WITH_CHACHA20_POLY1305_SHA256
d001 ECDHE_PSK_WITH_AES_128_GCM_SHA256|d002 ECDHE_PSK_WITH_AES_256_GCM_SHA384
"""
CIPHERS = {
    int(number, 16): f"TLS_{name}"
    for number, name in (entry.split() for entry in _CIPHERS.strip().replace("\n", "|").split("|"))
}
"""Those that are decrypted, and what clients offer beside them; others show their number."""
