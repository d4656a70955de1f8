"""Registers the kit for pytest's assertion rewriting, which must happen before its modules are imported."""

import sys

if (pytest := sys.modules.get("pytest")) is not None:
    pytest.register_assert_rewrite("wiredecode.testing.kit", "wiredecode.testing.parity")
