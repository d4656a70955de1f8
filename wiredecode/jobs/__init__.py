"""Several processes on one capture (docs/architecture.md, "Several cores").

Each reads the capture, keeps its own connections (:mod:`wiredecode.net.share`) and tells the others which packets
completed its frames: so all know the number of each frame before it is decoded. The rows go to the process that
started them, which puts them in order and writes them.
"""

from __future__ import annotations


class Unsplittable(Exception):
    """Only one process can read this capture; ``str()`` says why."""
