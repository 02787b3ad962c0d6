"""The same agent three times, with the `openai`, `anthropic` and `langchain-core` packages, which Spindle observes.

`pip install spindle-client openai anthropic langchain-core`, set SPINDLE_URL, SPINDLE_API_KEY and SPINDLE_APP_ID, then
run it. The model is `stub_model.py`.
"""

import json

import anthropic
import openai
import stub_model
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate

import spindle_client as spindle
from spindle_client.integrations.anthropic import observe as observe_anthropic
from spindle_client.integrations.langchain import SpindleHandler
from spindle_client.integrations.openai import observe as observe_openai

QUESTION = "What is the weather in Paris?"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


@spindle.tool
def get_weather(city):
    """The tool of all three."""
    return {"city": city, "degrees": 18}


@spindle.agent("openai-agent")
def with_openai(url):
    """One line observes the client; its calls stay what they are."""
    client = observe_openai(openai.OpenAI(api_key="none", base_url=url + "/v1"))
    tools = [{"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}]
    messages = [{"role": "user", "content": QUESTION}]
    message = client.chat.completions.create(model="gpt-4o-mini", messages=messages, tools=tools).choices[0].message
    for call in message.tool_calls or []:
        result = get_weather(**json.loads(call.function.arguments))
        messages += [message, {"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)}]
    stream = client.chat.completions.create(
        model="gpt-4o-mini", messages=messages, tools=tools, stream=True, stream_options={"include_usage": True}
    )
    return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)


@spindle.agent("anthropic-agent")
def with_anthropic(url):
    """The same with Anthropic's messages."""
    client = observe_anthropic(anthropic.Anthropic(api_key="none", base_url=url))
    tools = [{"name": "get_weather", "input_schema": SCHEMA}]
    messages = [{"role": "user", "content": QUESTION}]
    said = client.messages.create(model="claude-sonnet-4", max_tokens=100, messages=messages, tools=tools)
    for block in said.content:
        if block.type == "tool_use":
            result = {"type": "tool_result", "tool_use_id": block.id, "content": json.dumps(get_weather(**block.input))}
            messages += [{"role": "assistant", "content": said.content}, {"role": "user", "content": [result]}]
    with client.messages.stream(model="claude-sonnet-4", max_tokens=100, messages=messages, tools=tools) as stream:
        return "".join(stream.text_stream)


@spindle.agent("langchain-agent")
def with_langchain():
    """A callback handler observes what it is given to."""
    model = FakeListChatModel(responses=[stub_model.ANSWER])
    chain = ChatPromptTemplate.from_messages([("system", "Be brief."), ("human", "{question}")]) | model
    config = {"callbacks": [SpindleHandler()], "run_name": "brief-chain"}
    return chain.invoke({"question": QUESTION}, config=config).content


def main():
    """All three."""
    _, url = stub_model.start()
    for said in (with_openai(url), with_anthropic(url), with_langchain()):
        print(said)


if __name__ == "__main__":
    main()
