"""Cursus clients that are not let in, or not allowed to do what they ask for."""

from __future__ import annotations

from tests.check import crafted
from tests.check.cases import AUTH, FORBIDDEN, LET_IN
from tests.check.support import named


def test_a_client_that_is_not_admitted_is_an_error() -> None:
    found = crafted.cursus(AUTH, "ERROR: authentication_failed principal=alice")
    (problem,) = named(found, "cursus.authentication")
    assert (problem.severity, problem.title) == ("error", "principal alice was refused: authentication_failed")


def test_a_client_without_login_has_no_name() -> None:
    (problem,) = named(crafted.cursus("LIST", "ERROR: authentication_required"), "cursus.authentication")
    assert problem.title == "principal (none) was refused: authentication_required"


def test_a_forbidden_operation_names_the_principal_and_the_topic() -> None:
    found = crafted.cursus(AUTH, LET_IN, *FORBIDDEN)
    (problem,) = named(found, "cursus.authorization")
    assert problem.severity == "warning"
    assert "principal alice: PUBLISH to orders is not allowed: NOT_AUTHORIZED_FOR_TOPIC" in problem.title
    assert not named(found, "cursus.authentication")
