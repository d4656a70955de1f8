"""Numbers that clients give their messages: some come after later ones, or are left out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from string import digits
from typing import Any, NamedTuple

from wiredecode.check.flows.ids import UNIQUE, Contents, Fields, Made, samples_in, service_name
from wiredecode.check.flows.view import FEW, MANY, MOST, WHILE_NS, FlowView, are_whole, total, whose
from wiredecode.flows.table import ClientFlow, Topic, grouped
from wiredecode.frames.escape import counted
from wiredecode.protocols.shared.flows import STRING, text_of


def is_turn(late: Sequence[int], count: int) -> bool:
    """Whether some of ``count`` messages, at these places, come too late since a time, and none did for long before."""
    return len(late) >= FEW and late[0] >= MANY and len(late) * MANY >= count - late[0]


def sources(view: FlowView, topic: Topic) -> list[ClientFlow]:
    """Publishers with samples that get no messages themselves: what they publish is theirs."""
    return [each for each in topic.publishers if each.flow.samples and whose(each.party) not in view.came]


def overtaken(contents: Contents) -> None:
    """A client numbers its messages, and since a time later ones come before earlier ones."""
    view = contents.view
    by_client: dict[tuple[str, str, str], list[tuple[str, Made, int, int, str]]] = {}
    for topic in contents.topics:
        for (client, _), sides in grouped(
            sources(view, topic), lambda side: (whose(side.party), side.flow.key.partition)
        ).items():
            if (found := turn_of(contents.fields(sides))) is not None:
                by_client.setdefault(client, []).append((topic.subject[2], *found))
    for client, turns in by_client.items():
        of, at, _, _, name = min(turns, key=lambda each: each[1].sample.time_ns)
        late, all_since = sum(each[2] for each in turns), sum(each[3] for each in turns)
        names = of + f" and {counted(len(turns) - 1, 'other topic')}" * (len(turns) > 1)
        title = f"{at.side.party.label} publishes to {names} in another order than it numbers its messages: "
        title += f"since {view.report.seconds(at.sample.time_ns)}, {late:,} of {all_since:,} come after later ones"
        times = {"since_ns": at.sample.time_ns, "until_ns": at.side.flow.last_ns}
        problem = view.add("flow.out-of-order", title, client, [at.side], count=late, **times)
        problem.detail(f"the number is {name}; before, all came in order")
        problem.likely = "it publishes on several connections or threads at the same time, or publishes again later"


def turn_of(fields: Fields) -> tuple[Made, int, int, str] | None:
    """The first message that comes too late, how many do of all since then, and the field of their numbers."""
    for name, some in fields.items():
        made = [each for each in some if each.id[0] is None and each.id[1] < STRING]
        numbers = [each.id[1] for each in made]
        if len(made) < 2 * MANY or len(set(numbers)) < len(made):
            continue
        late = [place for place, latest in enumerate(accumulate(numbers, max)) if numbers[place] < latest]
        steps = [0 < now - before <= FEW for before, now in pairwise(numbers[: late[0]])] if late else []
        if is_turn(late, len(made)) and sum(steps) >= MOST * len(steps):
            return made[late[0]], len(late), len(made) - late[0], name
    return None


class Jump(NamedTuple):
    """Two messages that follow each other, and how many numbers lie between them."""

    before: Made
    after: Made
    left_out: int
    text: str
    """``order.no jumps from A-000091 to A-000138``."""


def never_sent(contents: Contents) -> None:
    """The numbers of a service grew at their usual rate while it published nothing: it gave messages up."""
    view = contents.view
    for topic in contents.topics:
        for service, sides in grouped(sources(view, topic), lambda side: service_name(side.party)).items():
            if samples_in(sides) < UNIQUE * total(sides) or not are_whole(sides):
                continue
            jumps = (jump_in(name, some) for name, some in contents.fields(sides).items())
            jump = next((each for each in jumps if each is not None), None)
            if jump is None:
                continue
            since_ns, until_ns, count = jump.before.sample.time_ns, jump.after.sample.time_ns, jump.left_out
            title = f"{jump.after.side.party.label} never published {count:,} messages to {topic.subject[2]}: "
            title += f"{jump.text}, after {(until_ns - since_ns) / 1e9:.1f} s without a message"
            frames = [jump.before.sample.frame, jump.after.sample.frame]
            how: Any = {"since_ns": since_ns, "until_ns": until_ns, "count": count, "frames": frames}
            view.add("flow.never-sent", title, (service, topic.subject), [jump.after.side, jump.before.side], **how)


def jump_in(name: str, some: Sequence[Made]) -> Jump | None:
    """The numbers that a service left out while it was silent, if it counts its messages one by one else."""
    if len(some) < 2 * MANY or some[0].id[0] is not None or len({each.id for each in some}) < len(some):
        return None
    texts = [text_of(each.sample, name) for each in some]
    prefixes = {text.rstrip(digits) for text in texts}
    if len(prefixes) > 1 or any(text in prefixes for text in texts):
        return None
    width = len(prefixes.pop())
    numbered = sorted((int(text[width:]), place) for place, text in enumerate(texts))
    steps = [now - before for (before, _), (now, _) in pairwise(numbered)]
    jump = max(range(len(steps)), key=lambda at: steps[at])
    first, last = numbered[jump][1], numbered[jump + 1][1]
    before, after = some[first], some[last]
    silent_ns = after.sample.time_ns - before.sample.time_ns
    one_by_one = sum(step == 1 for step in steps) >= UNIQUE * (len(steps) - 1)
    if not one_by_one or steps[jump] <= FEW or silent_ns < WHILE_NS or jump < MANY:
        return None
    usual = jump * silent_ns / max(before.sample.time_ns - some[0].sample.time_ns, 1)
    if not usual / 2 <= steps[jump] <= usual * 2:
        return None
    return Jump(before, after, steps[jump] - 1, f"{name} jumps from {texts[first]} to {texts[last]}")
