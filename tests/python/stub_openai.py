"""What an endpoint like OpenAI's answers: chats and responses, whole and streamed, and embeddings."""

import json

from stub_answer import ANSWER, next_step, unique, words

PROMPT_TOKENS, COMPLETION_TOKENS, CACHED_TOKENS = 37, 11, 8
EMBEDDING_TOKENS = 5
USAGE = {
    "prompt_tokens": PROMPT_TOKENS,
    "completion_tokens": COMPLETION_TOKENS,
    "total_tokens": PROMPT_TOKENS + COMPLETION_TOKENS,
    "prompt_tokens_details": {"cached_tokens": CACHED_TOKENS},
}
RESPONSE_USAGE = {
    "input_tokens": PROMPT_TOKENS,
    "input_tokens_details": {"cached_tokens": CACHED_TOKENS},
    "output_tokens": COMPLETION_TOKENS,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": PROMPT_TOKENS + COMPLETION_TOKENS,
}


def answer(request):
    """A chat completion."""
    tools = [tool["function"]["name"] for tool in request.get("tools", [])]
    functions = [function["name"] for function in request.get("functions", [])]
    wants_object = request.get("response_format", {}).get("type") == "json_schema"
    step = next_step(request["messages"], tools or functions, wants_object)
    if isinstance(step, str):
        message = {"role": "assistant", "content": step}
    else:
        call = {"name": step.tool, "arguments": json.dumps(step.arguments)}
        calls = {"tool_calls": [{"id": unique("call_"), "type": "function", "function": call}]} if tools else {"function_call": call}
        message = {"role": "assistant", "content": None, **calls}
    finish = "stop" if isinstance(step, str) else "tool_calls"
    return {**head(request, "chat.completion"), "choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": USAGE}


def pieces(request):
    """The answer word by word; the usage at the end for who asks for it."""
    chunk = head(request, "chat.completion.chunk")
    deltas = [{"role": "assistant", "content": ""}, *({"content": word} for word in words(ANSWER))]
    for delta in deltas:
        yield {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    if (request.get("stream_options") or {}).get("include_usage"):
        yield {**chunk, "choices": [], "usage": USAGE}


def response(request):
    """A response of the Responses API."""
    tools = [tool["name"] for tool in request.get("tools", [])]
    wants_object = (request.get("text") or {}).get("format", {}).get("type") == "json_schema"
    step = next_step(request["input"], tools, wants_object)
    if isinstance(step, str):
        content = {"type": "output_text", "text": step, "annotations": []}
        item = {"type": "message", "id": unique("msg_"), "role": "assistant", "content": [content]}
    else:
        call = {"name": step.tool, "arguments": json.dumps(step.arguments)}
        item = {"type": "function_call", "id": unique("fc_"), "call_id": unique("call_"), **call}
    return {
        "id": unique("resp_"),
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": request["model"] + "-2024-07-18",
        "output": [{**item, "status": "completed"}],
        "usage": RESPONSE_USAGE,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": 1,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1,
    }


def response_events(request):
    """The events of a streamed response that answers with a text."""
    whole = response({**request, "tools": []})
    [item] = whole["output"]
    [content] = item["content"]
    place = {"output_index": 0, "item_id": item["id"], "content_index": 0}
    running = {**whole, "status": "in_progress", "output": [], "usage": None}
    events = [
        {"type": "response.created", "response": running},
        {"type": "response.in_progress", "response": running},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "status": "in_progress", "content": []}},
        {"type": "response.content_part.added", **place, "part": {**content, "text": ""}},
        *({"type": "response.output_text.delta", **place, "delta": word, "logprobs": []} for word in words(content["text"])),
        {"type": "response.output_text.done", **place, "text": content["text"], "logprobs": []},
        {"type": "response.content_part.done", **place, "part": content},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def embedding(request):
    row = {"object": "embedding", "index": 0, "embedding": [0.25, 0.5]}
    usage = {"prompt_tokens": EMBEDDING_TOKENS, "total_tokens": EMBEDDING_TOKENS}
    return {"object": "list", "data": [row], "model": request["model"], "usage": usage}


def head(request, kind):
    return {"id": unique("chatcmpl-"), "object": kind, "created": 1, "model": request["model"] + "-2024-07-18"}
