"""pytest shows what the parts of a failed assertion were only in modules that it hears of before they are imported."""

import sys

if (pytest := sys.modules.get("pytest")) is not None:
    pytest.register_assert_rewrite("wiredecode.testing.kit", "wiredecode.testing.parity")
