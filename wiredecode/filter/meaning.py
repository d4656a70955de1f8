"""From the tree of a filter to its predicate: names looked up, types checked, constants folded."""

from __future__ import annotations

from wiredecode.filter import Filter
from wiredecode.filter.compare import Comparisons
from wiredecode.filter.logic import Expression, about, join, negation
from wiredecode.filter.model import Constant
from wiredecode.filter.names import Names
from wiredecode.filter.operands import Operands
from wiredecode.filter.syntax import Logic, Membership, Node, Not, Relation


def meaning(text: str, node: Node, secrets: bool, *, utc: bool) -> Filter:
    """The filter that a tree means. Raises :class:`~wiredecode.filter.FilterError`."""
    names = Names(secrets=secrets)
    return Filter(text, Meaning(Comparisons(Operands(text, names, secrets, utc=utc))).of(node), names.clock)


class Meaning:
    """Walks the logic; comparisons are made by :class:`Comparisons`."""

    def __init__(self, comparisons: Comparisons) -> None:
        self.comparisons, self.operands = comparisons, comparisons.operands

    def of(self, node: Node) -> Expression:
        if isinstance(node, Logic):
            return join(node.operator, [self.of(part) for part in node.parts])
        if isinstance(node, Not):
            return negation(self.of(node.part))
        self.operands.used.clear()
        found = self._comparison(node)
        return about(self.operands.used, found)

    def _comparison(self, node: Node) -> Expression:
        if isinstance(node, Relation):
            return self.comparisons.relation(node)
        if isinstance(node, Membership):
            return self.comparisons.membership(node)
        operand = self.operands.make(node, presence=True)
        if isinstance(operand, Constant):
            raise self.operands.fail("a value alone is neither true nor false: compare it with a field", node)
        return self.comparisons.present(operand, node)
