"""What the library costs the application: little a call, the same whatever the server does, and bounded memory.

Figures are compared with others of the same run, never with a clock: the machine may be busy.
"""

import statistics
import time

import pytest

ROUNDS, CALLS = 15, 200
BURST = """
import os, resource
import spindle_client as spindle
spindle.configure(timeout_s=float(os.environ["TIMEOUT"]))
spindle.chat("user", "warm")
spindle.flush(5)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
COUNT = int(os.environ["COUNT"])
for number in range(COUNT):
    spindle.chat("user", "hello")
grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
spindle.client().close(60)
stats = spindle.stats()
assert stats.made == COUNT + 1 == stats.sent + stats.pending + stats.dropped.total, stats
print(stats.pending, stats.sent, stats.dropped.total, grown_mib)
"""


def median_s(function, before=lambda: None):
    rounds = []
    for _ in range(ROUNDS):
        before()
        began = time.perf_counter()
        for _ in range(CALLS):
            function("Paris")
        rounds.append(time.perf_counter() - began)
    return statistics.median(rounds)


@pytest.mark.parametrize("server", ["hangs", "down", "500", "queue full"])
def test_a_call_costs_the_same_whatever_the_server_does(collector, make, server):
    # No thread sends here: only the call itself is measured.
    alone = make(flush_interval_s=3600.0, batch_events=1_000_000, queue_events=1_000_000, queue_bytes=1 << 30)
    queue_only = median_s(alone.tool(lambda city: "sunny"))
    alone.close(10)

    collector.always = (500, {}) if server == "500" else "hang"
    url = "http://127.0.0.1:9" if server == "down" else collector.url
    queue_events = 100 if server == "queue full" else 100_000
    client = make(url=url, timeout_s=60.0, queue_events=queue_events)
    troubled = median_s(client.tool(lambda city: "sunny"))
    collector.always = None
    collector.released.set()
    # The thread that sends shares the processor; waiting for it even once would be a thousand times as much.
    assert troubled < 6 * queue_only + 0.01, (troubled, queue_only)
    assert client.stats().made == ROUNDS * CALLS * 2


def test_a_large_text_costs_no_more_than_a_small_one(make):
    client = make(flush_interval_s=3600.0, batch_events=1_000_000, queue_bytes=1 << 40, queue_events=1_000_000)
    small = client.tool(lambda value: None)
    text = "x" * 100_000
    assert median_s(lambda _: small(text)) < 3 * median_s(small) + 0.001
    client._buffer._items.clear()
    client._buffer.made = client._buffer._bytes_in = 0


@pytest.mark.parametrize(("server", "count"), [("answers", 1_000_000), ("hangs", 200_000)])
def test_a_burst_of_a_million_events_is_counted_and_bounded(collector, run, server, count):
    if server == "hangs":
        collector.always = "hang"
    status, output = run(BURST, COUNT=str(count), TIMEOUT="5" if server == "answers" else "0.05")
    assert status == 0, output
    pending, sent, dropped, grown_mib = output.splitlines()[-1].split()
    assert int(pending) + int(sent) + int(dropped) == count + 1
    assert len(collector.events) == int(sent)
    # 10,000 events or 16 MiB wait, and one batch is on its way.
    assert float(grown_mib) < 80
    assert (int(sent) > 10_000) == (server == "answers")
