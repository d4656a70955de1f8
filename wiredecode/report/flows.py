"""Flows as a drawing: publishers left, topics in the middle, consumers right.

The page makes SVG of the places that are computed here, and escapes all names.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from wiredecode.dataclasses import dataclass, field
from wiredecode.flows import Flows
from wiredecode.flows.table import Topic, sides_of, topics_of
from wiredecode.frames.escape import escape, shorten
from wiredecode.view.screen import cut_middle

MOST = 12
"""Names of a column; the others are one."""
COLORS = 8
EDGES = 200, 495, 790
"""Where the bars of the columns begin."""
WIDTH, BAR, GAP, LINE = 1000, 10, 14, 18
TALLEST = 320
"""Height of all messages of a column."""
THINNEST = 1.5
CHARACTERS = 26, 44, 26
"""Of a name of each column."""
LEFT, MIDDLE, RIGHT = range(3)


@dataclass(slots=True, eq=False)
class FlowNode:
    """A name of a column."""

    name: str
    messages: list[int] = field(default_factory=lambda: [0, 0])
    """That come, and that leave."""
    connections: list[int] = field(default_factory=list)
    is_lost: bool = False
    """Its messages arrive nowhere."""
    color: int = 1
    top: float = 0.0
    height: float = 0.0


Link = tuple[FlowNode, FlowNode]


class Drawing:
    """The drawing of the flows of a capture; ``links``: targets on the page, by connection."""

    def __init__(self, flows: Flows, links: Mapping[int, str]) -> None:
        self._links = links
        topics = [topic for topic in topics_of(sides_of(flows)) if any(_messages(topic))]
        topics.sort(key=lambda topic: (-max(_messages(topic)), topic.subject))
        self.columns: list[dict[str, FlowNode]] = [{}, {}, {}]
        self._flows: Counter[Link] = Counter()
        arrives = any(_messages(topic)[1] for topic in topics)
        for number, topic in enumerate(topics):
            node = self._node(MIDDLE, " ".join(filter(None, (topic.subject[2], _space(topic, topics)))), number < MOST)
            node.color = number % COLORS + 1
            self._add(topic, node)
        for node in self.columns[MIDDLE].values():
            node.is_lost = arrives and node.messages[0] > 0 and not node.messages[1]
        self._choose(LEFT)
        self._choose(RIGHT)
        most = max(sum(max(each.messages) for each in column.values()) for column in self.columns)
        self._scale = TALLEST / max(most, 1)
        self.height = max(map(self._place, range(3)), default=0)

    def _node(self, column: int, name: str, is_separate: bool = True) -> FlowNode:
        return self.columns[column].setdefault(name if is_separate else "", FlowNode(name if is_separate else "others"))

    def _add(self, topic: Topic, node: FlowNode) -> None:
        for column, sides in ((LEFT, topic.publishers), (RIGHT, topic.consumers)):
            for side in sides:
                count = side.flow.messages
                if not count and (column == LEFT or not node.messages[0]):
                    continue
                end = self._node(column, side.party.label if column == LEFT else side.label)
                for each in (end, node):
                    each.messages[column == RIGHT if each is node else column == LEFT] += count
                    each.connections.append(side.party.connection)
                self._flows[(end, node) if column == LEFT else (node, end)] += count

    def _choose(self, column: int) -> None:
        """Make one of the names with few messages, and order the others as their topics are."""
        nodes = sorted(self.columns[column].values(), key=lambda each: (-max(each.messages), each.name))
        if len(nodes) > MOST:
            small, others = set(nodes[MOST - 1 :]), FlowNode(f"{len(nodes) - MOST + 1} others")
            for each in small:
                others.messages = [one + other for one, other in zip(others.messages, each.messages, strict=True)]
            flows, self._flows = self._flows, Counter()
            for (one, other), count in flows.items():
                self._flows[others if one in small else one, others if other in small else other] += count
            nodes[MOST - 1 :] = [others]
        rank = {id(each): number for number, each in enumerate(self.columns[MIDDLE].values())}
        topics = {id(node): rank.get(id(other), 0) for pair in self._flows for node, other in (pair, pair[::-1])}
        nodes.sort(key=lambda each: topics.get(id(each), 0))
        self.columns[column] = {each.name: each for each in nodes}

    def _place(self, column: int) -> float:
        """Give the names of a column their places; return the height."""
        top = float(GAP)
        for each in self.columns[column].values():
            each.height = max(max(each.messages) * self._scale, THINNEST)
            each.top = top + (LINE if column == MIDDLE else max(LINE - each.height, 0) / 2)
            top = each.top + each.height + GAP + max(LINE - each.height, 0) / 2
        return top

    def shown(self) -> dict[str, Any] | None:
        """The drawing for the page, or None."""
        if not self.columns[MIDDLE]:
            return None
        ribbons = [*self._ribbons()]
        return {
            "width": WIDTH,
            "height": round(self.height),
            "ribbons": ribbons,
            "nodes": [self._shown(column, each) for column in range(3) for each in self.columns[column].values()],
            "is_lost": any(each["is_lost"] for each in ribbons),
        }

    def _shown(self, column: int, node: FlowNode) -> dict[str, Any]:
        name, count = escape(node.name), node.messages[0] or node.messages[1]
        middle = node.top + node.height / 2 + 4
        x, anchor = ((EDGES[0] - 6, "end"), (EDGES[1] + BAR / 2, "middle"), (EDGES[2] + BAR + 6, "start"))[column]
        return {
            "x": EDGES[column],
            "y": round(node.top, 1),
            "height": round(node.height, 1),
            "bar": BAR,
            "text_x": x,
            "text_y": round(node.top - 5 if column == MIDDLE else middle, 1),
            "anchor": anchor,
            "name": cut_middle(name, CHARACTERS[column]),
            "title": shorten(name, 160),
            "count": f"{count:,}",
            "is_lost": node.is_lost or (column == RIGHT and not count),
            "href": self._target(node.connections),
        }

    def _ribbons(self) -> Iterable[dict[str, Any]]:
        """Bands between names, as wide as their messages; names of a column share their heights in order."""
        begun: dict[tuple[FlowNode, bool], float] = {}
        order = {id(node): number for column in self.columns for number, node in enumerate(column.values())}
        flows = sorted(self._flows.items(), key=lambda item: (order[id(item[0][0])], order[id(item[0][1])]))
        for (one, other), count in flows:
            width, is_second = max(count * self._scale, THINNEST), id(one) in map(id, self.columns[MIDDLE].values())
            first, last = EDGES[1 if is_second else 0] + BAR, EDGES[2 if is_second else 1]
            begin, end = begun.get((one, True), one.top), begun.get((other, False), other.top)
            begun[one, True], begun[other, False] = begin + width, end + width
            half, topic = (first + last) / 2, one if is_second else other
            yield {
                "path": f"M{first} {begin:.1f}C{half} {begin:.1f} {half} {end:.1f} {last} {end:.1f}V{end + width:.1f}"
                f"C{half} {end + width:.1f} {half} {begin + width:.1f} {first} {begin + width:.1f}Z",
                "color": topic.color,
                "is_lost": topic.is_lost or not count,
                "title": f"{escape(one.name)} → {escape(other.name)}: {count:,} messages",
                "href": self._target([each for each in one.connections if each in other.connections]),
            }

    def _target(self, connections: Iterable[int]) -> str:
        return next((self._links[each] for each in connections if each in self._links), "")


def _messages(topic: Topic) -> tuple[int, int]:
    """Published and delivered ones."""
    return sum(each.flow.messages for each in topic.publishers), sum(each.flow.messages for each in topic.consumers)


def _space(topic: Topic, topics: Iterable[Topic]) -> str:
    """The space of a topic, if the name is that of several."""
    protocol, space, name = topic.subject
    several = any(each.subject[2] == name and each.subject[:2] != (protocol, space) for each in topics)
    return f"({space})" if several and space else ""
