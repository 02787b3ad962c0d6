"""An agent as its author would write it with the current lunary: decorators, a monitored client, a thread, feedback.

Started by the tests with the pinned client packages; the endpoints and the key come from the environment.
"""

import lunary
from openai import OpenAI

client = OpenAI(max_retries=0)
lunary.monitor(client)


@lunary.tool(name="get_weather")
def get_weather(city):
    messages = [{"role": "user", "content": "The thermometer says 18."}]
    client.chat.completions.create(model="gpt-4o-mini", messages=messages)
    return {"city": city, "celsius": 18}


@lunary.agent(name="weather-agent", user_id="user-42", user_props={"email": "ada@example.com"}, tags=["v1"])
def weather_agent(question):
    messages = [{"role": "user", "content": question}]
    answer = client.chat.completions.create(model="gpt-4o-mini", messages=messages, temperature=0.2)
    get_weather("Paris")
    return answer.choices[0].message.content


@lunary.agent(name="failing-agent")
def failing_agent(question):
    client.chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": question}])


question = "What is the weather in Paris?"
thread = lunary.open_thread(id="thread-7", user_id="user-42", user_props={"email": "ada@example.com"}, tags=["support"])
thread.track_message({"id": "question-1", "role": "user", "content": question})
answer = weather_agent(question)
thread.track_message({"id": "answer-1", "role": "assistant", "content": answer})
lunary.track_feedback("answer-1", {"thumb": "down", "comment": "it snowed"})

with lunary.tags(["slow"]):
    for _ in client.chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": "slowly"}], stream=True):
        pass
try:
    failing_agent("FAIL-500 please")
except Exception as error:
    print("failed as meant to:", type(error).__name__)
