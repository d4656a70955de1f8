"""The fast check for credentials in a text finds all that the slow one finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import in_one_test
from tests.support import capture
from wiredecode.fields import credentials
from wiredecode.protocols.cursus import layers_kinds
from wiredecode.protocols.reading import values_of

CAPTURES = Path(__file__).parent.parent / "captures"
WITH_SECRETS = (
    *("rabbitmq-stream/c43_amqp", "rabbitmq-stream/c43_authfail", "nats/02-auth", "nats/13-jetstream", "kafka/small"),
    *("liftbridge/31-lb-all-types", "cursus/stream", "cursus/txn", "pravega/errors", "tank/tank_06_produce_snappy"),
)

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
    *(start + "a1" * 10 for start in ("gldt-", "glrt-", "glcbt-", "glptt-", "glagent-", "glsoat-", "xoxe.", "xapp-")),
    *(start + "a1" * 10 for start in ("sk_test_", "rk_test_", "hvb.", "hvr.", "LTAI", "sk-proj-", "sk-ant-", "sk-or-")),
    *(
        start + "a1" * 10
        for start in ("sk-svcacct-", "hf_", "doo_v1_", "dop_v1_", "dor_v1_", "shpat_", "shpca_", "shppa_")
    ),
    *(start + "a1" * 10 for start in ("shpss_", "ya29.", "pypi-", "sq0atp-", "sq0csp-", "sq0idp-", "whsec_", "dapi")),
    *(
        start + "a1" * 10
        for start in ("ATATT3", "glc_", "glsa_", "NRAK-", "dckr_pat_", "tskey-", "dp.pt.", "pul-", "sbp_")
    ),
    *(start + "a1" * 10 for start in ("lin_api_", "figd_", "PMAK-", "AGE-SECRET-KEY-1", "123456789:AAx")),
    *("https://hooks.slack.com/services/T0/B0/a1", "https://discord.com/api/webhooks/1/a1", "PuTTY-User-Key-File-2: x"),
    *(
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\nabc",
        "$ANSIBLE_VAULT;1.1;AES256\nabc",
        "{SSHA}a1b2c3d4",
        "{sha256}a1b2c3d4",
    ),
    *("$2b$12$a1b2c3d4", "$5$a1b2c3d4", "$6$salt$a1b2c3d4", "$apr1$a1b2c3d4", "$argon2id$v=19$a1b2c3d4", "NTLM abc"),
    *("SSWS abc", 'Hawk id="x", mac="abc"', "OAuth a=abc", "AWS AKIA:abc", "Authorization: abc", "authorisation = abc"),
    *(
        r"{\"password\":\"abc\"}",
        r"{\\\"password\\\":\\\"abc\\\"}",
        "<password>abc</password>",
        "password%3Dabc",
        "otp=abc",
    ),
    *(
        "<x:UserPassword a='b'><![CDATA[abc]]></x:UserPassword>",
        r"password\u003dabc",
        'tokens": ["abc"]',
        "password := abc",
    ),
    *(
        "secret: |\n  abc",
        "set password for u = 'abc'",
        "IDENTIFIED BY 'abc123'",
        "requirepass abc123",
        "AUTH PLAIN abc123",
    ),
    *("curl -u me:abc123 h", "jdbc:oracle:thin:u/abc123@h:1521:x", "amqp%3A%2F%2Fu%3Aabc%40h", "passcode is abc123"),
    *("https://h/x?key=abc", "tls_key: abc", '<add key="Password" value="abc"/>', "PASS abc123", "LOGIN u abc123"),
    *(
        "add_user u abc",
        "change_password u 'abc'",
        "openssl -passin pass:abc",
        "htpasswd -b f u abc",
        "htpasswd -cbB f u abc",
    ),
    *("$y$j9T$a1b2c3d4", "$7$a1b2c3d4", "pbkdf2_sha256$600000$abc", "bcrypt_sha256$$2b$12$abc", "adgangskode=abc"),
    *("lösenord: abc", "passord=abc", "parola=abc", "parool=abc", "jelszó=abc", "kodeord: abc", "Şifre=abc"),
    *("Κωδικός=abc", "סיסמה=abc", "كلمة المرور: abc", "mật khẩu: abc", "гасло=abc", "รหัสผ่าน=abc", "kata sandi: abc"),
    *("AUTH default abc123", "sshpass -p abc123 ssh", "API-Key abc123"),
    *("/bot123456789:AA" + "a1" * 10, "https://x.office.com/webhook/abc", "SCRAM-SHA-256$4096:abcabcab==$x:y"),
)
HARMLESS = (
    "orders.eu.17 was stored at 3",
    "the command add_user",
    "bcrypt costs 12 $",
    "authority: h",
    "auth required",
    "aws eu-west-1",
    "task-17 of risk-3",
    "<passed>3<",
    "partition_key=7",
    "http://h/?monkey=7",
)
NAMES = (
    *("userpw", "bindPW", "pw1", "PHPSESSID", "client_assertion", "SAMLResponse", "sasl.jaas.config", "2fa", "keytab"),
    *(
        "access-code",
        "recovery_code",
        "backupCodes",
        "clientkey",
        "sshKey",
        "appKey",
        "webhook_url",
        "connStr",
        "cnonce",
    ),
    *("presigned", "mnemonic", "geheim", "senha", "pword", "pincode", "client.pem", "authorisation"),
    *(
        "ConnectionStrings__Main",
        "webhook",
        "reset_link",
        "inviteCode",
        "code_verifier",
        "securityAnswer",
        "kubeconfig",
    ),
    *(
        "id_rsa",
        "cvv",
        "connect.sid",
        "wachtwoord",
        "heslo",
        "hasło",
        "salasana",
        "lozinka",
        "contrasena",
        "пароль",
        "密码",
    ),
)
OF_CURSUS = ("LOGIN maria geheim", "authenticate geheim", "HELLO 3 AUTH maria geheim", "\\u0074oken", "//maria:geheim")


@in_one_test("text", TEXTS)
def test_no_form_of_a_credential_is_missed(text: str) -> None:
    assert credentials.is_secret_value(text), "the slow look finds it"
    assert layers_kinds.holds_credential(text.encode())


@pytest.mark.parametrize("text", OF_CURSUS)
def test_no_form_of_a_cursus_credential_is_missed(text: str) -> None:
    assert layers_kinds.holds_credential(text.encode())


@in_one_test("text", HARMLESS)
def test_a_plain_text_has_none(text: str) -> None:
    assert not credentials.is_secret_value(text)
    assert layers_kinds.holds_credential(text.encode()) == ("auth" in text), "Cursus hides everything after AUTH"


@in_one_test("text", [text for text in TEXTS if "abc" in text])
def test_no_part_of_a_credential_is_left(text: str) -> None:
    assert "abc" not in credentials.without_secrets(text, lambda found: "")


def test_kafka_settings_of_type_password_are_hidden() -> None:
    """Brokers send null for values that they mark sensitive; others are known by their names."""
    ssl = [f"ssl.{name}" for name in ("key.password", "keystore.key", "keystore.password", "truststore.password")]
    others = ("sasl.jaas.config", "delegation.token.secret.key", "password.encoder.secret", "basic.auth.user.info")
    for prefix in ("", "listener.name.sasl_ssl.scram-sha-256."):
        assert [each for each in (*ssl, *others) if not credentials.is_secret_name(prefix + each)] == []


def test_names_that_hold_credentials() -> None:
    assert [name for name in NAMES if not credentials.is_secret_name(name)] == []
    harmless = (
        "authority",
        "author",
        "partition_key",
        "monkeys",
        "power",
        "pwned",
        "content-type",
        "signal",
        "response",
    )
    assert [name for name in harmless if credentials.is_secret_name(name)] == []


@pytest.mark.parametrize("name", WITH_SECRETS)
def test_decoded_values_hold_a_secret_if_its_bytes_would_be_hidden(name: str) -> None:
    for frame in capture(CAPTURES / f"{name}.pcap").frames:
        layer = frame.layer
        if layer is not None and frame.status == "ok":
            hidden = layer.within(frame.data, 0, len(frame.data)).secret_ranges()
            assert layer.carries_secrets(values_of(frame)) == any(stop > start for start, stop in hidden), frame.number
