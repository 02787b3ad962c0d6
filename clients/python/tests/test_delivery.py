"""Batches reach a server that behaves; what a server that misbehaves does not take is dropped, counted and told."""

import logging
import time

import pytest
from collector import Collector

import spindle_client

EVENTS = 7


def report(client, count=EVENTS):
    for number in range(count):
        client.chat("user", f"message {number}", "talk")


def test_events_arrive_once_in_order_with_ids_of_their_own(collector, make):
    client = make(app_id="shop")
    report(client, 1200)
    assert client.flush(10)
    assert [event["content"] for event in collector.events] == [f"message {number}" for number in range(1200)]
    ids = [event["event_id"] for event in collector.events]
    assert len(set(ids)) == 1200 and ids == sorted(ids)
    assert {event["app_id"] for event in collector.events} == {"shop"}
    assert max(len(batch) for batch in collector.batches) == 500
    assert (client.stats().sent, client.stats().accepted) == (1200, 1200)


def test_requests_share_one_connection_and_carry_the_key(collector, make):
    client = make()
    for _ in range(3):
        report(client)
        client.flush(10)
    assert (collector.requests, collector.connections) == (3, 1)
    assert collector.headers[0]["Authorization"] == "Bearer key-1"
    assert collector.headers[0]["path"] == "/api/report"


def test_a_path_in_the_address_comes_first(collector, make):
    client = make(url=collector.url + "/spindle/")
    report(client)
    client.flush(10)
    assert collector.headers[0]["path"] == "/spindle/api/report"


def test_large_bodies_are_compressed(collector, make):
    client = make()
    client.chat("user", "a" * 100_000)
    client.flush(10)
    assert collector.headers[0]["Content-Encoding"] == "gzip"
    assert collector.headers[0]["length"] < 10_000
    assert collector.events[0]["content"] == "a" * 100_000


def test_batches_are_bounded_in_bytes(collector, make):
    client = make(batch_bytes=10_000)
    for number in range(20):
        client.chat("user", f"{number:04}" * 1000)
    client.flush(10)
    assert len(collector.events) == 20
    assert all(len(batch) <= 2 for batch in collector.batches)


def test_events_are_sent_on_the_interval_without_being_asked(collector, make):
    report(make(flush_interval_s=0.05))
    collector.wait(lambda it: len(it.events) == EVENTS)


def test_a_full_batch_does_not_wait_for_the_interval(collector, make):
    client = make(flush_interval_s=3600.0, batch_events=100)
    report(client, 101)
    collector.wait(lambda it: len(it.events) >= 100)


@pytest.mark.parametrize(
    "behaviour",
    ["drop", "garbage", "nonsense", "hang", "dribble", "endless"]
    + [(status, {}) for status in (500, 503, 429, 408, 401, 413, 404, 302, 202)],
    ids=str,
)
def test_a_batch_that_fails_is_dropped_and_counted_and_the_next_arrives(collector, make, behaviour, caplog):
    client = make(timeout_s=0.4)
    collector.behaviours = [behaviour]
    report(client)
    assert client.flush(20)
    assert (client.stats().sent, client.stats().dropped.failed, client.stats().retries) == (0, EVENTS, 0)
    assert "a batch of 7 events was dropped" in caplog.text
    assert "key-1" not in caplog.text and "message 1" not in caplog.text
    collector.released.set()
    report(client)
    assert client.flush(20)
    assert (client.stats().sent, client.stats().dropped.failed) == (EVENTS, EVENTS)


def test_what_the_server_refuses_one_by_one_is_counted_and_told(collector, make, caplog):
    client = make()
    report(client)
    client.put(({"name": "refused", "run_id": "r"}, "", time.time(), {}, 100))
    client.flush(10)
    assert (client.stats().accepted, client.stats().rejected) == (EVENTS, 1)
    assert "events[7] is refused" in caplog.text


@pytest.mark.parametrize("behaviour", ["drop", (500, {}), (503, {}), (429, {}), (408, {}), "nonsense"], ids=str)
def test_with_retries_the_same_events_are_sent_again(collector, make, behaviour):
    client = make(retries=3, retry_delay_s=0.01)
    collector.behaviours = [behaviour, behaviour]
    report(client)
    assert client.flush(20)
    assert (client.stats().sent, client.stats().dropped.total, client.stats().retries) == (EVENTS, 0, 2)
    assert len(collector.events) == EVENTS


@pytest.mark.parametrize("behaviour", [(400, {}), (401, {}), (403, {}), (413, {}), (302, {}), "garbage"], ids=str)
def test_what_will_not_be_better_is_never_sent_again(collector, make, behaviour):
    client = make(retries=3, retry_delay_s=0.01)
    collector.behaviours = [behaviour]
    report(client)
    assert client.flush(20)
    assert (collector.requests, client.stats().dropped.failed) == (1, EVENTS)


def test_retries_end(collector, make):
    client = make(retries=2, retry_delay_s=0.01)
    collector.always = (500, {})
    report(client)
    assert client.flush(20)
    assert (collector.requests, client.stats().retries, client.stats().dropped.failed) == (3, 2, EVENTS)


def test_the_server_says_when_to_come_back(collector, make):
    client = make(retries=1, retry_delay_s=60.0)
    collector.behaviours = [(429, {"Retry-After": "0"})]
    report(client)
    assert client.flush(20), "the delay of the settings was waited for"
    assert client.stats().sent == EVENTS


def test_retry_after_is_waited_for(collector, make):
    client = make(retries=1, retry_delay_s=0.0)
    collector.behaviours = [(503, {"Retry-After": "0.3"})]
    report(client)
    began = time.monotonic()
    assert client.flush(20)
    assert time.monotonic() - began >= 0.3


@pytest.mark.parametrize("ending", ["flush", "close"])
def test_who_asks_for_a_flush_does_not_wait_for_a_retry(collector, make, ending):
    client = make(retries=5, flush_interval_s=3600.0, batch_events=EVENTS)
    collector.behaviours = [(503, {"Retry-After": "30"})]
    report(client)
    collector.wait(lambda it: it.requests == 1)
    assert getattr(client, ending)(20)
    assert (client.stats().sent, client.stats().retries, client.stats().dropped.total) == (EVENTS, 1, 0)


def test_a_retry_that_a_flush_asks_for_is_the_last(collector, make):
    client = make(retries=5, flush_interval_s=3600.0, batch_events=EVENTS)
    collector.always = (503, {"Retry-After": "30"})
    report(client)
    collector.wait(lambda it: it.requests == 1)
    assert client.flush(20)
    assert (collector.requests, client.stats().retries, client.stats().dropped.failed) == (2, 1, EVENTS)
    collector.always = None
    report(client)
    assert client.flush(20) and client.stats().sent == EVENTS


def test_a_batch_that_fills_while_another_waits_for_a_retry_is_sent_after_it(collector, make):
    client = make(retries=1, flush_interval_s=3600.0, batch_events=EVENTS)
    collector.behaviours = [(503, {"Retry-After": "0.2"})]
    report(client)
    collector.wait(lambda it: it.requests == 1)
    report(client, 2 * EVENTS)
    collector.wait(lambda it: len(it.events) == 3 * EVENTS)


@pytest.mark.parametrize("behaviour", ["close", "leave"])
def test_a_connection_the_server_closed_between_requests_costs_nothing(collector, make, behaviour):
    client = make()
    collector.behaviours = [behaviour]
    for _ in range(2):
        report(client)
        assert client.flush(10)
    assert (client.stats().sent, client.stats().dropped.total) == (2 * EVENTS, 0)


def test_a_server_that_is_started_anew_is_found_again():
    first = Collector()
    client = spindle_client.Client(url=first.url, timeout_s=2.0)
    report(client)
    assert client.flush(10)
    first.stop()
    report(client)
    assert client.flush(10)
    assert client.stats().dropped.failed == EVENTS
    second = Collector(first.port)
    report(client)
    assert client.flush(10)
    assert (len(second.events), client.stats().sent) == (EVENTS, 2 * EVENTS)
    client.close()
    second.stop()


def test_the_queue_is_bounded_in_events(collector, make, caplog):
    client = make(queue_events=100, batch_events=10, timeout_s=60.0)
    collector.always = "hang"
    report(client, 1000)
    stats = client.stats()
    assert stats.made == 1000 and stats.pending + stats.dropped.queue_full == 1000
    assert 100 <= stats.pending <= 110
    collector.always = None
    collector.released.set()
    assert client.flush(20)
    assert "the queue was full" in caplog.text


def test_the_queue_is_bounded_in_bytes(collector, make):
    client = make(queue_bytes=1 << 20, timeout_s=60.0)
    collector.always = "hang"
    for _ in range(200):
        client.chat("user", "x" * 10_000)
    stats = client.stats()
    # About 26 of them wait as text of four bytes a character, and the events of one batch as JSON.
    assert stats.dropped.queue_full > 0 and 20 <= stats.pending <= 140, stats


def test_an_event_that_is_too_large_is_cut_and_arrives(collector, make):
    client = make(batch_bytes=100_000, value_bytes=90_000)
    # Six bytes of JSON for each character.
    with client.tool("control", input="\x01" * 80_000):
        pass
    assert client.flush(10)
    assert "cut" in collector.events[0]["input"]
    assert client.stats().dropped.total == 0


def test_an_event_that_is_too_large_even_cut_is_dropped_and_counted(collector, make, caplog):
    client = make(batch_bytes=2_000)
    client.chat("user", "x" * 4_000)
    report(client)
    assert client.flush(10)
    assert (client.stats().dropped.too_large, client.stats().sent) == (1, EVENTS)


def test_after_close_events_are_dropped_and_counted(collector, make):
    client = make()
    report(client)
    assert client.close(10)
    report(client)
    assert (client.stats().sent, client.stats().dropped.closed) == (EVENTS, EVENTS)


def test_the_same_trouble_is_told_once_a_minute(collector, make, caplog):
    client = make()
    collector.always = (500, {})
    for _ in range(5):
        report(client)
        client.flush(10)
    assert caplog.text.count("was dropped") == 1


def test_a_logger_that_fails_stops_nothing(collector, make):
    class Failing(logging.Handler):
        def emit(self, record):
            raise RuntimeError

    handler = Failing()
    logging.getLogger("spindle_client").addHandler(handler)
    try:
        client = make()
        collector.behaviours = [(500, {})]
        report(client)
        client.flush(10)
        report(client)
        assert client.flush(10)
        assert client.stats().sent == EVENTS
    finally:
        logging.getLogger("spindle_client").removeHandler(handler)


def test_text_that_is_no_unicode_arrives(collector, make):
    client = make()
    with client.tool("odd \ud800", input={"a \udc00": "b \ud800"}):
        pass
    assert client.flush(10)
    assert client.stats().accepted == 2 and "?" in collector.events[0]["name"]
