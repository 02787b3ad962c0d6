"""A chat completion endpoint on loopback with the answers the tests expect."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PROMPT_TOKENS, COMPLETION_TOKENS = 37, 11
ANSWER = "Paris has 18 °C and light rain."


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
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": request["model"] + "-2024-07-18",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": PROMPT_TOKENS,
            "completion_tokens": COMPLETION_TOKENS,
            "total_tokens": PROMPT_TOKENS + COMPLETION_TOKENS,
        },
    }


class Handler(BaseHTTPRequestHandler):
    """Answers every POST; a message with FAIL-500 fails."""

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        fails = "FAIL-500" in json.dumps(request["messages"])
        body = {"error": {"message": "the model failed", "type": "server_error"}} if fails else answer(request)
        payload = json.dumps(body).encode()
        self.send_response(500 if fails else 200)
        self.send_header("content-type", "application/json")
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
