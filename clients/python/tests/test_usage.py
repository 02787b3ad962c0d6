"""The time to the first token, metadata that is added later, and how the library names itself."""

import asyncio
from uuid import uuid4

import anthropic
import pytest
from test_integrations import CLAUDE, stub

import spindle_client.run
from spindle_client.integrations.anthropic import observe
from spindle_client.integrations.langchain import SpindleHandler
from spindle_client.version import NAME


class Clock:
    """A monotonic clock that a test moves."""

    def __init__(self):
        self.s = 100.0

    def __call__(self):
        return self.s


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(spindle_client.run, "monotonic", made)
    return made


@pytest.fixture
def client(make):
    return make()


@pytest.fixture
def ends(client, collector):
    """The last event of each run by the run's name."""

    def read():
        assert client.flush(10)
        return {event["name"].rsplit("_", 1)[0]: event for event in collector.events}

    return read


def test_the_first_call_of_first_token_counts_and_a_given_number_more(client, ends, clock):
    with client.llm("measured") as run:
        clock.s += 0.2504
        run.first_token()
        clock.s += 1
        run.first_token()
    run.first_token()
    with client.llm("told") as run:
        run.first_token()
        run.usage(ttft_ms=12.6)
    with client.llm("silent"):
        pass
    found = ends()
    assert (found["measured"]["ttft_ms"], found["told"]["ttft_ms"]) == (250, 13)
    assert "ttft_ms" not in found["silent"]


def test_a_stream_of_a_model_call_measures_it_and_one_of_another_step_does_not(client, ends, clock):
    def words():
        for word in ("light ", "rain"):
            clock.s += 0.04
            yield word

    async def later():
        for word in words():
            yield word

    async def read(stream):
        return [word async for word in stream()]

    list(client.llm("llm")(words)())
    list(client.chain("chain")(words)())
    asyncio.run(read(client.llm("async-llm")(later)))
    found = ends()
    assert found["llm"]["ttft_ms"] == found["async-llm"]["ttft_ms"] == 40
    assert found["llm"]["output"] == "light rain" and "ttft_ms" not in found["chain"]


def test_a_model_below_langchain_measures_it_from_the_first_piece_that_says_something(client, ends, clock):
    handler, run_id = SpindleHandler(spindle=client), uuid4()
    handler.on_llm_start({"name": "model"}, ["hi"], run_id=run_id)
    for token in ("", "rain", "rain"):
        clock.s += 0.01
        handler.on_llm_new_token(token, run_id=run_id)
    handler.on_llm_new_token("rain", run_id=uuid4())
    handler.on_llm_error(ValueError("enough"), run_id=run_id)
    assert ends()["model"]["ttft_ms"] == 20


@pytest.mark.parametrize("way", ["events", "text", "final", "async"])
def test_the_streaming_helper_of_anthropic_measures_it_however_it_is_read(client, ends, way):
    server, url = stub.start()

    async def read_async():
        made = observe(anthropic.AsyncAnthropic(api_key="none", base_url=url, max_retries=0), spindle=client)
        async with made.messages.stream(**CLAUDE) as stream:
            return "".join([text async for text in stream.text_stream])

    try:
        if way == "async":
            assert asyncio.run(read_async()) == stub.ANSWER
        else:
            made = observe(anthropic.Anthropic(api_key="none", base_url=url, max_retries=0), spindle=client)
            with made.messages.stream(**CLAUDE) as stream:
                if way == "events":
                    assert [event.type for event in stream][-1] == "message_stop"
                elif way == "text":
                    assert "".join(stream.text_stream) == stub.ANSWER
                else:
                    assert stream.get_final_message().content[0].text == stub.ANSWER
    finally:
        server.shutdown()
        server.server_close()
    end = ends()["anthropic.messages"]
    assert end["ttft_ms"] >= 0 and end["response_id"].startswith("msg_") and end["cache_write_tokens"] == 5


def test_metadata_may_be_added_until_the_end(client, ends):
    with client.tool("tool", metadata={"a": 1, "b": 1}) as run:
        run.metadata(b=2)
        run.metadata(c=[3])
        run.metadata(d=4)
    run.metadata(e=5)
    assert ends()["tool"]["metadata"] == {"spindle_client": NAME, "a": 1, "b": 2, "c": [3], "d": 4}


def test_runs_without_a_parent_say_which_library_reports_them_and_others_do_not(client, collector):
    with client.agent("outer"), client.tool("inner", metadata={"a": 1}), client.tool("bare"):
        pass
    client.start("tool", "own", metadata={"spindle_client": "mine"}).end()
    assert client.flush(10)
    starts = {event["name"]: event for event in collector.events if event["name"].endswith("_start")}
    assert starts["outer_start"]["metadata"] == {"spindle_client": NAME}
    assert starts["inner_start"]["metadata"] == {"a": 1} and "metadata" not in starts["bare_start"]
    assert starts["own_start"]["metadata"] == {"spindle_client": "mine"}
    assert collector.headers[0]["User-Agent"] == NAME and NAME.endswith(spindle_client.__version__)


def test_a_usage_that_cannot_be_read_is_left_out(client, ends):
    class Cruel(float):
        def __float__(self):
            raise KeyError("cruel")

    with client.llm("ask") as run:
        run.usage(1, 2, True, cost=float("nan"), estimated_cost=float("inf"), ttft_ms=True, requests=1 << 60)
        run.usage(cost=Cruel(1), estimated_cost=Cruel(1))
        run.response_id = 7
    end = ends()["ask"]
    assert (end["prompt_tokens"], end["completion_tokens"]) == (1, 2)
    names = {"total_tokens", "cost", "estimated_cost", "ttft_ms", "requests", "response_id"}
    assert not names & set(end)
