"""Make the table of Kafka's messages from the definitions in Kafka's own client libraries.

    python docs/make_kafka.py kafka-clients-4.1.0.jar kafka-clients-3.9.1.jar slf4j-api.jar

The newest library comes first; older ones add the versions that newer ones no longer have. Only facts are taken:
names, types, versions, nullability, tags and keys. The names of errors are asked of the first library with jshell.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

TABLE = Path(__file__).parents[1] / "wiredecode" / "protocols" / "kafka" / "layers.txt"
HEAD = """# Kafka's messages, made by docs/make_kafka.py from {jars}.
# error CODE NAME
# message KEY NAME VERSIONS FLEXIBLE: its fields follow, those of a structure indented.
# field NAME TYPE VERSIONS, then ?VERSIONS if it can be null, and #TAG,VERSIONS if it is tagged.
"""
SHORT = {
    "string": "str",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint16": "u16",
    "float64": "f64",
}
TAKEN = {"name", "values", "time", "fields", "payload", "command", "options", "type"}
"""Names that fields of Scapy's packets cannot have."""
DATA = {"ConsumerProtocolAssignment", "ConsumerProtocolSubscription"}
"""Messages without a key that are the contents of fields."""


def definitions(jar: Path) -> Iterator[dict[str, Any]]:
    with ZipFile(jar) as archive:
        for name in sorted(archive.namelist()):
            if name.startswith("common/message/") and name.endswith(".json"):
                text = re.sub(r"(?m)^\s*//.*$", "", archive.read(name).decode())
                yield json.loads(text)


def span(versions: str, top: int = 32767) -> tuple[int, int]:
    """First and last version; of no versions the last is below the first."""
    if versions == "none":
        return 0, -1
    first, _, last = versions.rstrip("+").partition("-")
    return int(first), top if versions.endswith("+") else int(last or first)


def spelled(first: int, last: int) -> str:
    return f"{first}+" if last >= 32767 else str(first) if first == last else f"{first}-{last}"


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def singular(name: str) -> str:
    return name[:-3] + "y" if name.endswith("ies") else name.removesuffix("s")


def field_name(field: dict[str, Any], parent: str) -> str:
    """The name of a field: ``error_code`` is the number of ``error``, and some need the name of their structure."""
    name = field["name"]
    if name == "Name" and field.get("entityType") == "topicName":
        return "topic"
    found = re.sub(r"(^|_)error_code$", r"\1error", snake(name))
    found = "batches" if found == "records" else found
    return f"{singular(parent)}_{found}" if found in TAKEN and parent else f"{found}_" if found in TAKEN else found


def lines(
    fields: list[Any], structs: dict[str, Any], within: tuple[int, int], parent: str = "", depth: int = 1
) -> Iterator[str]:
    for field in fields:
        first, last = span(field["versions"])
        first, last = max(first, within[0]), min(last, within[1])
        if first > last:
            continue
        kind, name = field["type"], field_name(field, parent)
        array, element = kind.startswith("[]"), kind.removeprefix("[]")
        shown = SHORT.get(element, element) if element[0].islower() else "struct"
        words = [name, "[]" * array + shown, spelled(first, last if last < within[1] else 32767)]
        nullable = span(field.get("nullableVersions", "none"))
        if max(nullable[0], first) <= min(nullable[1], last):
            words.append("?" + field["nullableVersions"])
        if "tag" in field:
            words.append(f"#{field['tag']},{field['taggedVersions']}")
        yield " " * depth + " ".join(words)
        if shown == "struct":
            inner = field.get("fields") or structs[element]
            yield from lines(inner, structs, (first, last), name, depth + 1)


def message(definition: dict[str, Any], versions: tuple[int, int]) -> Iterator[str]:
    structs = {each["name"]: each["fields"] for each in definition.get("commonStructs", ())}
    flexible = span(definition["flexibleVersions"])
    last = "none" if flexible[0] > min(flexible[1], versions[1]) else str(flexible[0])
    key = definition.get("apiKey", "-")
    yield f"{key} {definition['name']} {spelled(*versions)} {last}"
    yield from lines(definition["fields"], structs, versions)


def errors(jars: list[Path]) -> Iterator[str]:
    """Code and name of each error."""
    source = (
        "for (var e : org.apache.kafka.common.protocol.Errors.values())"
        ' System.out.println("error " + e.code() + " " + e.name());\n/exit\n'
    )
    path = ":".join(map(str, jars))
    done = subprocess.run(
        ["jshell", "-s", "--class-path", path], input=source, capture_output=True, text=True, check=True
    )
    yield from (line[line.index("error ") :] for line in done.stdout.splitlines() if "error " in line)


def table(jars: list[Path]) -> Iterator[str]:
    libraries = [jar for jar in jars if jar.name.startswith("kafka-clients")]
    yield HEAD.format(jars=" and ".join(jar.stem for jar in libraries)).rstrip()
    yield from errors(jars)
    known: dict[str, int] = {}
    found: dict[tuple[int, str, int], list[str]] = {}
    for library in libraries:
        for definition in definitions(library):
            name, valid = definition["name"], definition["validVersions"]
            if valid == "none" or ("apiKey" not in definition and name not in DATA):
                continue
            first, last = span(valid)
            last = min(last, known.get(name, last + 1) - 1)
            if first <= last:
                found[definition.get("apiKey", 9999), name, first] = list(message(definition, (first, last)))
            known[name] = min(first, known.get(name, first))
    for key in sorted(found):
        yield from found[key]


if __name__ == "__main__":
    text = "\n".join(table([Path(word) for word in sys.argv[1:]])) + "\n"
    TABLE.write_text(text)
    print(f"{TABLE.name}: {text.count(chr(10))} lines, {len(text):,} bytes")
