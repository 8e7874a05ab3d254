"""A bolt in another language: emits each tuple again, anchored, and acks it, by Storm's multilang protocol."""

import json
import os
import sys
from pathlib import Path


def read():
    lines = []
    for line in sys.stdin:
        if line.rstrip("\n") == "end":
            return json.loads("".join(lines))
        lines.append(line)
    sys.exit(0)


def send(message):
    print(json.dumps(message), "end", sep="\n", flush=True)


setup = read()
Path(setup["pidDir"], str(os.getpid())).touch()
send({"pid": os.getpid()})
while True:
    message = read()
    if isinstance(message, list):  # tasks that an emission went to
        continue
    if message.get("stream") == "__heartbeat":
        send({"command": "sync"})
        continue
    send({"command": "emit", "anchors": [message["id"]], "tuple": message["tuple"], "need_task_ids": False})
    send({"command": "ack", "id": message["id"]})
