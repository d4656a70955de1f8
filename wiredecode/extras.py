"""Packages that only some users need: whether they are there, and what brings them."""

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
    "opentelemetry": "metrics",
    "prometheus_client": "metrics",
    "pyiceberg": "iceberg",
    "pyspark": "spark",
    "s3fs": "remote",
    "sqlalchemy": "iceberg",
    "textual": "ui",
    "textual_serve": "web",
}
"""By the module that is imported: the extra in pyproject.toml."""


class Unusable(ImportError):
    """An installed package that adds something cannot be used; the text is for users."""


class NotInstalled(ModuleNotFoundError):
    """A package that only some users need is not there; the text says to users what to install."""


def install(extra: str) -> str:
    """Command to install an extra; not by name, as the name is not registered: anyone could take it."""
    return f"pip install '.[{extra}]' in a clone"


def installed(module: str) -> bool:
    """Whether a module is there; it is not imported."""
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def need(module: str, what: str) -> None:
    """Before ``what`` imports a module. Raises :class:`NotInstalled` where it is not there."""
    if not installed(module):
        raise NotInstalled(f"{what} needs {module}, which is not installed: {_advice(module)}", name=module)


def missing(error: ImportError) -> str | None:
    """One line about a package that is not installed, or unusable; None: the error is another one."""
    if isinstance(error, Unusable | NotInstalled):
        return str(error)
    said = re.search(r"No module named '([\w.]+)'", str(error))
    module = (error.name or (said[1] if said else "")).partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or module in ("", "wiredecode"):
        return None
    return f"{module} is needed for this, and not installed: {_advice(module)}"


def _advice(module: str) -> str:
    return install(EXTRAS[module]) if module in EXTRAS else f"pip install {module}"


def version_number() -> str:
    """``0.1.0``."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("wiredecode")
    except PackageNotFoundError:
        return "(not installed)"
