"""Make the table of Kafka's messages from the definitions in Kafka's own client libraries.

    python docs/make_kafka.py kafka-clients-4.1.0.jar kafka-group-coordinator-4.1.0.jar \
        kafka-transaction-coordinator-4.1.0.jar kafka-clients-3.9.1.jar slf4j-api.jar

The newest library comes first; older ones add the versions that newer ones no longer have. Only facts are taken:
names, types, versions, nullability, tags and keys. jshell asks the first library for the names of errors. Coordinators
have the keys and values of the records in which they keep groups and transactions; the key of both is their type.
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

TABLE = Path(__file__).parents[1] / "wiredecode" / "protocols" / "kafka" / "layers.json"
KINDS = {
    "string": "str",
    "int8": "Int8",
    "int16": "Int16",
    "int32": "Int32",
    "int64": "Int64",
    "uint16": "UInt16",
    "float64": "Float64",
    "bool": "Boolean",
    "uuid": "Uuid",
}
"""Numbers by their kinds in wiredecode.fields."""
TAKEN = {"name", "values", "time", "fields", "payload", "command", "options", "type"}
"""Names that fields of Scapy's packets cannot have."""
DATA = {"ConsumerProtocolAssignment", "ConsumerProtocolSubscription"}
"""Messages without a key that are the contents of fields."""
LAST = 9999
"""Messages that are no requests and responses come after them."""


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


def rows(fields: list[Any], structs: dict[str, Any], within: tuple[int, int], parent: str = "") -> Iterator[list[Any]]:
    """Of each field the name, the type, first and last version, and what else there is."""
    for field in fields:
        first, last = span(field.get("versions", field.get("taggedVersions")))
        first, last = max(first, within[0]), min(last, within[1])
        if first > last:
            continue
        kind, name = field["type"], field_name(field, parent)
        array, element = kind.startswith("[]"), kind.removeprefix("[]")
        shown = KINDS.get(element, element) if element[0].islower() else "struct"
        more: dict[str, Any] = {}
        nullable = span(field.get("nullableVersions", "none"))
        if max(nullable[0], first) <= min(nullable[1], last):
            more["null"] = nullable
        if "tag" in field:
            more |= {"tag": field["tag"], "tagged": span(field["taggedVersions"])}
        if shown == "struct":
            inner = field.get("fields") or structs[element]
            more["fields"] = list(rows(inner, structs, (first, last), name))
        yield [name, "[]" * array + shown, first, last, *([more] if more else [])]


def message(definition: dict[str, Any], versions: tuple[int, int]) -> dict[str, Any]:
    structs = {each["name"]: each["fields"] for each in definition.get("commonStructs", ())}
    front = {"key": definition.get("apiKey", -1), "name": definition["name"], "versions": versions}
    flexible, fields = span(definition["flexibleVersions"]), list(rows(definition["fields"], structs, versions))
    return front | {"flexible": None if flexible[0] > min(flexible[1], versions[1]) else flexible[0], "fields": fields}


def lines(fields: list[Any], depth: int) -> str:
    """JSON with one field a line, those of a structure indented."""
    shown = []
    for *front, more in (each if isinstance(each[-1], dict) else [*each, None] for each in fields):
        text = json.dumps(front if more is None else [*front, {**more, "fields": 0} if "fields" in more else more])
        if more and "fields" in more:
            text = text.replace('"fields": 0', f'"fields": [{lines(more["fields"], depth + 1)}]')
        shown.append("\n" + " " * depth + text)
    return ",".join(shown)


def spelled(found: dict[str, Any]) -> str:
    messages = [
        json.dumps({**each, "fields": 0}).replace('"fields": 0', f'"fields": [{lines(each["fields"], 1)}]')
        for each in found["messages"]
    ]
    errors = ",\n".join(f'"{code}": "{name}"' for code, name in found["errors"].items())
    body = ",\n".join(messages)
    return f'{{"made_from": "{found["made_from"]}",\n"errors": {{\n{errors}}},\n"messages": [\n{body}]}}\n'


def errors(jars: list[Path]) -> Iterator[tuple[str, str]]:
    """Code and name of each error."""
    source = (
        "for (var e : org.apache.kafka.common.protocol.Errors.values())"
        ' System.out.println("error " + e.code() + " " + e.name());\n/exit\n'
    )
    path = ":".join(map(str, jars))
    done = subprocess.run(
        ["jshell", "-s", "--class-path", path], input=source, capture_output=True, text=True, check=True
    )
    found = (line[line.index("error ") :] for line in done.stdout.splitlines() if "error " in line)
    yield from ((code, name) for _, code, name in map(str.split, found))


def table(jars: list[Path]) -> dict[str, Any]:
    libraries = [jar for jar in jars if jar.name.startswith("kafka-")]
    known: dict[str, int] = {}
    found: dict[tuple[int, str, int], dict[str, Any]] = {}
    for library in libraries:
        for definition in definitions(library):
            name, valid = definition["name"], definition["validVersions"]
            if valid == "none" or ("apiKey" not in definition and name not in DATA):
                continue
            first, last = span(valid)
            last = min(last, known.get(name, last + 1) - 1)
            if first <= last:
                place = LAST if name in DATA or definition["type"].startswith("coordinator") else definition["apiKey"]
                found[place, name, first] = message(definition, (first, last))
            known[name] = min(first, known.get(name, first))
    messages = [found[key] for key in sorted(found)]
    jars_read = ", ".join(jar.stem for jar in libraries)
    return {"made_from": jars_read, "errors": dict(errors(jars)), "messages": messages}


if __name__ == "__main__":
    text = spelled(table([Path(word) for word in sys.argv[1:]]))
    TABLE.write_text(text)
    print(f"{TABLE.name}: {text.count(chr(10))} lines, {len(text):,} bytes")
