"""A model on loopback that answers as OpenAI's and Anthropic's do, without a model: for the examples and the tests.

`python stub_model.py` serves it and prints its address; `start()` does so inside of a program. It knows the weather:
it asks for the tool `get_weather` if there is one, and answers after the tool result. A message with FAIL fails.
"""

import json
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PROMPT_TOKENS, COMPLETION_TOKENS = 37, 11
CACHED_TOKENS, REASONING_TOKENS = 8, 3
ANSWER = "Paris has 18 degrees and light rain."
ARGUMENTS = '{"city": "Paris"}'


def new_id(kind):
    """Each response has an identifier of its own: runs of one response are counted once."""
    return f"{kind}{uuid.uuid4().hex}"


def wants_tool(request):
    """Whether there is a tool and its result is not among the messages yet."""
    return bool(request.get("tools")) and "18" not in json.dumps(request.get("messages") or request.get("input"))


def words():
    """The answer as it is streamed."""
    return [word + " " for word in ANSWER.split(" ")[:-1]] + [ANSWER.split(" ")[-1]]


# OpenAI: chat completions.

CHAT_USAGE = {
    "prompt_tokens": PROMPT_TOKENS,
    "completion_tokens": COMPLETION_TOKENS,
    "total_tokens": PROMPT_TOKENS + COMPLETION_TOKENS,
    "prompt_tokens_details": {"cached_tokens": CACHED_TOKENS},
    "completion_tokens_details": {"reasoning_tokens": REASONING_TOKENS},
}


def served(request):
    """Providers answer with a dated name of the model that was asked for."""
    return request["model"] + "-2024-07-18"


def chat(request):
    message = {"role": "assistant", "content": ANSWER}
    if wants_tool(request):
        call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": ARGUMENTS}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    head = {"id": new_id("chatcmpl-"), "object": "chat.completion", "created": 1, "model": served(request)}
    return {**head, "choices": [choice], "usage": CHAT_USAGE}


def chat_stream(request):
    head = {"id": new_id("chatcmpl-"), "object": "chat.completion.chunk", "created": 1, "model": served(request)}

    def chunk(delta, reason=None):
        return None, {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    yield chunk({"role": "assistant", "content": ""})
    if wants_tool(request):
        call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": ""}}
        yield chunk({"tool_calls": [call]})
        for part in (ARGUMENTS[:9], ARGUMENTS[9:]):
            yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": part}}]})
    else:
        for word in words():
            yield chunk({"content": word})
    yield chunk({}, "stop")
    if (request.get("stream_options") or {}).get("include_usage"):
        yield None, {**head, "choices": [], "usage": CHAT_USAGE}
    yield None, "[DONE]"


# OpenAI: responses and embeddings.


def response(request):
    item = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": ANSWER, "annotations": []}],
    }
    if wants_tool(request):
        item = {
            "id": "fc_1",
            "type": "function_call",
            "call_id": "call_1",
            "name": "get_weather",
            "arguments": ARGUMENTS,
            "status": "completed",
        }
    return {
        "id": new_id("resp_"),
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": served(request),
        "output": [item],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": PROMPT_TOKENS,
            "input_tokens_details": {"cached_tokens": CACHED_TOKENS},
            "output_tokens": COMPLETION_TOKENS,
            "output_tokens_details": {"reasoning_tokens": REASONING_TOKENS},
            "total_tokens": PROMPT_TOKENS + COMPLETION_TOKENS,
        },
    }


def response_stream(request):
    whole = response(request)
    events = [("response.created", {"response": {**whole, "status": "in_progress", "output": [], "usage": None}})]
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0, "logprobs": []}
    events += [("response.output_text.delta", {**place, "delta": word}) for word in words()]
    events.append(("response.completed", {"response": whole}))
    for number, (name, event) in enumerate(events):
        yield name, {"type": name, "sequence_number": number, **event}


def embeddings(request):
    given = request["input"] if isinstance(request["input"], list) else [request["input"]]
    data = [{"object": "embedding", "index": index, "embedding": [0.1, 0.2]} for index in range(len(given))]
    usage = {"prompt_tokens": PROMPT_TOKENS, "total_tokens": PROMPT_TOKENS}
    return {"object": "list", "model": request["model"], "data": data, "usage": usage}


# Anthropic: messages. What its cache wrote and read is counted beside the input tokens.

MESSAGE_USAGE = {
    "input_tokens": PROMPT_TOKENS - CACHED_TOKENS - 5,
    "cache_creation_input_tokens": 5,
    "cache_read_input_tokens": CACHED_TOKENS,
    "output_tokens": COMPLETION_TOKENS,
}


def message(request):
    content = [{"type": "text", "text": ANSWER}]
    if wants_tool(request):
        content = [{"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": json.loads(ARGUMENTS)}]
    return {
        "id": new_id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": request["model"],
        "content": content,
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": MESSAGE_USAGE,
    }


def message_stream(request):
    whole = message(request)
    (block,) = whole["content"]
    events = [
        {"type": "message_start", "message": {**whole, "content": [], "usage": {**MESSAGE_USAGE, "output_tokens": 1}}}
    ]
    if block["type"] == "text":
        events.append({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
        deltas = [{"type": "text_delta", "text": word} for word in words()]
    else:
        events.append({"type": "content_block_start", "index": 0, "content_block": {**block, "input": {}}})
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in (ARGUMENTS[:9], ARGUMENTS[9:])]
    events += [{"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas]
    events.append({"type": "content_block_stop", "index": 0})
    end = {"stop_reason": "end_turn", "stop_sequence": None}
    events.append({"type": "message_delta", "delta": end, "usage": {"output_tokens": COMPLETION_TOKENS}})
    events.append({"type": "message_stop"})
    for event in events:
        yield event["type"], event


PATHS = {
    "/v1/chat/completions": (chat, chat_stream),
    "/v1/responses": (response, response_stream),
    "/v1/embeddings": (embeddings, None),
    "/v1/messages": (message, message_stream),
}


class Handler(BaseHTTPRequestHandler):
    """Answers every POST of `PATHS`."""

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        whole, stream = PATHS[self.path.split("?")[0]]
        if "FAIL" in json.dumps(request):
            error = {"type": "server_error", "message": "the model failed"}
            self.answer(500, {"type": "error", "error": error})
        elif request.get("stream"):
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            for name, event in stream(request):
                said = event if isinstance(event, str) else json.dumps(event)
                self.wfile.write((f"event: {name}\n" if name else "").encode() + f"data: {said}\n\n".encode())
        else:
            self.answer(200, whole(request))

    def answer(self, status, body):
        payload = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, *_):
        """Quiet."""


def start(port=0):
    """Starts it on a free port; returns the server and its address."""
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_port}"


if __name__ == "__main__":
    stub, url = start()
    print(url, flush=True)
    threading.Event().wait()
