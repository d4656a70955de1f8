"""Target of an export: a format, a name or standard output, one file or a folder of files."""

from pathlib import Path
from typing import BinaryIO

from wiredecode.dataclasses import dataclass
from wiredecode.extras import need

SUFFIXES = {
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".json": "json",
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".arrows": "arrows",
}
FORMATS = tuple(dict.fromkeys(SUFFIXES.values()))
TEXT = ("ndjson", "json", "csv")
STREAMS = ("ndjson", "json", "csv", "arrows")
"""Formats that can be read while they are written: what standard output is given."""
PACKED = {".gz": "gzip", ".zst": "zstd"}
"""Endings of text that is compressed."""
COMPRESSIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(TEXT, ("gzip", "zstd")),
    "parquet": ("zstd", "snappy", "gzip", "lz4", "none"),
    **dict.fromkeys(("arrow", "arrows"), ("lz4", "zstd", "none")),
}
"""Codecs of each format. Default: zstd for Parquet, none for others."""


class ExportError(ValueError):
    """The request cannot be fulfilled; ``str()`` is one line for people."""


@dataclass(frozen=True)
class OutputFormat:
    """A format, and how it is compressed."""

    name: str
    compression: str | None = None

    @property
    def is_text(self) -> bool:
        return self.name in TEXT

    @property
    def suffix(self) -> str:
        """Suffix of file names."""
        packed = {value: key for key, value in PACKED.items()}
        return f".{self.name}" + (packed.get(self.compression or "", "") if self.is_text else "")


def output_format(out: str, chosen: str | None = None, compression: str | None = None) -> OutputFormat:
    """The format for a name. ``chosen`` and ``compression`` override what the name ends in. Raises ExportError."""
    path = Path(out)
    packed = PACKED.get(path.suffix.lower())
    name = chosen or SUFFIXES.get((path.with_suffix("") if packed else path).suffix.lower())
    formats = ", ".join(FORMATS)
    if name is None:
        raise ExportError(f"the name {out!r} shows no format; say --format ({formats})")
    if name not in FORMATS:
        raise ExportError(f"no format is called {name!r}; there is {formats}")
    if packed and name not in TEXT:
        raise ExportError(f"{name} is compressed inside, so its name cannot end in {path.suffix}; use --compression")
    compression = compression or packed
    if compression is not None and compression not in (*COMPRESSIONS[name], "none"):
        raise ExportError(f"{name} cannot be compressed with {compression!r}; there is {', '.join(COMPRESSIONS[name])}")
    if compression == "none" and name in TEXT:
        compression = None
    return OutputFormat(name, compression)


def check_folder(file: Path) -> None:
    """Raises ExportError if there is no folder to write the file into."""
    if not file.resolve().parent.is_dir():
        raise ExportError(f"there is no folder {file.parent} to write {file.name} into")


def compressing(stream: BinaryIO, form: OutputFormat) -> BinaryIO:
    """A stream that compresses into ``stream``, which closing it leaves open. Raises extras.NotInstalled."""
    if form.compression == "gzip":
        import gzip

        return gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=6, mtime=0, filename="")  # type: ignore[return-value]
    if form.compression == "zstd":
        need("zstandard", "compressing with zstd")
        import zstandard

        compressor: BinaryIO = zstandard.ZstdCompressor().stream_writer(stream, closefd=False)
        return compressor
    return stream
