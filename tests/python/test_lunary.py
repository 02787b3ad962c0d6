"""The real `lunary` packages of today report; runs, threads and feedback are what their author would expect."""

import hashlib

import programs
from stub_answer import ANSWER
from weather import ADA, CALL, FAILED, FAILED_CALL, MONITORED, QUESTION, THREAD

# It tells how much of the prompt was cached.
CACHED_CALL = {**CALL, "cached": 8, "cost": "0.00001155"}


def test_the_package_from_the_python_index(server, run_client):
    key = server.project_key()
    run_client(programs.current("lunary_agent.py"), LUNARY_API_URL=server.url, LUNARY_PRIVATE_KEY=key)
    agent = {
        **{"name": "weather-agent", "type": "agent", "tags": ["v1"], "input": QUESTION, "output": ANSWER},
        **ADA,
        "total_cost": "0.0000231",
        "children": [
            {**CACHED_CALL, **ADA, "input": QUESTION, "output": ANSWER},
            {
                **{"name": "get_weather", "type": "tool", **ADA, "input": "Paris", "output": "18"},
                "children": [{**CACHED_CALL, **ADA, "input": "The thermometer says 18.", "output": ANSWER}],
            },
        ],
    }
    stream = {**CALL, "tokens": [None, 9], "cost": 0, "tags": ["slow"], "input": "slowly", "output": ANSWER}
    failing = {"name": "failing-agent", "type": "agent", **FAILED, "children": [FAILED_CALL]}
    # The client hashes every id together with its key.
    thread = {**THREAD, **ADA, "id": str(hashlib.sha256(f"thread-7{key}".encode()).hexdigest())[:8]}
    runs, threads = server.wait_for(key, [agent, stream, failing], [thread])
    # (X2) It names its key as the app of a thread; the key is never visible.
    assert key not in str(runs) + str(threads)


def test_the_package_from_npm(server, run_client):
    key = server.project_key()
    run_client(programs.node("monitored_agent.mjs", "lunary"), LUNARY_API_URL=server.url, LUNARY_PRIVATE_KEY=key)
    server.wait_for(key, MONITORED, [THREAD])
