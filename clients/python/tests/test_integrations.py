"""The real packages, observed, against a model on loopback: what a person sees of each call."""

import asyncio
import pathlib
import sys
from types import SimpleNamespace

import anthropic
import openai
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "examples" / "python"))
import stub_model as stub

from spindle_client.integrations.anthropic import observe as observe_anthropic
from spindle_client.integrations.openai import observe as observe_openai
from spindle_client.integrations.openai import usage

MESSAGES = [{"role": "user", "content": "What is the weather in Paris?"}]
HELLO = [{"role": "user", "content": "hello"}]
FUNCTION = {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
CHAT_TOOLS = [{"type": "function", "function": FUNCTION}]
FAIL = [{"role": "user", "content": "FAIL"}]
COUNTS = {
    "prompt_tokens": stub.PROMPT_TOKENS,
    "completion_tokens": stub.COMPLETION_TOKENS,
    "total_tokens": stub.PROMPT_TOKENS + stub.COMPLETION_TOKENS,
    "cached_tokens": stub.CACHED_TOKENS,
}
CALL = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": stub.ARGUMENTS}}


@pytest.fixture(scope="module")
def model():
    server, url = stub.start()
    yield url
    server.shutdown()
    server.server_close()


@pytest.fixture
def spindle(make):
    return make()


@pytest.fixture
def ai(model, spindle):
    client = openai.OpenAI(api_key="none", base_url=model + "/v1", max_retries=0)
    return observe_openai(client, spindle=spindle)


@pytest.fixture
def async_ai(model, spindle):
    client = openai.AsyncOpenAI(api_key="none", base_url=model + "/v1", max_retries=0)
    return observe_openai(client, spindle=spindle)


@pytest.fixture
def claude(model, spindle):
    return observe_anthropic(anthropic.Anthropic(api_key="none", base_url=model, max_retries=0), spindle=spindle)


@pytest.fixture
def async_claude(model, spindle):
    client = anthropic.AsyncAnthropic(api_key="none", base_url=model, max_retries=0)
    return observe_anthropic(client, spindle=spindle)


@pytest.fixture
def call(collector, spindle):
    """The two events of the only run."""

    def read():
        assert spindle.flush(10)
        assert [event["type"] for event in collector.events] == ["llm", "llm"], collector.events
        begin, end = collector.events
        assert begin["run_id"] == end["run_id"] and begin["name"].endswith("_start")
        return begin, end

    return read


def counts(event):
    return {name: event.get(name) for name in COUNTS}


def assert_openai(events, given, output):
    begin, end = events
    assert (begin["model"], begin["input"]) == ("gpt-4o-mini", given)
    assert end["name"].endswith("_end") and end["model"] == "gpt-4o-mini-2024-07-18"
    assert counts(end) == COUNTS and end["reasoning_tokens"] == stub.REASONING_TOKENS
    assert end["metadata"]["requested_model"] == "gpt-4o-mini"
    assert end["output"] == output


def test_a_chat_completion(ai, call):
    said = ai.chat.completions.create(model="gpt-4o-mini", messages=MESSAGES, temperature=0.5)
    assert said.choices[0].message.content == stub.ANSWER
    events = call()
    assert_openai(events, MESSAGES, {"role": "assistant", "content": stub.ANSWER})
    assert events[0]["metadata"]["temperature"] == 0.5 and events[0]["name"] == "openai.chat_start"


def test_a_chat_completion_that_calls_a_tool(ai, call):
    ai.chat.completions.create(model="gpt-4o-mini", messages=MESSAGES, tools=CHAT_TOOLS)
    assert_openai(call(), MESSAGES, {"role": "assistant", "content": None, "tool_calls": [CALL]})


def test_messages_the_application_goes_on_with_are_kept_as_they_were(ai, call):
    messages = list(MESSAGES)
    said = ai.chat.completions.create(model="gpt-4o-mini", messages=messages, tools=CHAT_TOOLS)
    messages.append(said.choices[0].message)
    assert call()[0]["input"] == MESSAGES


def test_a_message_object_among_the_messages(ai, spindle, collector):
    said = ai.chat.completions.create(model="gpt-4o-mini", messages=MESSAGES, tools=CHAT_TOOLS)
    result = {"role": "tool", "tool_call_id": "call_1", "content": "18"}
    ai.chat.completions.create(model="gpt-4o-mini", messages=[*MESSAGES, said.choices[0].message, result])
    spindle.flush(10)
    given = collector.events[2]["input"]
    assert given[1]["tool_calls"][0]["function"]["name"] == "get_weather" and given[2] == result


@pytest.mark.parametrize("tools", [[], CHAT_TOOLS], ids=["text", "tool"])
def test_a_streamed_chat_completion(ai, call, tools):
    keywords = {"tools": tools} if tools else {}
    stream = ai.chat.completions.create(
        model="gpt-4o-mini", messages=MESSAGES, stream=True, stream_options={"include_usage": True}, **keywords
    )
    assert isinstance(stream, openai.Stream)
    parts = [chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices]
    expected = {"role": "assistant", "content": None if tools else stub.ANSWER}
    if tools:
        expected["tool_calls"] = [CALL]
    else:
        assert "".join(parts) == stub.ANSWER
    assert_openai(call(), MESSAGES, expected)


def test_a_stream_that_is_left_early(ai, call):
    with ai.chat.completions.create(model="gpt-4o-mini", messages=MESSAGES, stream=True) as stream:
        for chunk in stream:
            if chunk.choices[0].delta.content:
                break
    end = call()[1]
    assert end["output"]["content"] == "Paris " and "prompt_tokens" not in end


def test_the_streaming_helper(ai, call):
    options = {"include_usage": True}
    with ai.chat.completions.stream(model="gpt-4o-mini", messages=MESSAGES, stream_options=options) as stream:
        assert stream.get_final_completion().choices[0].message.content == stub.ANSWER
    del stream
    assert_openai(call(), MESSAGES, {"role": "assistant", "content": stub.ANSWER})


def test_a_raw_response_is_what_it_was(ai, call):
    raw = ai.chat.completions.with_raw_response.create(model="gpt-4o-mini", messages=MESSAGES)
    assert raw.status_code == 200 and raw.parse().choices[0].message.content == stub.ANSWER
    assert call()[1]["name"] == "openai.chat_end"


@pytest.mark.parametrize("streamed", [False, True])
def test_a_failing_call(ai, call, streamed):
    with pytest.raises(openai.InternalServerError):
        ai.chat.completions.create(model="gpt-4o-mini", messages=FAIL, stream=streamed)
    end = call()[1]
    assert end["name"] == "openai.chat_error" and end["error"]["name"] == "InternalServerError"


def test_a_response(ai, call):
    assert ai.responses.create(model="gpt-4o-mini", input="hello").output_text == stub.ANSWER
    assert_openai(call(), HELLO, {"role": "assistant", "content": stub.ANSWER})


def test_a_response_with_instructions_that_calls_a_tool(ai, call):
    tools = [{"type": "function", "strict": False, **FUNCTION}]
    ai.responses.create(model="gpt-4o-mini", input="hello", instructions="be brief", tools=tools)
    begin, end = call()
    assert begin["input"] == [{"role": "system", "content": "be brief"}, *HELLO]
    assert end["output"] == {"role": "assistant", "content": None, "tool_calls": [CALL]}


def test_a_streamed_response(ai, call):
    types = [event.type for event in ai.responses.create(model="gpt-4o-mini", input="hello", stream=True)]
    assert types[-1] == "response.completed"
    assert_openai(call(), HELLO, {"role": "assistant", "content": stub.ANSWER})


def test_embeddings(ai, call):
    assert len(ai.embeddings.create(model="e-1", input=["a", "b"], encoding_format="float").data) == 2
    begin, end = call()
    assert begin["input"] == ["a", "b"] and end["output"] == {"vectors": 2, "dimensions": 2}
    assert (end["prompt_tokens"], end["completion_tokens"]) == (stub.PROMPT_TOKENS, 0)


def test_the_asynchronous_client(async_ai, spindle, collector):
    async def work():
        await async_ai.chat.completions.create(model="gpt-4o-mini", messages=MESSAGES)
        stream = await async_ai.chat.completions.create(
            model="gpt-4o-mini", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
        )
        async for _ in stream:
            pass
        await async_ai.responses.create(model="gpt-4o-mini", input="hello")
        with pytest.raises(openai.InternalServerError):
            await async_ai.chat.completions.create(model="gpt-4o-mini", messages=FAIL)

    asyncio.run(work())
    spindle.flush(10)
    ends = [event for event in collector.events if not event["name"].endswith("_start")]
    assert [event["name"] for event in ends] == ["openai.chat_end"] * 2 + ["openai.responses_end", "openai.chat_error"]
    assert [counts(event) for event in ends[:3]] == [COUNTS] * 3
    assert ends[0]["output"] == ends[1]["output"] == {"role": "assistant", "content": stub.ANSWER}


CLAUDE = {"model": "claude-4", "max_tokens": 100, "messages": MESSAGES}
CLAUDE_TOOLS = [{"name": "get_weather", "input_schema": FUNCTION["parameters"]}]


def assert_claude(events, content):
    begin, end = events
    assert begin["input"] == MESSAGES and begin["model"] == "claude-4" and begin["metadata"]["max_tokens"] == 100
    assert counts(end) == COUNTS
    assert end["output"] == {"role": "assistant", "content": content}


def test_a_message(claude, call):
    assert claude.messages.create(**CLAUDE).content[0].text == stub.ANSWER
    assert_claude(call(), stub.ANSWER)


def test_a_message_that_uses_a_tool(claude, call):
    claude.messages.create(**CLAUDE, tools=CLAUDE_TOOLS, system="be brief")
    begin, end = call()
    assert begin["input"] == [{"role": "system", "content": "be brief"}, *MESSAGES]
    block = end["output"]["content"][0]
    assert (block["type"], block["name"], block["input"]) == ("tool_use", "get_weather", {"city": "Paris"})


def test_a_streamed_message(claude, call):
    assert [event.type for event in claude.messages.create(**CLAUDE, stream=True)][-1] == "message_stop"
    assert_claude(call(), stub.ANSWER)


def test_a_streamed_message_that_uses_a_tool(claude, call):
    list(claude.messages.create(**CLAUDE, tools=CLAUDE_TOOLS, stream=True))
    block = call()[1]["output"]["content"][0]
    assert block == {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Paris"}}


def test_the_message_stream(claude, call):
    with claude.messages.stream(**CLAUDE) as stream:
        assert "".join(stream.text_stream) == stub.ANSWER
    assert_claude(call(), stub.ANSWER)


def test_a_message_stream_that_is_left_early(claude, call):
    with pytest.raises(KeyError):
        with claude.messages.stream(**CLAUDE) as stream:
            next(stream.text_stream)
            raise KeyError("stop")
    end = call()[1]
    assert end["name"] == "anthropic.messages_error" and end["error"]["name"] == "KeyError"
    assert end["output"]["content"].startswith("Paris")


def test_a_failing_message(claude, call):
    with pytest.raises(anthropic.InternalServerError):
        claude.messages.create(**{**CLAUDE, "messages": FAIL})
    assert call()[1]["error"]["name"] == "InternalServerError"


def test_a_failing_message_stream(claude, call):
    with pytest.raises(anthropic.InternalServerError):
        with claude.messages.stream(**{**CLAUDE, "messages": FAIL}):
            pass
    assert call()[1]["error"]["name"] == "InternalServerError"


def test_the_asynchronous_client_of_anthropic(async_claude, spindle, collector):
    async def work():
        await async_claude.messages.create(**CLAUDE)
        async for _ in await async_claude.messages.create(**CLAUDE, stream=True):
            pass
        async with async_claude.messages.stream(**CLAUDE) as stream:
            assert (await stream.get_final_message()).content[0].text == stub.ANSWER

    asyncio.run(work())
    spindle.flush(10)
    ends = [event for event in collector.events if event["name"] == "anthropic.messages_end"]
    assert [counts(event) for event in ends] == [COUNTS] * 3
    assert [event["output"]["content"] for event in ends] == [stub.ANSWER] * 3


def test_observing_twice_is_observing_once(ai, claude, spindle, collector):
    observe_openai(ai).chat.completions.create(model="gpt-4o-mini", messages=MESSAGES)
    observe_anthropic(claude).messages.create(**CLAUDE)
    spindle.flush(10)
    assert len(collector.events) == 4


def test_calls_are_inside_of_the_run_around_them(ai, spindle, collector):
    with spindle.agent("clerk") as run:
        ai.chat.completions.create(model="gpt-4o-mini", messages=MESSAGES)
    spindle.flush(10)
    assert collector.events[1]["parent_run_id"] == run.id


@pytest.mark.parametrize("broken", [None, object(), type("Client", (), {"chat": None, "messages": 5})()], ids=str)
def test_what_is_no_client_is_left_alone(broken):
    assert observe_openai(broken) is broken
    assert observe_anthropic(broken) is broken


def test_a_count_of_0_is_a_count(spindle, collector):
    said = SimpleNamespace(prompt_tokens=5, completion_tokens=0, output_tokens=9, total_tokens=5)
    with spindle.llm("call") as run:
        usage(run, said)
    assert spindle.flush(10)
    assert (collector.events[1]["prompt_tokens"], collector.events[1]["completion_tokens"]) == (5, 0)
