"""Display filters: from a text such as ``rabbitmq_stream.type == "Publish" && frame.length > 100`` to a predicate.

The language is Wireshark's (docs/filters.md). A filter is evaluated at the cheapest level first: facts of the
connection, of framing, of decoding without a record, fields, records. See :class:`Filter`.
"""

from wiredecode.filter.errors import FilterError as FilterError
from wiredecode.filter.predicate import Filter as Filter
from wiredecode.filter.predicate import numbered as numbered


def compile_filter(text: str, *, secrets: bool = False, utc: bool = False) -> Filter:
    """The predicate of a display filter. ``secrets``: fields with secrets may be compared. ``utc``: times that name no
    zone are in UTC, not in that of this machine.

    Raises :class:`FilterError`, which knows the place in the text.
    """
    from wiredecode.filter.compare import Comparisons
    from wiredecode.filter.grammar import parse
    from wiredecode.filter.names import Names

    tree, names = parse(text), Names(secrets=secrets)
    comparisons = Comparisons(text, names, secrets, utc=utc)
    return Filter(text, comparisons.expression(tree), names.clock)
