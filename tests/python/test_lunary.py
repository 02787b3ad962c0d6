"""The real `lunary` packages of today report; runs, threads and feedback are what their author would expect."""

import programs
from weather import MONITORED, THREAD


def test_the_package_from_npm(server, run_client):
    key = server.project_key()
    run_client(programs.node("monitored_agent.mjs", "lunary"), LUNARY_API_URL=server.url, LUNARY_PRIVATE_KEY=key)
    server.wait_for(key, MONITORED, [THREAD])
