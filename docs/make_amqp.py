"""Make the table of AMQP 0-9-1's methods from RabbitMQ's machine-readable specification.

    python docs/make_amqp.py amqp-rabbitmq-0.9.1.json

The file is in the repository rabbitmq/rabbitmq-codegen. Only facts are taken: numbers, names, types, and which methods
ask for an answer or carry content.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

TABLE = Path(__file__).parents[1] / "wiredecode" / "protocols" / "amqp091" / "layers.json"
RENAMED = {"nowait": "no_wait", "global": "global_scope", "class_id": "cause_class_id", "method_id": "cause_method_id"}
"""The same fact has one name in all methods; the class and method of a frame have the others."""
TYPES = {"exchange": "exchange_type", "basic": "message_type"}
"""By class, the name of its ``type``: Scapy has a use for that word."""


def camel(name: str) -> str:
    return "".join(word.title() for word in name.split("-"))


def fields(of: str, given: list[Any], domains: dict[str, str]) -> list[list[str]]:
    rows = []
    for each in given:
        name = each["name"].replace("-", "_")
        name = TYPES[of] if name == "type" else RENAMED.get(name, name)
        rows.append([name, each.get("type") or domains[each["domain"]]])
    return rows


def main(path: str) -> None:
    spec = json.loads(Path(path).read_text())
    domains = dict(spec["domains"])
    methods, properties = [], []
    for group in spec["classes"]:
        for each in group["methods"]:
            rows = fields(group["name"], each["arguments"], domains)
            asks, carries = bool(each.get("synchronous")), bool(each.get("content"))
            methods.append([group["id"], each["id"], camel(group["name"]) + camel(each["name"]), asks, carries, rows])
        properties += fields(group["name"], group.get("properties", []), domains)
    codes = {str(each["value"]): each["name"].replace("-", "_") for each in spec["constants"] if each["value"] >= 300}
    lines = ",\n".join(json.dumps(row) for row in methods)
    text = f'{{"made_from": "{Path(path).name}",\n"codes": {json.dumps(codes)},\n'
    TABLE.write_text(f'{text}"properties": {json.dumps(properties)},\n"methods": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main(sys.argv[1])
