"""An agent as its author would write it: decorators of llmonitor around a nested run with model and tool calls.

Started by the tests with the pinned client packages; the endpoints come from the environment. The argument names the
package, because the early versions of lunary are llmonitor under another name.
"""

import importlib
import sys

from openai import OpenAI

monitor = importlib.import_module(sys.argv[1])
client = OpenAI(max_retries=0)
monitor.monitor(client)

TOOLS = [
    {
        "type": "function",
        "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
    }
]


@monitor.tool(name="get_weather")
def get_weather(city):
    return {"city": city, "celsius": 18}


@monitor.tool(name="lookup")
def lookup(key):
    raise KeyError(f"unknown city: {key}")


@monitor.agent(name="weather-agent", user_id="user-42", user_props={"email": "ada@example.com"}, tags=["v1"])
def weather_agent(question):
    messages = [{"role": "user", "content": question}]
    client.chat.completions.create(model="gpt-4o-mini", messages=messages, tools=TOOLS, temperature=0.2)
    weather = get_weather("Paris")
    messages.append({"role": "user", "content": f"tool said {weather}"})
    answer = client.chat.completions.create(model="gpt-4o-mini", messages=messages)
    return answer.choices[0].message.content


@monitor.agent(name="failing-agent")
def failing_agent(question):
    try:
        lookup("Atlantis")
    except KeyError:
        pass
    client.chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": question}])


print(weather_agent("What is the weather in Paris?"))
try:
    failing_agent("FAIL-500 please")
except Exception as error:
    print("failed as meant to:", type(error).__name__)
