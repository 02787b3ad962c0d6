"""An agent as its author would write it with Langfuse's SDK: decorators, its OpenAI client, user, session and tags.

The first argument says what else it does: `score` gives the answer a score, `check` asks whether the keys are valid and
does nothing else. Started by the tests with the pinned client packages; address and keys come from the environment.
"""

import sys

from langfuse import get_client, observe, propagate_attributes
from langfuse.openai import OpenAI

TOOLS = [
    {
        "type": "function",
        "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
    }
]

langfuse = get_client()
if sys.argv[1:] == ["check"]:
    try:
        print("the keys are valid:", langfuse.auth_check())
    except Exception as error:
        print("the keys are refused:", type(error).__name__)
    sys.exit()
client = OpenAI(max_retries=0)


@observe(as_type="tool", name="get_weather")
def get_weather(city):
    return {"city": city, "celsius": 18}


@observe(as_type="agent", name="weather-agent")
def weather_agent(question):
    with propagate_attributes(user_id="user-42", session_id="thread-7", tags=["v1"]):
        messages = [{"role": "user", "content": question}]
        asked = client.chat.completions.create(model="gpt-4o-mini", messages=messages, tools=TOOLS, temperature=0.2)
        [call] = asked.choices[0].message.tool_calls
        messages.append({"role": "assistant", "tool_calls": [call.model_dump()]})
        messages.append({"role": "tool", "tool_call_id": call.id, "content": str(get_weather("Paris"))})
        answer = client.chat.completions.create(model="gpt-4o-mini", messages=messages, name="answer")
        if sys.argv[1:] == ["score"]:
            langfuse.score_current_span(name="helpful", value=1, data_type="BOOLEAN", comment="it rained")
        return answer.choices[0].message.content


@observe(name="failing-step")
def failing_step(question):
    client.chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": question}])


print(weather_agent("What is the weather in Paris?"))
if sys.argv[1:] != ["score"]:
    stream = client.chat.completions.create(
        model="gpt-4o-mini",
        messages=[{"role": "user", "content": "slowly"}],
        stream=True,
        stream_options={"include_usage": True},
    )
    for piece in stream:
        assert piece.id.startswith("chatcmpl-")
    try:
        failing_step("FAIL-500 please")
    except Exception as error:
        print("failed as meant to:", type(error).__name__)
langfuse.flush()
