"""What an endpoint like Anthropic's answers: messages, whole and streamed, of which most of the prompt is cached."""

import json

from stub_answer import next_step, unique, words

# Its counts exclude each other; the prompt is their sum.
INPUT_TOKENS, CACHE_WRITE_TOKENS, CACHE_READ_TOKENS, OUTPUT_TOKENS = 20, 900, 8000, 11
PROMPT_TOKENS = INPUT_TOKENS + CACHE_WRITE_TOKENS + CACHE_READ_TOKENS
USAGE = {
    "input_tokens": INPUT_TOKENS,
    "cache_creation_input_tokens": CACHE_WRITE_TOKENS,
    "cache_read_input_tokens": CACHE_READ_TOKENS,
    "cache_creation": {"ephemeral_5m_input_tokens": CACHE_WRITE_TOKENS, "ephemeral_1h_input_tokens": 0},
    "output_tokens": OUTPUT_TOKENS,
    "service_tier": "standard",
}


def message(request):
    tools = [tool["name"] for tool in request.get("tools", [])]
    step = next_step(request["messages"], tools)
    if isinstance(step, str):
        block = {"type": "text", "text": step}
    else:
        block = {"type": "tool_use", "id": unique("toolu_"), "name": step.tool, "input": step.arguments}
    return {
        "id": unique("msg_"),
        "type": "message",
        "role": "assistant",
        "model": request["model"],
        "content": [block],
        "stop_reason": "end_turn" if isinstance(step, str) else "tool_use",
        "stop_sequence": None,
        "usage": USAGE,
    }


def message_events(request):
    """The events of a streamed message."""
    whole = message(request)
    [block] = whole["content"]
    if block["type"] == "text":
        deltas = [{"type": "text_delta", "text": word} for word in words(block["text"])]
        empty = {**block, "text": ""}
    else:
        deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        empty = {**block, "input": {}}
    started = {**whole, "content": [], "stop_reason": None, "usage": {**USAGE, "output_tokens": 1}}
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    return [
        {"type": "message_start", "message": started},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ended, "usage": {"output_tokens": OUTPUT_TOKENS}},
        {"type": "message_stop"},
    ]
