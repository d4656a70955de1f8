"""What the wire does that the document does not say, and what hostile or damaged bytes do: one test each."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest

from tests.net.craft import batches
from tests.protocols.tank_vectors import BY_NAME, VECTORS
from tests.protocols.test_tank_vectors import STYLE, conversation, decoded, frame_of
from tests.support import Part, craft, dissect, every
from wiredecode import compiler
from wiredecode.compression import cramjam_snappy as _unused  # noqa: F401
