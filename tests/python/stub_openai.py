"""A model endpoint on loopback with the answers the tests expect: chats, whole and streamed, and embeddings."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PROMPT_TOKENS, COMPLETION_TOKENS, CACHED_TOKENS = 37, 11, 8
EMBEDDING_TOKENS = 5
ANSWER = "Paris has 18 °C and light rain."
USAGE = {
    "prompt_tokens": PROMPT_TOKENS,
    "completion_tokens": COMPLETION_TOKENS,
    "total_tokens": PROMPT_TOKENS + COMPLETION_TOKENS,
    "prompt_tokens_details": {"cached_tokens": CACHED_TOKENS},
}


def answer(request):
    """The first call of an agent asks for its tool; later ones answer."""
    messages = request["messages"]
    asks_tool = not any("18" in str(message.get("content")) for message in messages)
    call = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
    message = {"role": "assistant", "content": ANSWER}
    if asks_tool and request.get("functions"):
        message = {"role": "assistant", "content": None, "function_call": call}
    elif asks_tool and request.get("tools"):
        message = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": call}],
        }
    finish = "tool_calls" if message["content"] is None else "stop"
    return {**head(request, "chat.completion"), "choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": USAGE}


def pieces(request):
    """The answer word by word; the usage at the end for who asks for it."""
    chunk = head(request, "chat.completion.chunk")
    deltas = [{"role": "assistant", "content": ""}, *({"content": f"{word} "} for word in ANSWER.split())]
    for delta in deltas:
        yield {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    if (request.get("stream_options") or {}).get("include_usage"):
        yield {**chunk, "choices": [], "usage": USAGE}


def embedding(request):
    row = {"object": "embedding", "index": 0, "embedding": [0.25, 0.5]}
    usage = {"prompt_tokens": EMBEDDING_TOKENS, "total_tokens": EMBEDDING_TOKENS}
    return {"object": "list", "data": [row], "model": request["model"], "usage": usage}


def head(request, kind):
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": request["model"] + "-2024-07-18"}


class Handler(BaseHTTPRequestHandler):
    """Answers every POST; a message with FAIL-500 fails."""

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "FAIL-500" in json.dumps(request):
            self.send(500, {"error": {"message": "the model failed", "type": "server_error"}})
        elif self.path.endswith("/embeddings"):
            self.send(200, embedding(request))
        elif request.get("stream"):
            lines = [f"data: {json.dumps(piece)}\n\n" for piece in pieces(request)]
            self.send_bytes(200, "text/event-stream", "".join([*lines, "data: [DONE]\n\n"]).encode())
        else:
            self.send(200, answer(request))

    def send(self, status, body):
        self.send_bytes(status, "application/json", json.dumps(body).encode())

    def send_bytes(self, status, kind, payload):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, *_):
        """Quiet."""


def start():
    """Starts the endpoint on a free port; returns the server and its base address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_address[1]}/v1"
