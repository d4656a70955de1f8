"""Packages that only some users need: whether they are there, and what brings them."""

from __future__ import annotations

import re
from importlib.util import find_spec

EXTRAS = {
    "zstandard": "zstd",
    "lz4": "lz4",
    "cryptography": "tls",
    "cramjam": "snappy",
    "deltalake": "delta",
    "duckdb": "sql",
    "fsspec": "remote",
    "jinja2": "report",
    "markupsafe": "report",
    "matplotlib": "report",
    "pyiceberg": "iceberg",
    "pyspark": "spark",
    "s3fs": "remote",
    "sqlalchemy": "iceberg",
    "textual": "ui",
}
"""By the module that is imported: the extra in pyproject.toml."""


class Unusable(ImportError):
    """An installed package that adds something cannot be used; the text is for users."""


def install(extra: str) -> str:
    """What to type to get an extra, in words that work in a clone and, once published, by name."""
    return f"pip install '.[{extra}]' in a clone, or by name: pip install 'wiredecode[{extra}]'"


def installed(module: str) -> bool:
    """Whether a module is there; it is not imported."""
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def missing(error: ImportError) -> str | None:
    """One line about a package that is not installed, or unusable; None: the error is another one."""
    if isinstance(error, Unusable):
        return str(error)
    said = re.search(r"No module named '([\w.]+)'", str(error))
    module = (error.name or (said[1] if said else "")).partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or module in ("", "wiredecode"):
        return None
    advice = install(EXTRAS[module]) if module in EXTRAS else f"pip install {module}"
    return f"{module} is needed for this, and not installed: {advice}"
