"""``python -m wiredecode``."""

from __future__ import annotations

import sys

from wiredecode.cli import main

sys.exit(main())
