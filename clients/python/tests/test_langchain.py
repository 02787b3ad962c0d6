"""LangChain's callbacks become runs with the tree, names, models and tokens a person expects."""

import asyncio

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.language_models import FakeListLLM
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult, LLMResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool

from spindle_client.integrations.langchain import SpindleHandler

USAGE = {
    "input_tokens": 37,
    "output_tokens": 11,
    "total_tokens": 48,
    "input_token_details": {"cache_read": 8},
    "output_token_details": {"reasoning": 3},
}


class Model(BaseChatModel):
    """A chat model that answers without a model."""

    model: str = "fake-1"

    @property
    def _llm_type(self):
        return "fake"

    @property
    def _identifying_params(self):
        return {"model": self.model, "temperature": 0.5}

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        if "FAIL" in str(messages[-1].content):
            raise ConnectionError("no model")
        message = AIMessage("It rains.", usage_metadata=USAGE, response_metadata={"model_name": "fake-1-2026"})
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(self, messages, stop=None, run_manager=None, **kwargs):
        for text in ("It ", "rains."):
            yield ChatGenerationChunk(message=AIMessageChunk(text))
        yield ChatGenerationChunk(message=AIMessageChunk("", usage_metadata=USAGE))


class Finder(BaseRetriever):
    """A retriever that finds one document."""

    def _get_relevant_documents(self, query, *, run_manager):
        return [Document("rain in Paris", metadata={"source": "a"})]


@tool
def get_weather(city: str) -> str:
    """Says the weather."""
    if city == "Atlantis":
        raise LookupError("no such city")
    return "18 degrees"


@pytest.fixture
def client(make):
    return make()


@pytest.fixture
def handler(client):
    return SpindleHandler(spindle=client)


@pytest.fixture
def runs(client, collector):
    """What was reported, by the name of the run: its first and its last event."""

    def read():
        assert client.flush(10)
        found = {}
        for event in collector.events:
            name, phase = event["name"].rsplit("_", 1)
            found.setdefault(name, []).append(event)
            assert (len(found[name]) == 1) == (phase == "start"), name
        return found

    return read


def test_the_handler_is_one_of_langchain(handler):
    assert isinstance(handler, BaseCallbackHandler)


def test_a_chain_of_a_prompt_and_a_model(handler, runs):
    chain = ChatPromptTemplate.from_messages([("system", "be brief"), ("human", "{question}")]) | Model()
    chain.invoke({"question": "rain?"}, config={"callbacks": [handler], "tags": ["v1"], "run_name": "ask"})
    found = runs()
    begin, end = found["Model"]
    assert (begin["type"], begin["model"]) == ("llm", "fake-1")
    assert begin["input"] == [{"role": "system", "content": "be brief"}, {"role": "user", "content": "rain?"}]
    assert begin["parent_run_id"] == found["ask"][0]["run_id"] and found["ask"][0]["type"] == "chain"
    assert end["output"] == {"role": "assistant", "content": "It rains."}
    assert (end["prompt_tokens"], end["completion_tokens"], end["cached_tokens"], end["reasoning_tokens"]) == (
        37,
        11,
        8,
        3,
    )
    assert end["model"] == "fake-1-2026" and end["metadata"]["requested_model"] == "fake-1"
    assert found["ask"][0]["input"] == {"question": "rain?"} and found["ask"][0]["tags"] == ["v1"]
    assert "seq:step" not in str(found)


def test_an_agent_with_tools_and_a_retriever(client, handler, runs):
    def work(question, config):
        documents = Finder().invoke(question, config=config)
        return get_weather.invoke({"city": "Paris"}, config=config) + documents[0].page_content

    with client.chain("request") as request:
        RunnableLambda(work).with_config(run_name="weather-agent").invoke("rain?", config={"callbacks": [handler]})
    found = runs()
    agent = found["weather-agent"]
    assert agent[0]["type"] == "agent" and agent[0]["parent_run_id"] == request.id
    weather, finder = found["get_weather"], found["Finder"]
    assert weather[0]["type"] == finder[0]["type"] == "tool"
    assert weather[0]["parent_run_id"] == finder[0]["parent_run_id"] == agent[0]["run_id"]
    assert weather[0]["input"] == {"city": "Paris"} and weather[1]["output"] == "18 degrees"
    assert finder[1]["output"] == [{"page_content": "rain in Paris", "metadata": {"source": "a"}}]


def test_errors(handler, runs):
    with pytest.raises(LookupError):
        get_weather.invoke({"city": "Atlantis"}, config={"callbacks": [handler]})
    with pytest.raises(ConnectionError):
        (RunnableLambda(lambda text: [HumanMessage(text)]) | Model()).invoke("FAIL", config={"callbacks": [handler]})
    found = runs()
    assert found["get_weather"][1]["error"]["message"] == "no such city"
    assert found["Model"][1]["error"]["name"] == "ConnectionError"
    assert found["RunnableSequence"][1]["name"].endswith("_error")


def test_a_streamed_model(handler, runs):
    parts = list(Model().stream([SystemMessage("a"), HumanMessage("b")], config={"callbacks": [handler]}))
    assert "".join(str(part.content) for part in parts) == "It rains."
    end = runs()["Model"][1]
    assert end["output"]["content"] == "It rains." and end["prompt_tokens"] == 37


def test_a_model_that_completes_text(handler, runs):
    FakeListLLM(responses=["yes"]).invoke("is it?", config={"callbacks": [handler]})
    begin, end = runs()["FakeListLLM"]
    assert (begin["input"], end["output"]) == ("is it?", "yes")


def test_asynchronous_calls_at_a_time(handler, client, collector):
    async def work():
        chain = RunnableLambda(lambda text: [HumanMessage(text)]) | Model()
        await asyncio.gather(*(chain.ainvoke(str(n), config={"callbacks": [handler]}) for n in range(10)))

    asyncio.run(work())
    client.flush(10)
    models = [event for event in collector.events if event["name"] == "Model_start"]
    chains = {e["run_id"] for e in collector.events if e["name"] == "RunnableSequence_start"}
    assert {event["parent_run_id"] for event in models} == chains and len(chains) == 10
    assert not handler._runs


def test_runs_that_never_end_are_forgotten(handler, monkeypatch):
    import uuid

    from spindle_client.integrations import langchain

    monkeypatch.setattr(langchain, "OPEN_RUNS", 5)
    for _ in range(20):
        handler.on_chain_start({"name": "open"}, {}, run_id=uuid.uuid4())
    assert len(handler._runs) == 5


def test_what_refers_to_itself_or_is_large_is_kept_in_part(handler, runs):
    import uuid

    ring = {"question": "rain?"}
    ring["again"] = [ring, ring]
    wide = [[HumanMessage("a")] * 1_000] * 1_000
    for name, given in (("ring", ring), ("wide", wide)):
        run_id = uuid.uuid4()
        handler.on_chain_start({"name": name}, given, run_id=run_id)
        handler.on_chain_end(given, run_id=run_id)
    found = runs()
    assert found["ring"][0]["input"]["question"] == "rain?" and "too deep" in str(found["ring"][1]["output"])
    assert found["wide"][0]["input"][0][0] == {"role": "user", "content": "a"} and "cut" in str(found["wide"][1])


def test_a_fork_at_any_moment_leaves_a_handler_that_works(handler):
    assert not [name for name, value in vars(handler).items() if "lock" in type(value).__name__.lower()]


WHOLE = {
    "prompt_tokens": 37,
    "completion_tokens": 22,
    "total_tokens": 59,
    "prompt_tokens_details": {"cached_tokens": 8},
}
OTHER = {**USAGE, "output_tokens": 4, "output_token_details": {}}


@pytest.mark.parametrize(
    ("usages", "output", "expected"),
    [
        ([USAGE, USAGE, USAGE], {"token_usage": WHOLE}, (37, 22, 8)),
        ([USAGE, USAGE, USAGE], {}, (37, 11, 8)),
        ([USAGE, OTHER], {}, (37, 15, 8)),
        ([None, None], {"token_usage": WHOLE}, (37, 22, 8)),
        ([USAGE], {"token_usage": WHOLE}, (37, 11, 8)),
    ],
    ids=["whole response", "repeated", "each its own", "only whole", "one answer"],
)
def test_several_answers_are_counted_once(handler, runs, usages, output, expected):
    import uuid

    answers = [ChatGeneration(message=AIMessage("It rains.", usage_metadata=usage)) for usage in usages]
    run_id = uuid.uuid4()
    handler.on_chat_model_start({"name": "model"}, [[HumanMessage("rain?")]], run_id=run_id)
    handler.on_llm_end(LLMResult(generations=[answers], llm_output=output), run_id=run_id)
    end = runs()["model"][1]
    assert (end["prompt_tokens"], end["completion_tokens"], end["cached_tokens"]) == expected
