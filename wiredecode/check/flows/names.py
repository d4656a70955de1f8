"""Names of clients and topics: whether two are one service, or one mistaken for the other."""

from __future__ import annotations

from difflib import SequenceMatcher

from wiredecode.check.changes import is_of_library
from wiredecode.flows import Party
from wiredecode.flows.table import Subject
from wiredecode.patterns import pattern

ALIKE, MIN_WORD = 0.85, 4
"""Likeness and length of words that may have been mixed up: an added, missing or wrong letter."""
INSTANCE = pattern(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{8,}|\d+")
"""Parts of a name in which instances of one service differ."""
ROLES = frozenset({"locator", "producer", "consumer", "publisher", "subscriber", "client", "connection"})
"""Words that client libraries put before the name of the application."""
DIGIT = pattern(r"\d")
ENVIRONMENTS = frozenset({"staging", "stage", "stg", "dev", "devel", "qa", "uat", "sandbox"})
"""Words for places where applications are tried, and not used."""
RANDOM = 8
"""Letters of a name that a program makes up, at least."""
WORDS = pattern(r"(?:[A-Z]?[a-z]{2,}|[A-Z]{2,}(?![a-z])|\d+)+")
TOKEN = pattern(r"[^-_.:#/@]+")


def service_of(name: str) -> str:
    """The first word of a client's name, without the number or id of its instance."""
    words = TOKEN.findall(INSTANCE.sub("", name.lower()))
    return next((each for each in words if each not in ROLES), words[0] if words else "")


def without_instance(name: str) -> str:
    """A name without the words that only one instance has: long ones with digits."""
    return "-".join(word for word in TOKEN.findall(name) if len(word) < MIN_WORD or not DIGIT.search(word))


def is_random(name: str) -> bool:
    """Whether a name looks as if a program had made it up: letters of both cases that make no words."""
    both = len(name) >= RANDOM and name.isalnum() and not name.islower() and not name.isupper()
    return both and WORDS.fullmatch(name) is None


def environment_of(name: str) -> str:
    """The word of a client's name that says where it belongs, such as ``staging``; empty: there is none."""
    return next((word for word in TOKEN.findall(name.lower()) if word in ENVIRONMENTS), "")


def are_related(one: Party, other: Party) -> bool:
    """Whether two clients may be one application, by their names."""
    first, second = service_of(one.name), service_of(other.name)
    return first.startswith(second) or second.startswith(first) or is_library(one) or is_library(other)


def differ(one: Subject, other: Subject) -> str:
    """The mistake that may have made two subjects of one; empty: none."""
    if one[0] != other[0]:
        return ""
    if one[2] == other[2]:
        return "both use the same name in different places" if one[1] and other[1] else ""
    if one[1] != other[1]:
        return ""
    if one[2].lower() == other[2].lower():
        return "the names differ in capital letters"
    words, others = TOKEN.findall(one[2]), TOKEN.findall(other[2])
    if words == others:
        return "the names differ in the characters between their words"
    if others[-1:] == [">"] and len(words) >= len(others):
        words, others = words[: len(others) - 1], others[:-1]
    pairs = [pair for pair in zip(words, others, strict=False) if pair[0] != pair[1] and pair[1] != "*"]
    if len(words) != len(others) or len(pairs) != 1:
        return ""
    (word, meant) = pairs[0]
    instances = INSTANCE.sub("", word) == INSTANCE.sub("", meant)
    alike = SequenceMatcher(None, word, meant).ratio() >= ALIKE and len(meant) >= MIN_WORD
    return f"{word} was written for {meant}, or the other way round" if alike and not instances else ""


def is_library(party: Party) -> bool:
    """Whether its name is only that of a client library, which many applications have."""
    return is_of_library(party.name, party.product)
