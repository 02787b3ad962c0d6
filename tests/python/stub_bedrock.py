"""What Amazon Bedrock answers to `converse-stream`: events in the binary frames of AWS."""

import json
import struct
import zlib

from stub_answer import next_step, unique, words

INPUT_TOKENS, OUTPUT_TOKENS = 37, 11


def frames(request):
    tools = [tool["toolSpec"]["name"] for tool in request.get("toolConfig", {}).get("tools", [])]
    return b"".join(frame(kind, event) for kind, event in events(next_step(request["messages"], tools)))


def events(step):
    yield "messageStart", {"role": "assistant"}
    if isinstance(step, str):
        for word in words(step):
            yield "contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": word}}
    else:
        tool_use = {"toolUseId": unique("tooluse_"), "name": step.tool}
        yield "contentBlockStart", {"contentBlockIndex": 0, "start": {"toolUse": tool_use}}
        yield "contentBlockDelta", {"contentBlockIndex": 0, "delta": {"toolUse": {"input": json.dumps(step.arguments)}}}
    yield "contentBlockStop", {"contentBlockIndex": 0}
    yield "messageStop", {"stopReason": "end_turn" if isinstance(step, str) else "tool_use"}
    usage = {"inputTokens": INPUT_TOKENS, "outputTokens": OUTPUT_TOKENS, "totalTokens": INPUT_TOKENS + OUTPUT_TOKENS}
    yield "metadata", {"usage": usage, "metrics": {"latencyMs": 5}}


def frame(kind, event):
    """Lengths of all and of the headers with their checksum, headers, payload, the checksum of all before it."""
    payload = json.dumps(event).encode()
    headers = b"".join(
        struct.pack("!B", len(name)) + name + struct.pack("!BH", 7, len(value)) + value
        for name, value in [(b":message-type", b"event"), (b":event-type", kind.encode()), (b":content-type", b"application/json")]
    )
    prelude = struct.pack("!II", 16 + len(headers) + len(payload), len(headers))
    message = prelude + struct.pack("!I", zlib.crc32(prelude)) + headers + payload
    return message + struct.pack("!I", zlib.crc32(message))
