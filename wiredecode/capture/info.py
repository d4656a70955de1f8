"""Metadata of a capture besides its packets; filled while the capture is read."""

from wiredecode.dataclasses import dataclass, field

MAX_KEPT_BYTES = 32 * 1024 * 1024
"""Comments, names and secrets kept per file; what exceeds it is counted in ``FileInfo.dropped``."""
OBJECT_BYTES = 256
"""Bytes counted for each of these objects besides its text."""


@dataclass(slots=True)
class Interface:
    """Where packets were captured. A pcap file has exactly one."""

    linktype: int
    snaplen: int = 0
    """Longest captured length in bytes; 0: unlimited or unknown."""
    tsresol: int = 6
    """pcapng if_tsresol: 10 ** -n seconds, or 2 ** -(n & 0x7f) with the top bit set."""
    tsoffset: int = 0
    """Seconds to add to every time stamp (already added in ``PacketBatch.time_ns``)."""
    name: str = ""
    description: str = ""
    filter: str = ""
    os: str = ""
    file: int = 0
    """Index into ``CaptureInfo.files``."""


@dataclass(slots=True, frozen=True)
class NameRecord:
    """Names of one address from a name-resolution block."""

    address: str
    names: tuple[str, ...]


@dataclass(slots=True)
class FileInfo:
    """Metadata of one file of the capture."""

    path: str
    index: int = 0
    """Index of this file in the capture, as given: 0, 1 ..."""
    format: str = ""
    """``pcap``, ``pcap (nanoseconds)``, ``pcap (modified)`` or ``pcapng``."""
    compression: str = ""
    """``gzip``, ``zstd``, ``lz4`` or empty."""
    sections: int = 0
    """Section headers of pcapng up to here."""
    interfaces: list[Interface] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    """Comments on any block of a pcapng file."""
    name_records: list[NameRecord] = field(default_factory=list)
    secrets: list[tuple[int, bytes]] = field(default_factory=list, repr=False)
    """(secrets type, data) of decryption-secrets blocks; type 0x544c534b is a TLS key log."""
    dropped: int = 0
    """Comments, names and secrets not kept because ``MAX_KEPT_BYTES`` was reached."""
    kept_bytes: int = 0

    def clear(self) -> None:
        """Forget everything but path and index: the file is going to be read from its start."""
        for kept in (self.interfaces, self.comments, self.name_records, self.secrets):
            kept.clear()
        self.format = self.compression = ""
        self.sections = self.dropped = self.kept_bytes = 0

    def keep(self, size: int) -> bool:
        """Whether ``size`` more bytes of comments, names or secrets may be kept; counts them."""
        size += OBJECT_BYTES
        if self.kept_bytes + size > MAX_KEPT_BYTES:
            self.dropped += 1
            return False
        self.kept_bytes += size
        return True


@dataclass(slots=True)
class CaptureInfo:
    """Metadata of all files of a capture, in the order in which the files were given."""

    files: list[FileInfo] = field(default_factory=list)
    interfaces: list[Interface] = field(default_factory=list)
    """Indexed by ``PacketBatch.interface``: in order of definition, with several files of first packet."""

    @property
    def name_records(self) -> list[NameRecord]:
        return [record for file in self.files for record in file.name_records]

    @property
    def secrets(self) -> list[tuple[int, bytes]]:
        return [secret for file in self.files for secret in file.secrets]
