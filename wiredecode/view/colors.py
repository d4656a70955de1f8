"""The user's colour rules: ``STYLE: FILTER`` in the settings, the first one that fits a frame decides its style."""

from rich.color import ColorSystem
from rich.errors import StyleSyntaxError
from rich.style import Style

from wiredecode.filter import Filter, FilterError, compile_filter
from wiredecode.frames.escape import escape
from wiredecode.frames.frame import Frame
from wiredecode.settings import Settings, SettingsError
from wiredecode.view.theme import RESET


class ColorRules:
    """Rules in their order. ``problem``: error of a rule, which is left out; escaped."""

    def __init__(self, settings: Settings) -> None:
        self.problem = ""
        self._rules: list[tuple[str, Filter]] = []
        self.filters: list[str] = []
        for name, rule in settings.colors.items():
            style, _, text = rule.partition(":")
            try:
                Style.parse(style.strip())
                expanded = settings.expand(text.strip())
                self._rules.append((style.strip(), compile_filter(expanded)))
                self.filters.append(expanded)
            except (FilterError, SettingsError, StyleSyntaxError) as error:
                self.problem = escape(f"the colour rule {name}: {error}")

    @property
    def select(self) -> Filter | None:
        """Fits frames that some rule may fit: what has to be known of frames; None: there are no rules."""
        return compile_filter(" || ".join(f"({text})" for text in self.filters)) if self.filters else None

    def style(self, frame: Frame) -> str:
        """The style of a frame; empty: no rule fits."""
        return next((style for style, rule in self._rules if rule.matches(frame)), "")

    def paint(self, line: str, frame: Frame) -> str:
        """A line for a terminal about a frame, in the frame's style below the colours that it has."""
        style = self.style(frame)
        if not style:
            return line
        begin, _, _ = Style.parse(style).render("\0", color_system=ColorSystem.EIGHT_BIT).partition("\0")
        text = line.rstrip("\n")
        return begin + text.replace(RESET, RESET + begin) + RESET + line[len(text) :]
