"""A server on loopback that takes batches as Spindle does, or misbehaves as a test asks it to."""

import contextlib
import gzip
import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WITHIN_S = 30


class Collector:
    """Keeps every event it took; `behave` says what it does with the next requests, one entry each."""

    def __init__(self, port=0):
        self.batches = []
        self.requests = 0
        self.headers = []
        self.connections = 0
        self.behaviours = []
        self.always = None
        self.released = threading.Event()
        self.changed = threading.Condition()
        self.server = Server(("127.0.0.1", port), Handler)
        self.server.collector = self
        self.port = self.server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def events(self):
        return [event for batch in self.batches for event in batch]

    def wait(self, condition):
        """Waits until a condition over the collector holds."""
        with self.changed:
            assert self.changed.wait_for(lambda: condition(self), WITHIN_S), f"{len(self.events)} events"

    def next_behaviour(self):
        with self.changed:
            self.requests += 1
            self.changed.notify_all()
            return self.behaviours.pop(0) if self.behaviours else self.always

    def stop(self):
        """Ends it: later connections are refused, those there are get closed."""
        self.released.set()
        self.server.shutdown()
        self.server.server_close()
        for connection in list(self.server.open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *arguments):
        self.open = set()
        super().__init__(*arguments)

    def process_request(self, request, client_address):
        self.collector.connections += 1
        self.open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request):
        self.open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, *_):
        """Connections that end early are what these tests are about."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        collector = self.server.collector
        body = self.rfile.read(int(self.headers["content-length"]))
        collector.headers.append({**self.headers, "path": self.path, "length": len(body)})
        behaviour = collector.next_behaviour()
        if behaviour == "drop":
            self.close_connection = True
            return
        if behaviour == "hang":
            collector.released.wait()
            self.close_connection = True
            return
        if behaviour == "dribble":
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            while not collector.released.wait(0.02):
                self.wfile.write(b"x-more: 1\r\n")
            return
        if behaviour == "garbage":
            self.answer(200, b"<html>hello</html>")
            return
        if behaviour == "endless":
            self.send_response(200)
            self.send_header("content-length", str(1 << 40))
            self.end_headers()
            while not collector.released.is_set():
                self.wfile.write(b" " * 65536)
            return
        if behaviour == "nonsense":
            self.wfile.write(b"this is no HTTP\r\n\r\n")
            self.close_connection = True
            return
        if isinstance(behaviour, tuple):
            status, headers = behaviour
            self.answer(status, b'{"error": "some_code", "message": "as the test asked"}', headers)
            return
        if isinstance(behaviour, float):
            time.sleep(behaviour)
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        events = json.loads(body)["events"]
        refused = [i for i, event in enumerate(events) if event["name"] == "refused"]
        said = {
            "accepted": len(events) - len(refused),
            "rejected": len(refused),
            "errors": [{"index": i, "code": "invalid_value", "message": f"events[{i}] is refused"} for i in refused],
        }
        with collector.changed:
            collector.batches.append(events)
            collector.changed.notify_all()
        headers = {"connection": "close"} if behaviour == "close" else {}
        self.close_connection = behaviour in ("close", "leave")
        self.answer(200, json.dumps(said).encode(), headers)

    def answer(self, status, body, headers=None):
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Quiet."""
