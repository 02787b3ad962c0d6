"""Expected trees of runs and threads, and the differences from the server's answers.

An expected run says only what is there: what it does not mention must be absent. It is found by the beginning of its id
when it gives one, else by its name below its parent. `tests/captures/README.md` has the list of its fields.
"""

import json

# Instead of one of the fields in `EQUAL`, or of the cost: not compared.
ANY = object()
# Fields that are equal or wrong, by the name an expectation gives them.
EQUAL = {"type": "type", "model": "model", "user": "user_email", "thread": "thread_id"}
# The same, compared where they are given.
WHERE_GIVEN = {"agent": "agent", "calls": "llm_calls"}
# Fields that hold a text somewhere.
HOLD = {"input": "input", "output": "output", "error": "error"}


def size(trees):
    """How many runs trees have."""
    return sum(1 + size(tree.get("children", [])) for tree in trees)


def faults_of_runs(expected, runs):
    """How runs, given whole, differ from expected trees."""
    faults = []
    rest = {run["run_id"]: run for run in runs}
    branches = [(wanted, wanted.get("parent")) for wanted in expected]
    while branches:
        wanted, parent = branches.pop(0)
        label = f"{wanted.get('id', '')} {wanted['name']}".strip()
        candidates = [run for run in rest.values() if is_meant(wanted, parent, run)]
        if not candidates:
            faults.append(f"{label} is not there")
            continue
        # Several calls of one model are distinguished by their content.
        judged = [(faults_of_run(wanted, parent, run), run) for run in candidates]
        found, run = min(judged, key=lambda pair: len(pair[0]))
        del rest[run["run_id"]]
        faults += [f"{label}: {fault}" for fault in found]
        branches += [(child, run["run_id"]) for child in wanted.get("children", [])]
    return faults + [f"{run['name']} is not expected: {run}" for run in rest.values()]


def is_meant(wanted, parent, run):
    if "id" in wanted:
        return run["run_id"].startswith(wanted["id"])
    return (run["name"], run["parent_run_id"]) == (wanted["name"], parent)


def faults_of_run(wanted, parent, run):
    """How one run differs."""
    prompt, completion = wanted.get("tokens", [None, None])
    pairs = {ours: (wanted.get(short), run[ours]) for short, ours in EQUAL.items() if wanted.get(short) is not ANY}
    pairs |= {
        "name": (wanted["name"], run["name"]),
        "status": (wanted.get("status", "success"), run["status"]),
        "parent_run_id": (parent, run["parent_run_id"]),
        "tags": (wanted.get("tags", []), run["tags"]),
        "prompt_tokens": (prompt, run["prompt_tokens"]),
        "completion_tokens": (completion, run["completion_tokens"]),
        "cached_tokens": (wanted.get("cached"), run["cached_tokens"] or None),
        "cost": (cost_of(wanted, run), run["cost"]),
        "feedback": (wanted.get("feedback"), rating_of(run["feedback"])),
    }
    if None not in (prompt, completion):
        pairs["total_tokens"] = (prompt + completion, run["total_tokens"])
    if "total_cost" in wanted:
        pairs["total_cost"] = (float(wanted["total_cost"]), run["total_cost"])
    for short, ours in WHERE_GIVEN.items():
        if short in wanted:
            pairs[ours] = (wanted[short], run[ours])
    if "ms" in wanted:
        pairs["latency_s"] = (wanted["ms"] / 1000, run["latency_s"])
    for key, value in wanted.get("metadata", {}).items():
        pairs[f"metadata.{key}"] = (value, (run["metadata"] or {}).get(key))
    faults = unequal(pairs)
    for short, ours in HOLD.items():
        text, found = wanted.get(short), run[ours]
        if (found is not None) if text is None else text not in as_text(found):
            faults.append(f"{ours} is {found!r} and does not hold {text!r}")
    return faults


def cost_of(wanted, run):
    """What a run should cost, in USD."""
    cost = wanted.get("cost", 0)
    return run["cost"] if cost is ANY else float(cost)


def faults_of_threads(expected, threads):
    """How threads, given whole, differ: who said what, and what was thought of it."""
    faults = []
    rest = {thread["thread_id"]: thread for thread in threads}
    for wanted in expected:
        found = [name for name in rest if name.startswith(wanted["id"])]
        if len(found) != 1:
            faults.append(f"{wanted['id']}: {len(found)} threads")
            continue
        thread = rest.pop(found[0])
        said = [(message["role"], message["content"], rating_of(message["feedback"])) for message in thread["messages"]]
        expected_said = [(message["role"], message["content"], message.get("feedback")) for message in wanted["messages"]]
        pairs = {
            "messages": (expected_said, said),
            "user_email": (wanted.get("user"), thread["user_email"]),
            "total_cost": (float(wanted.get("cost", 0)), thread["total_cost"]),
        }
        faults += [f"{wanted['id']}: {fault}" for fault in unequal(pairs)]
    return faults + [f"{name}: a thread that is not expected" for name in rest]


def unequal(pairs):
    return [f"{field} is {found!r} and not {wanted!r}" for field, (wanted, found) in pairs.items() if found != wanted]


def rating_of(feedback):
    """Rating and comment of a feedback."""
    return feedback and [feedback["rating"], feedback["comment"]]


def as_text(value):
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
