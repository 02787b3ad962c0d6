"""What a call costs the application: `python bench.py`, with the library importable.

Figures are microseconds a call: processor time of the application's own thread and time on the wall, both the median of
many rounds, and the slowest call in a hundred. Other work on the machine shows in the last two. Servers run in
processes of their own.
"""

from __future__ import annotations

import gzip
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import spindle_client

ROUNDS, CALLS = 30, 300
BURST = 1_000_000
TEXT = "x" * 100_000
MESSAGES = [{"role": "user", "content": "x" * 2_000} for _ in range(50)]
PARTS = [{"role": "user", "content": "x" * 85} for _ in range(1_000)]
Function = Callable[[Any], Any]


def plain(value: Any) -> Any:
    """The function that is observed."""
    return value


def cost(
    function: Function, value: Any, before: Callable[[], object] = lambda: None, calls: int = CALLS
) -> tuple[float, float, float]:
    """Microseconds a call: of the processor, on the wall, and that of the slowest call in a hundred."""
    processor, wall, singles = [], [], []
    clock = time.perf_counter
    for _ in range(ROUNDS):
        before()
        began, began_processor = clock(), time.thread_time()
        for _ in range(calls):
            function(value)
        processor.append((time.thread_time() - began_processor) / calls)
        wall.append((clock() - began) / calls)
        before()
        for _ in range(calls):
            began = clock()
            function(value)
            singles.append(clock() - began)
    middle, hundredth = ROUNDS // 2, len(singles) * 99 // 100
    return sorted(processor)[middle] * 1e6, sorted(wall)[middle] * 1e6, sorted(singles)[hundredth] * 1e6


def row(name: str, figures: tuple[float, float, float]) -> None:
    """Prints one line of the table."""
    print(f"| {name} | {figures[0]:.1f} | {figures[1]:.1f} | {figures[2]:.1f} |", flush=True)


class Server:
    """A server in a process of its own that answers, never answers, or is not there."""

    def __init__(self, kind: str) -> None:
        self._process = subprocess.Popen([sys.executable, __file__, kind], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = "http://127.0.0.1:" + self._process.stdout.readline().strip()

    def stop(self) -> None:
        """Ends it."""
        self._process.kill()
        self._process.wait()


def serve(kind: str) -> None:
    """What the server's process does."""
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=answer, args=(connection, kind), daemon=True).start()


def answer(connection: socket.socket, kind: str) -> None:
    """Answers the requests of one connection."""
    stream = connection.makefile("rb")
    while True:
        headers: dict[str, str] = {}
        line = stream.readline()
        while line := stream.readline().strip():
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        if not headers:
            return
        body = stream.read(int(headers["content-length"]))
        if kind == "hangs":
            threading.Event().wait()
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        said = json.dumps({"accepted": body.count(b'"event_id"'), "rejected": 0, "errors": []}).encode()
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(said) + said)


def calls() -> None:
    """The table of what a call costs."""
    print("| call | processor | wall | slowest of 100 |\n| --- | --- | --- | --- |")
    row("the function alone", cost(plain, "Paris"))
    disabled = spindle_client.Client(enabled=False)
    row("disabled", cost(disabled.tool(plain), "Paris"))
    for kind in ("answers", "down", "hangs"):
        server = Server(kind) if kind != "down" else None
        url = server.url if server else "http://127.0.0.1:9"
        client = spindle_client.Client(url=url, queue_bytes=64 << 20)

        # A queue with room, as an application's is that makes a few thousand events a second at most.
        def room(client: spindle_client.Client = client, kind: str = kind) -> None:
            if kind != "hangs":
                client.flush(30)

        said = partial(client.chat, "user")
        row(f"`chat`, server {kind}", cost(said, "hello", room))
        row(f"`@tool`, small, server {kind}", cost(client.tool(plain), "Paris", room))
        if kind == "answers":
            with client.agent("agent"), spindle_client.tags("a"), spindle_client.user("ada@example.com"):
                row("`@tool`, small, inside of an agent", cost(client.tool(plain), "Paris", room))
            # Fewer calls: the queue has 64 MiB.
            row("`@tool`, text of 100 kB", cost(client.tool(plain), TEXT, room, 30))
            row("`@llm`, 50 messages of 2 kB", cost(client.llm(plain), MESSAGES, room, 30))
            row("`@llm`, 1000 messages of 85 B", cost(client.llm(plain), PARTS, room, 30))
        if kind == "hangs":
            for _ in range(20_000):
                client.chat("user", "hello")
            row("`chat`, queue full", cost(said, "hello"))
            row("`@tool`, small, queue full", cost(client.tool(plain), "Paris"))
        if server:
            server.stop()
        client.close(0)


def work() -> None:
    """About a millisecond of an application that never waits."""
    sum(range(40_000))


def busy() -> None:
    """What the library takes of the processor in all, sending included, of an application that only calculates."""
    server = Server("answers")
    client = spindle_client.Client(url=server.url)
    observed, clock = client.tool(work), time.process_time
    differences, alone = [], []
    for _ in range(15):
        began = clock()
        for _ in range(400):
            work()
        middle = clock()
        for _ in range(400):
            observed()
        client.flush(10)
        alone.append((middle - began) / 400)
        differences.append((clock() - middle) / 400 - alone[-1])
    client.close()
    server.stop()
    difference, work_s = sorted(differences)[7], sorted(alone)[7]
    print(
        f"\nin all, with the thread that sends: {difference * 1e6:.0f} us of processor a call; "
        f"{difference / work_s * 100:.1f} % of calls of {work_s * 1e3:.1f} ms"
    )


def memory_mib() -> float:
    """What the process holds of memory now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def burst() -> None:
    """A million events as fast as they can be made."""
    for kind in ("answers", "down", "hangs"):
        server = Server(kind) if kind != "down" else None
        client = spindle_client.Client(url=server.url if server else "http://127.0.0.1:9", timeout_s=1.0)
        client.chat("user", "warm")
        client.flush(10)
        before = memory_mib()
        began, began_processor = time.perf_counter(), time.thread_time()
        for _ in range(BURST):
            client.chat("user", "hello")
        made_s, processor_s = time.perf_counter() - began, time.thread_time() - began_processor
        growth = memory_mib() - before
        client.close(60)
        stats = client.stats()
        assert stats.made == BURST + 1 == stats.sent + stats.pending + stats.dropped.total, stats
        print(
            f"burst, server {kind}: {made_s:.1f} s, {processor_s:.1f} s of processor, memory +{growth:.0f} MiB, "
            f"sent {stats.sent}, dropped {stats.dropped.total} (queue full {stats.dropped.queue_full})"
        )
        if server:
            server.stop()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve(sys.argv[1])
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    burst()
    calls()
    busy()
