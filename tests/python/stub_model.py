"""A model endpoint on loopback that speaks as OpenAI, Anthropic and Amazon Bedrock do, with the answers the tests expect."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import stub_anthropic
import stub_bedrock
import stub_openai


class Handler(BaseHTTPRequestHandler):
    """Answers every POST; a message with FAIL-500 fails."""

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        is_streamed = request.get("stream")
        if "FAIL-500" in json.dumps(request):
            self.send(500, {"error": {"message": "the model failed", "type": "server_error"}})
        elif self.path.endswith("/embeddings"):
            self.send(200, stub_openai.embedding(request))
        elif self.path.endswith("/converse-stream"):
            self.send_bytes(200, "application/vnd.amazon.eventstream", stub_bedrock.frames(request))
        elif self.path.endswith("/messages"):
            self.answer(stub_anthropic.message_events if is_streamed else stub_anthropic.message, request)
        elif self.path.endswith("/responses"):
            self.answer(stub_openai.response_events if is_streamed else stub_openai.response, request)
        elif is_streamed:
            lines = [f"data: {json.dumps(piece)}\n\n" for piece in stub_openai.pieces(request)]
            self.send_bytes(200, "text/event-stream", "".join([*lines, "data: [DONE]\n\n"]).encode())
        else:
            self.send(200, stub_openai.answer(request))

    def answer(self, make, request):
        """One object, or a stream of events that name their types."""
        made = make(request)
        if isinstance(made, dict):
            self.send(200, made)
        else:
            lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in made]
            self.send_bytes(200, "text/event-stream", "".join(lines).encode())

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
    """Starts the endpoint on a free port; returns the server and its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_address[1]}"
