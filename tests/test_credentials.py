"""The quick look at a text misses none of the credentials that the slow one finds."""

from __future__ import annotations

import pytest

from wiredecode.fields import credentials
from wiredecode.protocols.cursus import layers_kinds

TEXTS = (
    *("https://maria:geheim@host", "maria:geheim@host", "eyJhbGciOiJIUzI1NiJ9.e30.x", "Bearer abc", "BASIC abc"),
    *(
        "Negotiate abc",
        "digest abc",
        "ApiKey abc",
        "api key: abc",
        "account_key=abc",
        "Access-Key: abc",
        "shared.key=abc",
    ),
    *(
        "privatekey=abc",
        "-----BEGIN RSA PRIVATE KEY-----\nabc",
        "PassWord=abc",
        "pswd=abc",
        "pwd->abc",
        "token is abc123",
    ),
    *("SECRET(abc)", "jwt=abc", "credentials: abc", "creds=abc", "session=abc", "Cookie: abc", "signature=abc"),
    *("kennwort=abc", "pw=abc", "sig=abc", "sas=abc", "auth: abc", "ghp_" + "a1" * 10, "gho_" + "a1" * 10),
    *("ghs_" + "a1" * 10, "ghu_" + "a1" * 10, "ghr_" + "a1" * 10, "github_pat_" + "a1" * 10, "glpat-" + "a1" * 10),
    *("xoxb-" + "a1" * 10, "sk_live_" + "a1" * 10, "rk_live_" + "a1" * 10, "npm_" + "a1" * 10, "hvs." + "a1" * 10),
    *("AIza" + "a1" * 10, "AKIA" + "A1" * 10, "ASIA" + "A1" * 10, "SG." + "a1" * 10, "SU" + "A2" * 22),
)
OF_CURSUS = ("LOGIN maria geheim", "authenticate geheim", "HELLO 3 AUTH maria geheim", "\\u0074oken", "//maria:geheim")


@pytest.mark.parametrize("text", TEXTS)
def test_no_form_of_a_credential_is_missed(text: str) -> None:
    assert credentials.is_secret_value(text), "the slow look finds it"
    assert layers_kinds.holds_credential(text.encode())


@pytest.mark.parametrize("text", OF_CURSUS)
def test_no_form_that_cursus_has_is_missed(text: str) -> None:
    assert layers_kinds.holds_credential(text.encode())


def test_a_plain_text_has_none() -> None:
    assert not credentials.may_hold("orders.eu.17 was stored at 3") and not layers_kinds.may_hold(b"orders.eu.17")
