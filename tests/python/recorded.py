"""A scenario recorded from a real client: its requests as they were sent, and what a reader of them expects to see."""

import json
import pathlib

import requests

CAPTURES = pathlib.Path(__file__).resolve().parents[1] / "captures"
# What the connection of the day decides, or the test.
NOT_SENT_AGAIN = {"host", "connection", "content-length", "transfer-encoding", "authorization"}


class Scenario:
    """A folder of requests, and the file beside them that says what they mean."""

    def __init__(self, folder):
        self.folder = folder
        self.name = f"{folder.parent.name}/{folder.name}"
        self.expected = json.loads((folder / "expected.json").read_text())
        self.requests = [path for path in sorted(folder.glob("*.json")) if path.name != "expected.json"]

    def replay(self, server, key):
        """Sends every request in order; returns the answers by name of the file."""
        with requests.Session() as session:
            return {path.name: send(session, path, server.url, key) for path in self.requests}


def scenarios():
    """Every recorded scenario; one without expectations is an error."""
    return [Scenario(folder) for folder in sorted(CAPTURES.glob("*/*/"))]


def send(session, path, url, key):
    """Sends a recorded request: its path, query, headers and bytes, with a key of this server."""
    recorded = json.loads(path.read_text())
    headers = {name: value for name, value in recorded["headers"].items() if name.lower() not in NOT_SENT_AGAIN}
    # llmonitor's clients send no key. What they post gets one here, as a key in the address gives them one in life;
    # what they ask is answered without.
    has_key = any(name.lower() == "authorization" for name in recorded["headers"])
    if has_key or recorded["method"] == "POST":
        headers["Authorization"] = f"Bearer {key}"
    body = bytes_of(path, recorded, key)
    if recorded["headers"].get("Transfer-Encoding") == "chunked":
        # In two pieces, and with no length told.
        body = iter([body[:700], body[700:]])
    request = requests.Request(recorded["method"], url + recorded["path"], headers=headers, params=recorded["query"], data=body)
    return session.send(session.prepare_request(request), timeout=30)


def bytes_of(path, recorded, key):
    """The body byte by byte: as it was kept, or written again the way the client's language writes JSON."""
    if "body_file" in recorded:
        return (path.parent / recorded["body_file"]).read_bytes()
    if recorded["body_kind"] == "empty":
        return b""
    is_python = "python" in recorded["headers"].get("User-Agent", "")
    text = json.dumps(recorded["body"]) if is_python else json.dumps(recorded["body"], ensure_ascii=False, separators=(",", ":"))
    assert len(text.encode()) == recorded["body_bytes"], path
    # To lunary's Python client the key is the app: it stands in the events as it stands in the header.
    named = {event.get("appId") for event in recorded["body"].get("events", []) if isinstance(event, dict)} - {None}
    for name in named:
        text = text.replace(name, key)
    return text.encode()
