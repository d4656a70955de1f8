"""Plots as SVG, drawn by matplotlib without a screen. They contain no text from the wire: legends are on the page."""

import io
import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from wiredecode.frames.bins import Bins
from wiredecode.frames.escape import duration
from wiredecode.report.gather import PER_DOUBLING, Series, percentile

MAX_BINS = 240
"""Points of a line."""
HEAT_BINS = 160
PERCENTILES = (50, 90, 99)
MAX_LINES = 8
INK, GRID = "#010101", "#020202"
LINES = [f"#{10 + index:02d}0303" for index in range(MAX_LINES)]
"""Placeholders for the colours of the page, which has light and dark ones."""
PAGE_COLORS = {INK: "var(--ink)", GRID: "var(--grid)"} | {
    color: f"var(--line{index})" for index, color in enumerate(LINES, 1)
}
HEAT = (0xD9, 0x48, 0x0F)
"""Red, green and blue of the heat map, on light and on dark: opacity shows the count."""
WIDTH, HEIGHT = 10.0, 2.6
"""Inches, 72 points each: the page scales them."""


class Plots:
    """Draws over one span of time; ``first_ns`` is where seconds count from."""

    def __init__(self, first_ns: int, last_ns: int) -> None:
        self.first_ns, self.last_ns = first_ns, max(last_ns, first_ns + 1)
        self._count = 0

    def rates(self, bins: Bins, columns: Sequence[int], label: str) -> tuple[str, int]:
        """A line per column, per second; and how long a bin is, ns."""
        counts, width = bins.counts(MAX_BINS, self.last_ns)
        with self._axes(label) as (axes, out):
            for color, column in zip(LINES, columns, strict=False):
                self._step(axes, bins, counts[:, column] / (width / 1e9), width, color)
            axes.set_ylim(bottom=0)
        return out[0], width

    def levels(self, bins: Bins, up: int, down: int) -> str:
        """Number of open connections, from the numbers that began and ended."""
        counts, width = bins.counts(MAX_BINS, self.last_ns)
        with self._axes("connections") as (axes, out):
            opened = np.cumsum(counts[:, up]) - np.concatenate([[0], np.cumsum(counts[:-1, down])])
            self._step(axes, bins, opened, width, LINES[0])
            axes.set_ylim(bottom=0)
        return out[0]

    def percentiles(self, bins: Bins) -> tuple[str, int]:
        """Latencies: a line per percentile; and how long a bin is, ns."""
        counts, width = bins.counts(MAX_BINS // 2, self.last_ns)
        with self._axes("") as (axes, out):
            starts = self._starts(bins, len(counts), width) + width / 2e9
            for color, percent in zip(LINES, PERCENTILES, strict=False):
                values = [percentile(row, percent) or np.nan for row in counts]  # nan: the line ends there
                axes.plot(starts, np.log2(values), color=color, linewidth=1.2, marker=".", markersize=4)
            _ticks(axes, *axes.get_ylim())
        return out[0], width

    def heat(self, bins: Bins) -> str:
        """Latencies: how many of each size at each time."""
        counts, width = bins.counts(HEAT_BINS, self.last_ns)
        used = np.flatnonzero(counts.any(axis=0))
        low, high = int(used[0]) // PER_DOUBLING * PER_DOUBLING, (int(used[-1]) // PER_DOUBLING + 1) * PER_DOUBLING
        cells = counts[:, low:high].T
        image = np.zeros((*cells.shape, 4), np.uint8)
        image[..., :3] = HEAT
        strength = np.log1p(cells) / np.log1p(cells.max())
        image[..., 3] = np.where(cells > 0, 40 + 215 * strength, 0)
        with self._axes("") as (axes, out):
            start = self._starts(bins, 1, width)[0]
            doublings = (low / PER_DOUBLING, high / PER_DOUBLING)
            axes.imshow(
                image,
                origin="lower",
                aspect="auto",
                interpolation="nearest",
                extent=(start, start + len(counts) * width / 1e9, *doublings),
            )
            _ticks(axes, *doublings)
        return out[0]

    def series(self, series: Sequence[Series], label: str) -> str:
        """A line per series, which keeps its value until the next point."""
        with self._axes(label) as (axes, out):
            for color, each in zip(LINES, series, strict=False):
                seconds = [(time_ns - self.first_ns) / 1e9 for time_ns, _ in each.shown]
                axes.step(seconds, [value for _, value in each.shown], where="post", color=color, linewidth=1.2)
            axes.set_ylim(bottom=min(0, *(value for each in series for _, value in each.shown)))
        return out[0]

    def _starts(self, bins: Bins, count: int, width: int) -> Any:
        """Seconds at which bins begin."""
        return ((bins.first_ns or 0) - self.first_ns + np.arange(count) * width) / 1e9

    def _step(self, axes: Any, bins: Bins, values: Any, width: int, color: str) -> None:
        """Draw a step line that ends where the last bin does, and fill the area below it."""
        seconds = self._starts(bins, len(values) + 1, width)
        values = np.append(values, values[-1] if len(values) else 0)
        axes.step(seconds, values, where="post", color=color, linewidth=1.2)
        axes.fill_between(seconds, values, step="post", color=color, alpha=0.12, linewidth=0)

    @contextmanager
    def _axes(self, label: str) -> Iterator[tuple[Any, list[str]]]:
        """Axes to draw on; afterwards the list holds the SVG."""
        logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it reports its cache of fonts
        import matplotlib as mpl
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
        from matplotlib.ticker import FuncFormatter, MaxNLocator

        self._count += 1
        out: list[str] = []
        style: dict[Any, Any] = {
            "svg.fonttype": "none",
            "svg.hashsalt": f"plot{self._count}",
            "font.family": "sans-serif",
            "font.size": 10,
            "text.parse_math": False,
            "text.color": INK,
            "axes.labelcolor": INK,
            "axes.edgecolor": GRID,
            "xtick.color": INK,
            "ytick.color": INK,
            "grid.color": GRID,
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
        with mpl.rc_context(style):
            figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
            FigureCanvasSVG(figure)
            axes = figure.add_subplot()
            axes.grid(visible=True, linewidth=0.6)
            axes.set_axisbelow(True)
            yield axes, out
            axes.set_xlim(0, max((self.last_ns - self.first_ns) / 1e9, 1e-6))
            axes.set_xlabel("seconds since the first packet")
            if label:
                axes.set_ylabel(label)
                axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
                axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
            file = io.StringIO()
            figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        out.append(_inline(file.getvalue(), f"plot{self._count}-"))


def _inline(svg: str, prefix: str) -> str:
    """As part of a page: no head, no size, the colours of the page; ``prefix`` of its ids."""
    svg = svg[svg.index("<svg ") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' (?:width|height)="[\d.]+pt"', "", svg, count=2)
    svg = re.sub(r'( id="|href="#|url\(#)', rf"\1{prefix}", svg)
    for color, value in PAGE_COLORS.items():
        svg = svg.replace(color, value)
    return svg


def _ticks(axes: Any, low: float, high: float) -> None:
    """Marks at round latencies; the axis counts doublings of nanoseconds."""
    ticks: list[float] = []
    for steps in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8)):
        ticks = [step * 10.0**power for power in range(13) for step in steps]
        ticks = [ns for ns in ticks if low <= np.log2(ns) <= high]
        if len(ticks) >= 3:
            break
    axes.set_yticks([np.log2(ns) for ns in ticks], [duration(ns) for ns in ticks])
    axes.set_ylim(low, high)


def short(value: float) -> str:
    """``1.5 M``."""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{unit}"
    return f"{value:.4g}"
