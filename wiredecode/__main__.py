"""``python -m wiredecode``."""

import sys

from wiredecode.cli import main

sys.exit(main())
