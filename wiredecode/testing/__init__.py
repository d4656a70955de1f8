"""Tests that every protocol has to pass, for this package and for those that add a protocol (docs/add-a-protocol.md).

Nothing of wiredecode imports this; users of the kit import pytest.
"""

from wiredecode.testing import asserts as asserts
from wiredecode.testing.dissection import Result as Result
from wiredecode.testing.dissection import dissect as dissect
from wiredecode.testing.dissection import meaning as meaning
from wiredecode.testing.kit import BlockTests as BlockTests
from wiredecode.testing.kit import Case as Case
from wiredecode.testing.kit import ProtocolTests as ProtocolTests
from wiredecode.testing.packets import Talk as Talk
from wiredecode.testing.packets import batches as batches
from wiredecode.testing.parity import readers_agree as readers_agree
from wiredecode.testing.samples import build as build
from wiredecode.testing.samples import samples as samples
from wiredecode.testing.segments import Part as Part
from wiredecode.testing.segments import craft as craft
from wiredecode.testing.segments import dialogue as dialogue
from wiredecode.testing.segments import every as every
