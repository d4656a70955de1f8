"""Problems with one cause as one: consequences are folded into their cause, and equal problems are joined."""

from collections.abc import Iterable

from wiredecode.frames.escape import counted
from wiredecode.protocols.shared.codes import SEVERITIES
from wiredecode.protocols.shared.problems import MAX_EVIDENCE, Problem

BEFORE_NS = 2_000_000_000
"""A consequence may be noticed this long before its cause."""


def group_by_cause(problems: Iterable[Problem]) -> list[Problem]:
    """The problems without those that another one explains: the worst first, then causes before effects."""
    unexplained = sorted(join_alike(told_once(judged(problems))), key=lambda each: (each.code.rank, each.first_ns or 0))
    for first in [each for each in unexplained if each.code.explains and each.severity != "note"]:
        if first not in unexplained:
            continue
        causes = [each for each in unexplained if each.code is first.code and each.severity != "note"]
        for effect in [*unexplained]:
            explaining = [each for each in causes if each in unexplained and explains(each, effect, causes)]
            if not explaining:
                continue
            cause = min(explaining, key=lambda each: abs((effect.first_ns or 0) - (each.first_ns or 0)))
            unexplained.remove(effect)
            cause.effects += [effect, *effect.effects]
            effect.effects = []
            if not effect.did_no_harm:
                cause.severity = min(cause.severity, effect.severity, key=SEVERITIES.index)
            if effect.code is cause.code:  # a server that stalls again and again
                cause.first_ns, cause.last_ns = span([cause, effect])
                cause.count += effect.count
    for cause in unexplained:
        if cause.code.harmless and cause.effects and all(each.is_over for each in cause.effects):
            cause.severity = cause.code.harmless
        if cause.did_no_harm:
            cause.severity = "note"
    unexplained = join_alike(unexplained, late=True)
    for cause in unexplained:
        before = () if cause.severity == cause.code.severity == "note" else cause.code.before
        later = [each for each in unexplained if each.name in before and concerns(cause, each, [cause])]
        cause.severity = min([cause.severity, *(each.severity for each in later)], key=SEVERITIES.index)
    return sorted(unexplained, key=order)


def told_once(problems: Iterable[Problem]) -> list[Problem]:
    """The problems, with those that are about the same frames below the most exact one."""
    problems = [*problems]
    for general in [each for each in problems if each.code.general]:
        frames, is_note = set(general.frames), general.severity == "note"
        same = [each for each in problems if each is not general and frames & set(each.frames)]
        exact = next(
            (each for each in same if each.severity != "note" and (not is_note or frames <= set(each.frames))), None
        )
        if exact is not None:
            exact.severity = min(exact.severity, general.severity, key=SEVERITIES.index)
            exact.effects.append(general)
            problems.remove(general)
            continue
        if is_note:
            continue
        general.effects += same
        problems = [each for each in problems if each not in same]
    return problems


def judged(problems: Iterable[Problem]) -> list[Problem]:
    """The problems, with the severity of those that did no harm."""
    problems = [*problems]
    worse = [each for each in problems if each.severity != "note" and not each.did_no_harm]
    for cause in problems:
        harm = (each for each in worse if each.name in cause.code.explains)
        near = (each for each in worse if cause.code.neighbours and explains(cause, each, [cause]))
        if cause.code.harmless and not any(each.servers & cause.servers for each in harm) and not any(near):
            cause.severity = cause.code.harmless
    return problems


def order(problem: Problem) -> tuple[int, bool, int, int, int]:
    """The worst first; then what lasts before what is over, causes before effects, the heavier before the lighter, the
    earlier before the later."""
    rank = problem.is_over, problem.code.rank, -problem.weight
    return SEVERITIES.index(problem.severity), *rank, problem.first_ns or 0


def explains(cause: Problem, effect: Problem, causes: list[Problem]) -> bool:
    """Whether ``effect`` is a consequence of ``cause``: by their codes, connections and times.

    ``causes``: all problems of the code of ``cause``, which explain connections together.
    """
    codes = {effect.code.code, effect.name}
    near = not codes.isdisjoint(cause.code.neighbours)
    if effect.code is cause.code and effect.weight >= cause.weight:
        return False
    if codes.isdisjoint(cause.code.explains) and not near:
        return False
    return concerns(cause, effect, causes, near=near)


def concerns(cause: Problem, effect: Problem, causes: list[Problem], *, near: bool = False) -> bool:
    """Whether ``effect`` may be a consequence of ``cause`` by their connections and times."""
    begin_ns, end_ns = effect.first_ns, effect.last_ns if effect.last_ns is not None else effect.first_ns
    if begin_ns is None or end_ns is None or cause.first_ns is None or cause.last_ns is None:
        return False
    if cause.code.scope == "capture":
        return begin_ns <= cause.last_ns and end_ns >= cause.first_ns
    if end_ns < cause.first_ns - BEFORE_NS:
        return False
    in_time = cause.to_end or begin_ns <= cause.last_ns + cause.code.after * 1_000_000_000
    if near and in_time and effect.users and effect.users <= cause.users:
        return True
    if cause.code.scope == "server":
        return in_time and bool(effect.servers) and effect.servers <= cause.servers
    if cause.code.scope == "path" and in_time and effect.paths and effect.paths <= cause.paths:
        return effect.severity != "note" or effect.members <= cause.members
    members = set().union(*(each.members for each in causes))
    return not effect.members.isdisjoint(cause.members) and effect.members <= members


def join_alike(problems: Iterable[Problem], *, late: bool = False) -> list[Problem]:
    """Several problems of one code that has a text for this as one, with a list; ``late``: those of single causes."""
    groups: dict[tuple[str, str, str] | Problem, list[Problem]] = {}
    for problem in problems:
        key = (
            (problem.name, problem.severity, problem.alike)
            if problem.code.several and problem.code.late == late
            else problem
        )
        groups.setdefault(key, []).append(problem)
    return [join(group) if len(group) > 1 else group[0] for group in groups.values()]


def join(parts: list[Problem]) -> Problem:
    """One problem with the evidence of all parts."""
    first = parts[0]
    servers = sorted(set().union(*(each.servers for each in parts)))
    said = {
        "alike": first.alike,
        "total": sum(each.count for each in parts),
        "servers": ", ".join(servers[:MAX_EVIDENCE]),
    }
    title = first.code.several.format(count=len(parts), **said)
    joined = Problem(first.code, first.severity, first.name, title, alike=first.alike, likely=first.likely, parts=parts)
    joined.is_over = all(each.is_over for each in parts)
    joined.did_no_harm = all(each.did_no_harm for each in parts)
    for each in parts:
        joined.detail(each.title)
        joined.count += each.count
        joined.weight = max(joined.weight, each.weight)
        joined.members |= each.members
        joined.servers |= each.servers
        joined.paths |= each.paths
        joined.users |= each.users
        joined.to_end |= each.to_end
        joined.effects += each.effects
        for numbers, more in ((joined.frames, each.frames), (joined.packets, each.packets)):
            numbers += [number for number in more if number not in numbers][: MAX_EVIDENCE - len(numbers)]
        for number, text in each.connections.items():
            if len(joined.connections) < MAX_EVIDENCE:
                joined.connections[number] = text
    if len(parts) > MAX_EVIDENCE:
        joined.details[-1] = f"and {counted(len(parts) - MAX_EVIDENCE + 1, 'more', '')}"
    joined.changed = [*dict.fromkeys(text for each in parts for text in each.changed)][:MAX_EVIDENCE]
    for text in first.details:
        if all(text in each.details for each in parts):
            joined.detail(text)
    joined.first_ns, joined.last_ns = span(parts)
    return joined


def span(parts: Iterable[Problem]) -> tuple[int | None, int | None]:
    """From when to when there was one of these problems."""
    times = [time_ns for each in parts for time_ns in (each.first_ns, each.last_ns) if time_ns is not None]
    return min(times, default=None), max(times, default=None)
