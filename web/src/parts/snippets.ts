/** How to send the first event, as programs one can copy and run. Pure. */

/** A program. */
export type Snippet = { id: string; label: string; text: string };

/** The programs for a Spindle at this address. The key is in the environment, so that it stands in no file. */
export function snippets(origin: string): Snippet[] {
  return [
    { id: "curl", label: "curl", text: curl(origin) },
    { id: "python", label: "Python", text: python(origin) },
    { id: "typescript", label: "TypeScript", text: typescript(origin) },
  ];
}

function curl(origin: string): string {
  return `curl ${origin}/api/report \\
  -H "Authorization: Bearer $SPINDLE_API_KEY" \\
  -H "Content-Type: application/json" \\
  -d '{"events": [{
    "name": "llm_call",
    "run_id": "hello-'$(date +%s)'",
    "timestamp": "'$(date -u +%Y-%m-%dT%H:%M:%SZ)'",
    "model": "gpt-4o-mini",
    "input": [{"role": "user", "content": "Say hello"}],
    "output": {"role": "assistant", "content": "Hello!"},
    "prompt_tokens": 9,
    "completion_tokens": 3,
    "duration_ms": 420
  }]}'
`;
}

function python(origin: string): string {
  return `import json, os, urllib.request, uuid
from datetime import datetime, timezone

event = {
    "name": "llm_call",
    "run_id": f"hello-{uuid.uuid4()}",
    "timestamp": datetime.now(timezone.utc).isoformat(),
    "model": "gpt-4o-mini",
    "input": [{"role": "user", "content": "Say hello"}],
    "output": {"role": "assistant", "content": "Hello!"},
    "prompt_tokens": 9,
    "completion_tokens": 3,
    "duration_ms": 420,
}
request = urllib.request.Request(
    "${origin}/api/report",
    data=json.dumps({"events": [event]}).encode(),
    headers={
        "Authorization": "Bearer " + os.environ["SPINDLE_API_KEY"],
        "Content-Type": "application/json",
    },
)
with urllib.request.urlopen(request) as answer:
    print(answer.read().decode())
`;
}

function typescript(origin: string): string {
  return `const event = {
  name: "llm_call",
  run_id: \`hello-\${crypto.randomUUID()}\`,
  timestamp: new Date().toISOString(),
  model: "gpt-4o-mini",
  input: [{ role: "user", content: "Say hello" }],
  output: { role: "assistant", content: "Hello!" },
  prompt_tokens: 9,
  completion_tokens: 3,
  duration_ms: 420,
};
const answer = await fetch("${origin}/api/report", {
  method: "POST",
  headers: {
    Authorization: \`Bearer \${process.env.SPINDLE_API_KEY}\`,
    "Content-Type": "application/json",
  },
  body: JSON.stringify({ events: [event] }),
});
console.log(answer.status, await answer.text());
`;
}
