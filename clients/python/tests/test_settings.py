"""Settings come from the call, else from the environment, else they are the default; errors are logged."""

import pytest

import spindle_client
from spindle_client.settings import Settings, resolve


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    for name in ("URL", "API_KEY", "APP_ID", "ENABLED"):
        monkeypatch.delenv(f"SPINDLE_{name}", raising=False)


def test_defaults():
    assert resolve({}) == (Settings(), [])
    settings = Settings()
    assert (settings.url, settings.flush_interval_s, settings.queue_events) == ("http://127.0.0.1:7070", 0.5, 10_000)
    assert (settings.queue_bytes, settings.batch_events, settings.batch_bytes) == (16 << 20, 500, 1 << 20)
    assert (settings.timeout_s, settings.retries, settings.exit_timeout_s) == (5.0, 0, 2.0)


def test_the_environment_and_then_the_call(monkeypatch):
    monkeypatch.setenv("SPINDLE_URL", "http://spindle:7070")
    monkeypatch.setenv("SPINDLE_API_KEY", "key")
    monkeypatch.setenv("SPINDLE_APP_ID", " ")
    monkeypatch.setenv("SPINDLE_ENABLED", "False")
    settings, faults = resolve({"api_key": "other", "url": None})
    assert not faults
    assert (settings.url, settings.api_key, settings.app_id, settings.enabled) == (
        "http://spindle:7070",
        "other",
        None,
        False,
    )


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"flush_interval": 3}, "there is no setting flush_interval"),
        ({"flush_interval_s": "3"}, "must be a number"),
        ({"flush_interval_s": float("nan")}, "must be from 0.01"),
        ({"queue_events": 1.5}, "must be a whole number"),
        ({"queue_events": 0}, "must be from 1"),
        ({"retries": 1000}, "must be from 0 to 100"),
        ({"retries": True}, "must be a whole number"),
        ({"enabled": "no"}, "must be True or False"),
        ({"api_key": 7}, "must be a string"),
        ({"api_key": "two\nlines"}, "api_key must be"),
        ({"url": "ftp://host"}, "url must be like"),
        ({"url": "http://"}, "url must be like"),
        ({"url": "http://host:port"}, "url is no address"),
    ],
    ids=str,
)
def test_what_is_wrong_is_told_and_takes_its_default(given, fault, caplog):
    client = spindle_client.Client(**given)
    assert fault in caplog.text and "two" not in caplog.text
    assert client.settings.enabled == ("url" not in given)
    client.chat("user", "hello")
    client.close(0)


def test_configure_replaces_the_client_and_loses_nothing(collector):
    first = spindle_client.configure(url=collector.url, flush_interval_s=3600.0)
    spindle_client.chat("user", "first")
    spindle_client.configure(url=collector.url)
    spindle_client.chat("user", "second")
    assert spindle_client.client() is not first and spindle_client.flush(10)
    collector.wait(lambda it: {event["content"] for event in it.events} == {"first", "second"})
    spindle_client.client().close()
