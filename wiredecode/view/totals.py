"""Totals at the end, for people, and the likely protocols of undecoded connections."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from wiredecode.capture.info import CaptureInfo
from wiredecode.extras import install, installed
from wiredecode.frames.escape import counted, escape
from wiredecode.frames.totals import Totals

if TYPE_CHECKING:
    from wiredecode.filter import Filter


MAX_ROWS = 12
"""Rows of other protocols and of reasons; the rest is counted."""
MAX_SHORT_ROWS = 3
"""Rows of other protocols in short totals."""
LABEL = 10


def totals_text(totals: Totals, *, how: str = "", verbose: bool = False, width: int = 100, shown: str = "") -> str:
    """Three aligned lines, and more where something is missing; with ``verbose`` the frames by type, too.

    ``how``: ``"interrupted"`` or ``"stopped"`` where the capture was not read to its end. ``width`` in columns.
    ``shown``: what :func:`shown_text` says, where not all frames were shown.
    """
    if totals.tcp_packets and not totals.connections and not how:  # a table of packets: nothing else was asked for
        return f"{'packets':<{LABEL}}{_packets(totals)}" + (f"\n{'shown':<{LABEL}}{shown}" if shown else "")
    rows = [("packets", _packets(totals)), ("payload", _payload(totals, verbose))]
    if how and not verbose:
        rows.pop()  # of packets that were read ahead, too: it adds up when all is read
    if how == "interrupted":
        rows = []  # open connections have not been accounted for
    if totals.missing:
        rows.append(("missing", f"{totals.missing:,} bytes were sent but not captured"))
    if shown:
        rows.append(("shown", shown))
    if verbose or not (shown and how):
        rows += _frames(totals, width) if verbose else [("frames", _protocols(totals))]
    rows += _others(totals, MAX_ROWS if verbose else MAX_SHORT_ROWS)
    rows += [("limits", f"{code}: reached {counted(count, 'time')}") for code, count in sorted(totals.limits.items())]
    if not how and not totals.closes:
        rows.append(("", "the bytes do not add up: please report this"))
    if not how and totals.packets and {name for name, *_ in totals.frames} <= {"tls"}:
        rows += [("hint", text) for text in _advice(totals)]
    title = {"interrupted": "interrupted; until now:", "stopped": "stopped as requested; until then:"}.get(how)
    lines = [f"{label:<{LABEL}}{text}" for label, text in rows]
    return escape_lines([title, *lines] if title else lines)


def shown_text(totals: Totals, shown: int, *, whole: bool, chosen: str) -> str:
    """Text of the frames (or packets) shown, and the total if all was read (``whole``). ``chosen``: the reason."""
    packets = totals.tcp_packets and not totals.connections
    noun, total = ("packet", totals.packets) if packets else ("frame", sum(totals.frames.values()))
    reason = chosen or "are in the time asked for"
    if not whole:
        return counted(shown, noun)
    if shown == total and not chosen:
        return ""
    if not shown:
        return f"no {noun}: none of {total:,} {reason.replace('match', 'matches').replace('are', 'is')}"
    return f"{shown:,} of {counted(total, noun)} {reason}"


def filter_hints(totals: Totals, display: Filter) -> list[str]:
    """Lines that say what a filter could not find in frames, or in one pass over them."""
    hints = []
    if totals.connections and display.chooses_packets:
        hints.append(f"only frames were looked at; pcap --summary -Y '{escape(display.text)}' lists packets")
    if totals.late_requests and "frame.outcome" in display.names:
        late = counted(totals.late_requests, "request")
        hints.append(f"{late} without an answer in the time that one pass waits (late): -2 finds the outcome")
    return [f"{'hint':<{LABEL}}{hint}" for hint in hints]


def files_text(info: CaptureInfo) -> str:
    lines = []
    for file in info.files:
        form = ", ".join(part for part in (file.format, file.compression) if part)
        names = ", ".join(interface.name or f"link type {interface.linktype}" for interface in file.interfaces)
        lines.append(f"{'file':<{LABEL}}{file.path}: {form or 'not read'}{'; ' + names if names else ''}")
        lines += [f"{'comment':<{LABEL}}{comment}" for comment in file.comments]
    return escape_lines(lines)


def escape_lines(lines: list[str]) -> str:
    return "\n".join(escape(line).rstrip() for line in lines)


def _packets(totals: Totals) -> str:
    text = f"{totals.packets:,} read, {totals.tcp_packets:,} with TCP"
    if totals.connections or not totals.tcp_packets:
        text += f" in {counted(totals.connections, 'connection')}"
    if totals.copies:
        text += f", {totals.copies:,} of them seen before at another interface"
    reasons = totals.not_decoded.most_common()
    if reasons:
        text += f"; not decoded: {_list(f'{number:,} {reason}' for reason, number in reasons)}"
    return text


def _payload(totals: Totals, verbose: bool) -> str:
    text = f"{totals.captured:,} bytes captured = {totals.framed:,} in frames + {totals.undecoded:,} undecoded"
    parts = (
        (sum(totals.other.values()), "of other protocols"),
        (totals.duplicate, "duplicate"),
        (totals.late, "late"),
        (totals.ignored, "out of stream"),
    )
    return text + "".join(f" + {size:,} {label}" for size, label in parts if size or verbose)


def _frames(totals: Totals, width: int) -> list[tuple[str, str]]:
    """Frames by protocol and type, the most frequent first, with what is not ok about some."""
    kinds: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for (protocol, kind, status), number in totals.frames.items():
        kinds[protocol][kind][status] = number
    rows = []
    for protocol, types in sorted(kinds.items()):
        whole = sum(types.values(), Counter[str]())
        rows.append(("frames", f"{whole.total():,} {protocol or 'of unknown protocol'}{_statuses(whole)}"))
        digits = len(f"{whole.total():,}")
        ordered = sorted(types.items(), key=lambda item: (-item[1].total(), item[0]))
        cells = [f"{tally.total():>{digits},} {kind or 'undecoded'}{_statuses(tally)}" for kind, tally in ordered]
        rows += [("", line) for line in _columns(cells, width - LABEL)]
    return rows or [("frames", "none")]


def _protocols(totals: Totals) -> str:
    """Frames by protocol, on one line."""
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    for (protocol, _, status), number in totals.frames.items():
        kinds[protocol][status] += number
    ordered = sorted(kinds.items(), key=lambda item: (-item[1].total(), item[0]))
    texts = (f"{tally.total():,} {name or 'of unknown protocol'}{_statuses(tally)}" for name, tally in ordered)
    return _list(texts) or "none"


def _columns(cells: list[str], width: int) -> list[str]:
    """Lay cells out in columns, downwards as ``ls`` does."""
    cell = max(map(len, cells)) + 2
    columns = max(1, (width + 2) // cell)
    height = -(-len(cells) // columns)
    return ["".join(f"{text:<{cell}}" for text in cells[row::height]).rstrip() for row in range(height)]


def _statuses(statuses: Counter[str]) -> str:
    bad = [f"{number:,} {status}" for status, number in sorted(statuses.items()) if status != "ok"]
    return f" ({', '.join(bad)})" if bad else ""


def by_number(counts: Counter[Any]) -> list[tuple[Any, int]]:
    """Keys and numbers, the largest first; equal ones by key."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _others(totals: Totals, most: int) -> list[tuple[str, str]]:
    """Protocols of other connections, as far as their first bytes show."""
    texts = []
    for (name, port), number in by_number(totals.other_connections):
        size = totals.other[name, port]
        text = f"{'unknown protocol' if name == 'unknown' else name}, {size:,} bytes" if size else "no payload"
        texts.append(f"port {port}: {text} in {counted(number, 'connection')}")
    return [("other" if not index else "", text) for index, text in enumerate(_limit(texts, most))]


def _limit(texts: list[str], most: int = MAX_ROWS) -> list[str]:
    return [*texts[:most], *([f"and {len(texts) - most} more"] if len(texts) > most else [])]


def _advice(totals: Totals) -> list[str]:
    """Why there may be nothing to show, and what to do about it."""
    from wiredecode.protocols import registry

    protocols = registry.protocols()
    names = ", ".join(f"{protocol.title} (port {_list(map(str, protocol.ports))})" for protocol in protocols)
    texts = [f"no known protocol in this capture; wiredecode knows {names}"]
    looks = {name for name, _ in totals.other}
    if "TLS" in looks:
        secrets = "--keylog" if installed("cryptography") else f"--keylog; {install('tls')}"
        texts.append(f"TLS was not decrypted: give its secrets ({secrets}), or capture after the TLS endpoint")
    ports = [port for (name, port), size in by_number(totals.other) if size and name == "unknown"]
    if ports or (totals.captured and not looks):
        port = ports[0] if ports else "PORT"
        likely = next((protocol for protocol in protocols if port in protocol.ports), None)
        name = likely.name if likely else f"PROTOCOL ({', '.join(protocol.name for protocol in protocols)})"
        texts.append(f"set the protocol of a port with -d {port}={name}")
    elif not totals.tcp_packets and totals.packets:
        texts.append("there is no TCP in it: see above what was not decoded")
    elif not totals.captured and totals.packets:
        texts.append("the TCP packets carry no payload")
    return texts


def _list(texts: Iterable[str]) -> str:
    return ", ".join(_limit(list(texts)))
