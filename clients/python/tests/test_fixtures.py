"""The cases of `clients/fixtures`: what an application asks, what a provider answers, and the run that becomes of it.

The TypeScript library runs the same cases.
"""

import json
import pathlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import anthropic
import openai
import pytest
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from spindle_client.integrations.anthropic import observe as observe_anthropic
from spindle_client.integrations.langchain import SpindleHandler
from spindle_client.integrations.openai import observe as observe_openai

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "fixtures"
CASES = {case["name"]: case for path in sorted(FOLDER.glob("*.json")) for case in json.loads(path.read_text())}
OWN = {"name", "run_id", "event_id", "timestamp", "metadata", "error"}
"""Fields of events that say nothing of the case, or are compared in another way."""


class Provider(BaseHTTPRequestHandler):
    """Answers what the case says, whatever is asked."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        case = self.server.case
        is_stream = "stream" in case
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if is_stream else "application/json")
        self.end_headers()
        if not is_stream:
            self.wfile.write(json.dumps(case["response"]).encode())
            return
        for event in case["stream"]:
            if isinstance(event, dict) and "type" in event:
                self.wfile.write(f"event: {event['type']}\n".encode())
            said = event if isinstance(event, str) else json.dumps(event)
            self.wfile.write(f"data: {said}\n\n".encode())

    def log_message(self, *_):
        """Quiet."""


@pytest.fixture(scope="module")
def provider():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


class FixtureModel(BaseChatModel):
    """A chat model that answers with the message of the case."""

    answer: dict
    model: str = "asked-1"

    @property
    def _llm_type(self):
        return "fixture"

    @property
    def _identifying_params(self):
        return {"model": self.model}

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        return ChatResult(generations=[ChatGeneration(message=AIMessage(**self.answer))])


def ask(case, url, client):
    """Calls the method of the case, and reads its stream."""
    method = case["call"]
    if method == "usage":
        with client.llm("ask") as run:
            run.usage(**case["usage"])
            run.response_id = case.get("response_id")
        return
    if method == "langchain":
        kinds = {"system": SystemMessage, "human": HumanMessage}
        messages = [kinds[message["type"]](message["content"]) for message in case["messages"]]
        FixtureModel(answer=case["message"]).invoke(messages, config={"callbacks": [SpindleHandler(spindle=client)]})
        return
    if method == "anthropic.messages":
        made = observe_anthropic(anthropic.Anthropic(api_key="none", base_url=url, max_retries=0), spindle=client)
        create = made.messages.create
    else:
        made = observe_openai(openai.OpenAI(api_key="none", base_url=url + "/v1", max_retries=0), spindle=client)
        create = {
            "openai.chat.completions": made.chat.completions,
            "openai.responses": made.responses,
            "openai.embeddings": made.embeddings,
        }[method].create
    answer = create(**case["request"])
    if "stream" in case:
        list(answer)


def run_of(events):
    """Both events of a run as one."""
    begin, end = events
    assert begin["run_id"] == end["run_id"] and begin["event_id"] != end["event_id"]
    name, phase = begin["name"].rsplit("_", 1)
    assert phase == "start" and end["name"] == f"{name}_{'error' if 'error' in end else 'end'}"
    run = {field: value for event in events for field, value in event.items() if field not in OWN}
    metadata = {**begin.get("metadata", {}), **end.get("metadata", {})}
    metadata.pop("spindle_client")
    if metadata:
        run["metadata"] = metadata
    if "error" in end:
        run["error"] = end["error"]["message"]
    return {"name": name, **run}


@pytest.mark.parametrize("name", CASES)
def test_a_case_becomes_the_same_run_in_both_libraries(name, provider, make, collector):
    case = provider.case = CASES[name]
    client = make()
    ask(case, f"http://127.0.0.1:{provider.server_port}", client)
    assert client.flush(10)
    run = run_of(collector.events)
    if case["run"].get("ttft_ms") == "measured":
        assert type(run["ttft_ms"]) is int and run["ttft_ms"] >= 0
        run["ttft_ms"] = "measured"
    assert run == case["run"]
