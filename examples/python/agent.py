"""An agent that reports to Spindle with nothing but `spindle_client`: runs, a conversation, feedback, a saved run.

Set SPINDLE_URL, SPINDLE_API_KEY and SPINDLE_APP_ID, then run it. The model is `stub_model.py`, unless MODEL_URL is that
of another one with chat completions.
"""

import json
import os
import urllib.request

import stub_model

import spindle_client as spindle

MODEL = "gpt-4o-mini"
MODEL_URL = os.environ.get("MODEL_URL") or stub_model.start()[1]
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]


def ask_model(messages):
    """A call of a model without any package: its usage is set explicitly."""
    with spindle.llm("ask-model", model=MODEL, input=messages) as run:
        body = json.dumps({"model": MODEL, "messages": messages, "tools": TOOLS}).encode()
        request = urllib.request.Request(MODEL_URL + "/v1/chat/completions", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            said = json.load(answer)
        run.output = said["choices"][0]["message"]
        run.model = said["model"]
        usage = said["usage"]
        run.usage(
            prompt_tokens=usage["prompt_tokens"],
            completion_tokens=usage["completion_tokens"],
            cached_tokens=usage["prompt_tokens_details"]["cached_tokens"],
        )
    return run.id, said["choices"][0]["message"]


@spindle.tool
def get_weather(city):
    """A tool: its arguments and its result are kept by themselves."""
    if city == "Atlantis":
        raise LookupError("there is no Atlantis")
    return {"city": city, "degrees": 18}


@spindle.llm("stream-model", model=MODEL)
def speak(text):
    """A stream: its run ends when the last part was read."""
    for word in text.split(" "):
        yield word + " "


@spindle.agent("weather-agent", tags=["example"])
def answer(question):
    """The agent: everything it calls is below it in the tree."""
    spindle.chat("user", question)
    messages = [{"role": "user", "content": question}]
    _, message = ask_model(messages)
    for call in message.get("tool_calls") or []:
        result = get_weather(**json.loads(call["function"]["arguments"]))
        messages += [message, {"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)}]
    run_id, message = ask_model(messages)
    for _ in speak(message["content"]):
        pass
    spindle.chat("assistant", message["content"], run=run_id)
    return message["content"], run_id


@spindle.agent("lost-agent")
def look_for_atlantis():
    """An agent that fails."""
    return get_weather("Atlantis")


def main():
    """One conversation, and one thing that goes wrong."""
    with spindle.user("ada@example.com"), spindle.thread("talk-1"), spindle.agent("session") as session:
        said, run_id = answer("What is the weather in Paris?")
    print(said)
    spindle.feedback(run_id, "positive", "quick and right")
    spindle.saved(session)
    try:
        look_for_atlantis()
    except LookupError as error:
        print("as expected:", error)


if __name__ == "__main__":
    main()
