"""What the client programs do, as trees of runs and as threads: an agent that asks a model, a tool, and the model again."""

from stub_answer import ANSWER

QUESTION = "What is the weather in Paris?"
CALL = {"name": "gpt-4o-mini", "type": "llm", "model": "gpt-4o-mini", "tokens": [37, 11], "cost": "0.00001215"}
FAILED = {"status": "error", "input": "FAIL-500 please", "error": "500"}
FAILED_CALL = {"name": "gpt-4o-mini", "type": "llm", "model": "gpt-4o-mini", **FAILED}
ADA = {"user": "ada@example.com"}

# What `tests/node/monitored_agent.mjs` does, with either package.
MONITORED = [
    {
        **{"name": "weather-agent", "type": "agent", "tags": ["v1"], "input": QUESTION, "output": ANSWER},
        **ADA,
        "total_cost": "0.0000243",
        "children": [
            {**CALL, **ADA, "input": QUESTION, "output": ANSWER},
            {
                **{"name": "get_weather", "type": "tool", "tags": ["tool-tag"], "input": "Paris", "output": "18"},
                **ADA,
                "children": [{**CALL, **ADA, "input": "The thermometer says 18.", "output": ANSWER}],
            },
        ],
    },
    # A stream tells the number of its pieces and no prompt, so it has no cost.
    {**CALL, "tokens": [None, 9], "cost": 0, "input": "slowly", "output": ANSWER},
    {"name": "failing-agent", "type": "agent", **FAILED, "children": [FAILED_CALL]},
]
THREAD = {
    "id": "thread-7",
    "messages": [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": ANSWER, "feedback": ["negative", "it snowed"]},
    ],
}

# What a program whose calls are for a user, in a session and with a tag says of each run.
INSIDE = {"user": "user-42", "thread": "thread-7", "tags": ["v1"]}
# A call whose client tells the model that answered and what was cached.
SERVED_CALL = {"type": "llm", "model": "gpt-4o-mini-2024-07-18", "tokens": [37, 11], "cached": 8, "cost": "0.00001155"}
