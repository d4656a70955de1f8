"""Problems between TANK clients and brokers, partition by partition; changes, and positions of consumers."""

from collections.abc import Iterator, Mapping
from typing import Any

from wiredecode.dataclasses import dataclass
from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import short
from wiredecode.protocols.reading import values_of
from wiredecode.protocols.shared.codes import codes_of
from wiredecode.protocols.shared.gauges import LAG, POSITION, STREAM, Change, Gauge, Measurement
from wiredecode.protocols.shared.problems import Checks, Publishing, Rule
from wiredecode.protocols.shared.refusals import refusals_of
from wiredecode.protocols.tank import names
from wiredecode.protocols.tank.conversation_bundles import Topics, entries_of, outcome, result_groups, whole
from wiredecode.protocols.tank.flows import ConsumeFlows

CODES, REFUSALS = codes_of("tank"), refusals_of("tank")

# For the timeline.


def created_topic(frame: Frame) -> Iterator[Change]:
    name, result = printable(frame.values["topic"]), frame.values["result"]
    yield Change(STREAM, name, f"topic {name} is created" if not result else f"topic {name} was not created")


# For plots.


class ConsumerPositions(Gauge):
    """By the answers to Consume: where it was asked to begin, and the broker's high water mark."""

    types = frozenset({"ConsumeResponse"})

    def read(self, frame: Frame) -> Iterator[Measurement]:
        for topic in values_of(frame).get("topics") or ():
            for each in topic["partitions"]:
                begin = each.get("base_sequence_number") or frame.generated.get("sequence_number")
                last = each.get("high_water_mark")
                if begin is None or last is None:
                    continue
                of = f"{topic['topic']}[{each['partition']}] of #{frame.connection.id}"
                yield Measurement(POSITION, of, begin)
                yield Measurement(LAG, of, max(last + 1 - begin, 0))


# Rules.


@dataclass(eq=False)
class Results(Rule):
    """Results of Produce and Consume that are none of success, by partition."""

    types = frozenset({"ProduceResponse", "ConsumeResponse"})

    def frame(self, frame: Frame) -> None:
        addressed = (frame.asked and frame.asked.topics) or ()
        if frame.type == "ProduceResponse":
            self._produced(frame, addressed)
        else:
            self._consumed(frame, addressed)

    # Produce.

    def _produced(self, frame: Frame, addressed: Topics) -> None:
        results = frame.values.get("results") or ()
        if not any(isinstance(each, Mapping) and each.get("result") for each in results):
            return
        places = list(result_groups(addressed, results)) if addressed else []
        for index, each in enumerate(results):
            code = each.get("result", 0)
            if code:
                topic, partitions = places[index] if index < len(places) else ("", [])
                where = partition_text(topic, partitions[0] if len(partitions) == 1 else None)
                text = outcome(code, each.get("endpoint"), names.PRODUCE_RESULTS)
                self._report(frame, code, where, text)

    # Consume.

    def _consumed(self, frame: Frame, addressed: Topics) -> None:
        asks = {(topic, partition): number for topic, several in addressed for partition, number, _ in several}
        for topic in whole(frame.values.get("topics"), "topic"):
            if "unknown_topic" in topic:
                title = f"{partition_text(topic['topic'], None)}: unknown topic"
                self.report.add(CODES["not-read"], title, title, frame=frame)
            for _, entry in entries_of([topic]):
                self._read(frame, topic["topic"], entry, asks.get((topic["topic"], entry["partition"])))

    def _read(self, frame: Frame, topic: str, entry: Mapping[str, Any], wanted: int | None) -> None:
        code, where = entry.get("result", 0), partition_text(topic, entry["partition"])
        if code == names.BOUNDARY:
            self._boundary(frame, where, wanted, entry)
        elif code not in (0, names.SPARSE_FIRST):
            text = outcome(code, entry.get("endpoint"), names.CONSUME_RESULTS)
            self._report(frame, code, where, text)
        elif code == 0 and wanted is not None:
            self._gap(frame, where, wanted, entry)

    def _boundary(self, frame: Frame, where: str, wanted: int | None, entry: Mapping[str, Any]) -> None:
        number = "a message" if wanted is None else f"message {wanted:,}"
        have = f"the broker has {entry.get('first_available', '?')} to {entry.get('high_water_mark', '?')}"
        title = f"{short(frame.connection)} asked for {number} of {where}: {have}"
        problem = self.report.add(CODES["boundary"], title, (frame.connection.number, where), frame=frame)
        problem.alike = where
        if wanted is not None and wanted > entry.get("high_water_mark", wanted):
            problem.likely = "the position is of another topic, or of a log that was deleted since"

    def _gap(self, frame: Frame, where: str, wanted: int, entry: Mapping[str, Any]) -> None:
        first = entry.get("base_sequence_number")
        if not isinstance(first, int) or not entry.get("chunk_length") or wanted in names.STARTS or first <= wanted:
            return
        title = f"{first - wanted:,} messages of {where} are missing: {wanted:,} was asked for, {first:,} came"
        self.report.add(CODES["gap"], title, (where, wanted, first), frame=frame)

    def _report(self, frame: Frame, code: int, where: str, text: str) -> None:
        for refusal in REFUSALS.values():
            if refusal.matches(frame.type, (code,)):
                facts = {"client": short(frame.connection), "where": where, "error": text}
                refusal.report(self.report, CODES, frame, facts)


def partition_text(topic: str, partition: int | None) -> str:
    """``"orders/3"``."""
    name = printable(topic) or "(the request was not captured)"
    return name if partition is None else f"{name}/{partition}"


CHECKS = Checks(
    changes={"CreateTopicResponse": created_topic},
    gauges=(ConsumerPositions,),
    flows=(ConsumeFlows,),
    codes=CODES,
    rules=(Results,),
    waits=frozenset({"Consume"}),
    longest_wait="max_wait",
    pulled=True,
    covered=frozenset({"not-stored", "not-read"}),
    publishes=dict.fromkeys(("Produce", "ProduceWithBaseSequenceNumber"), Publishing(("topic", "targets"), "messages")),
)
