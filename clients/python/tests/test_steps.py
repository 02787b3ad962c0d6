"""Decorators and context managers: runs with tree, input, output and end, and functions that stay what they are."""

import asyncio
import contextvars
import inspect
import threading
import traceback

import pytest

import spindle_client


class Reported:
    """What a client reported, by run name."""

    def __init__(self, collector, client):
        self.collector, self.client = collector, client

    def __getitem__(self, name):
        assert self.client.flush(10)
        found = {}
        for event in self.collector.events:
            for phase in ("_start", "_end", "_error"):
                if event["name"] == name + phase:
                    assert phase not in found, f"{name} has two events {phase}"
                    found[phase] = event
        return found


@pytest.fixture
def client(make):
    return make()


@pytest.fixture
def reported(collector, client):
    return Reported(collector, client)


def ended(run):
    assert list(run) == ["_start", "_end"], run
    return run["_end"]


def failed(run):
    assert list(run) == ["_start", "_error"], run
    return run["_error"]


def test_a_function_is_a_run_with_its_arguments_and_its_result(client, reported):
    @client.tool
    def weather(city, days=1, *more, unit="C", **others):
        """Says the weather."""
        return {"city": city, "degrees": 18}

    assert weather("Paris", 2, "x", unit="F", sky="blue") == {"city": "Paris", "degrees": 18}
    run = reported["weather"]
    assert run["_start"]["input"] == {"city": "Paris", "days": 2, "args": ["x"], "unit": "F", "sky": "blue"}
    assert ended(run)["output"] == {"city": "Paris", "degrees": 18}
    assert run["_start"]["type"] == run["_end"]["type"] == "tool"
    assert (weather.__name__, weather.__doc__) == ("weather", "Says the weather.")
    assert list(inspect.signature(weather).parameters) == ["city", "days", "more", "unit", "others"]


def test_methods_leave_out_their_object(client, reported):
    class Clerk:
        @client.agent("clerk")
        def answer(self, question):
            return "yes"

        @classmethod
        @client.tool
        def make(cls, name):
            return name

    Clerk().answer("why?")
    Clerk.make("a")
    assert reported["clerk"]["_start"]["input"] == {"question": "why?"}
    assert reported["make"]["_start"]["input"] == {"name": "a"}


def test_class_and_static_methods_stay_what_they_are(client, reported):
    class Clerk:
        @client.tool
        @classmethod
        def make(cls, name):
            return cls.__name__ + name

        @client.tool("adds", tags=["a"])
        @staticmethod
        def add(a, b):
            return a + b

    assert (Clerk.make("a"), Clerk().make("b"), Clerk.add(1, 2), Clerk().add(3, 4)) == ("Clerka", "Clerkb", 3, 7)
    assert isinstance(vars(Clerk)["make"], classmethod) and isinstance(vars(Clerk)["add"], staticmethod)
    assert client.flush(10)
    begun = [event for event in reported.collector.events if event["name"].endswith("_start")]
    assert [(event["name"], event["input"]) for event in begun] == [
        ("make_start", {"name": "a"}),
        ("make_start", {"name": "b"}),
        ("adds_start", {"a": 1, "b": 2}),
        ("adds_start", {"a": 3, "b": 4}),
    ]
    assert begun[2]["tags"] == ["a"]


def test_what_is_no_function_is_left_as_it_is(client, caplog):
    class Clerk:
        @client.tool
        @property
        def name(self):
            return "Ada"

    assert Clerk().name == "Ada" and "tool of a property" in caplog.text
    with client.tool(5) as run:
        assert run.name == "5"


def test_one_decorator_for_two_functions_makes_two_steps(client, reported):
    step = client.tool()

    @step
    def first(a):
        return 1

    class Second:
        @step
        def second(self, b):
            return 2

    first("x")
    Second().second("y")
    first("z")
    assert client.flush(10)
    begun = [event for event in reported.collector.events if event["name"].endswith("_start")]
    assert [(event["name"], event["input"]) for event in begun] == [
        ("first_start", {"a": "x"}),
        ("second_start", {"b": "y"}),
        ("first_start", {"a": "z"}),
    ]


def test_runs_nest(client, reported):
    @client.tool
    def inner():
        return spindle_client.current_run()

    @client.agent("outer", tags=["v1"], metadata={"build": 7})
    def outer():
        with client.chain("middle") as middle:
            assert spindle_client.current_run() is middle
            assert inner() is not middle
        return "done"

    assert spindle_client.current_run() is None
    outer()
    assert spindle_client.current_run() is None
    outermost, middle, innermost = reported["outer"], reported["middle"], reported["inner"]
    assert "parent_run_id" not in outermost["_start"]
    assert middle["_start"]["parent_run_id"] == outermost["_start"]["run_id"]
    assert innermost["_start"]["parent_run_id"] == middle["_start"]["run_id"]
    assert outermost["_start"]["tags"] == ["v1"] and outermost["_start"]["metadata"]["build"] == 7
    assert all(run["_end"]["agent"] == "outer" for run in (outermost, middle, innermost))


def test_an_error_is_reported_and_goes_on(client, reported):
    @client.tool
    def failing():
        raise LookupError("no such city")

    with pytest.raises(LookupError, match="no such city"):
        failing()
    error = failed(reported["failing"])["error"]
    assert (error["name"], error["message"]) == ("LookupError", "no such city")
    assert "raise LookupError" in error["stack"]


def test_a_stack_is_written_in_the_background_as_python_writes_it(client, reported, monkeypatch):
    formatted_in = set()
    original = traceback.StackSummary.format

    def watched(self, **options):
        formatted_in.add(threading.current_thread().name)
        return original(self, **options)

    monkeypatch.setattr(traceback.StackSummary, "format", watched)

    def deep(levels):
        if levels:
            deep(levels - 1)
        else:
            raise LookupError("no such city")

    with pytest.raises(LookupError), client.tool("failing"):
        deep(40)
    written = failed(reported["failing"])["error"]["stack"]
    assert formatted_in == {"spindle-client"}
    lines = written.splitlines()
    assert lines[0] == "Traceback (most recent call last):" and lines[-1] == "LookupError: no such city"
    # The last 32 of 42 frames, as Python shortens them.
    assert written.count(", in deep\n") == 4 and "Previous line repeated 28 more times" in written
    assert lines[-3].startswith(f'  File "{__file__}", line ') and lines[-2] == '    raise LookupError("no such city")'


def test_an_error_of_syntax_says_where_it_is(client, reported):
    with pytest.raises(SyntaxError), client.tool("syntax"):
        compile("a b", "rule.txt", "exec")
    assert "rule.txt" in failed(reported["syntax"])["error"]["stack"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_errors_that_are_no_exceptions_go_on_too(client, reported, error):
    with pytest.raises(error), client.tool("stopped"):
        raise error
    assert failed(reported["stopped"])["error"]["name"] == error.__name__


def test_a_model_call_has_its_usage(client, reported):
    with client.llm("ask", model="m-1", input=[{"role": "user", "content": "hi"}]) as run:
        run.output = {"role": "assistant", "content": "ho"}
        run.usage(prompt_tokens=3, completion_tokens=4, cached_tokens=1, reasoning_tokens=None)
        run.model = "m-1-2026"
        run.metadata(temperature=0.5)
        run.tags("warm")
    call = ended(reported["ask"])
    assert reported["ask"]["_start"]["model"] == "m-1"
    assert (call["model"], call["prompt_tokens"], call["completion_tokens"], call["cached_tokens"]) == (
        "m-1-2026",
        3,
        4,
        1,
    )
    assert "reasoning_tokens" not in call and call["metadata"]["temperature"] == 0.5 and call["tags"] == ["warm"]


def test_tags_user_and_thread_are_inherited(client, reported, collector):
    with spindle_client.tags("a", "b"), spindle_client.user("ada@example.com"), spindle_client.thread("talk"):
        with client.agent("clerk", tags=["own"]), spindle_client.tags("c"), client.tool("look"):
            client.chat("user", "hi")
    client.chat("user", "outside")
    look = ended(reported["look"])
    assert look["tags"] == ["a", "b", "c"]
    assert (look["user_email"], look["thread_id"], look["agent"]) == ("ada@example.com", "talk", "clerk")
    assert reported["clerk"]["_start"]["tags"] == ["a", "b", "own"]
    inside, outside = (event for event in collector.events if event["name"] == "chat")
    assert (inside["thread_id"], inside["user_email"], inside["run_id"]) == ("talk", "ada@example.com", look["run_id"])
    assert not {"thread_id", "user_email", "agent", "tags"} & set(outside)


def test_messages_of_one_moment_keep_their_order(client, collector):
    for number in range(100):
        client.chat("user", str(number), "talk")
    client.flush(10)
    times = [event["timestamp"] for event in collector.events]
    assert len(set(times)) == 100 and times == sorted(times)


def test_the_model_that_answered_is_named_last(client, reported):
    for number in range(20):
        with client.llm(f"quick-{number}", model="asked") as run:
            run.model = "served"
        assert reported[f"quick-{number}"]["_start"]["timestamp"] < ended(reported[f"quick-{number}"])["timestamp"]


def test_feedback_saved_and_unsaved_name_their_run(client, collector):
    with client.agent("clerk") as run:
        client.saved()
    client.feedback(run, "positive", "good")
    client.feedback("some-id", "negative")
    client.unsaved(run)
    client.feedback(None, "positive")
    client.flush(10)
    said = [event for event in collector.events if event["name"] in ("feedback", "saved", "unsaved")]
    assert [event["run_id"] for event in said] == [run.id, run.id, "some-id", run.id]
    assert (said[1]["rating"], said[1]["comment"], "comment" in said[2]) == ("positive", "good", False)


def test_input_and_output_can_be_kept_back(client, reported, make, collector):
    @client.tool(capture_input=False, capture_output=False)
    def login(password):
        return "token"

    @client.tool(capture_output=False)
    def stream():
        yield "secret"

    login("secret")
    list(stream())
    silent = make(capture_input=False, capture_output=False)
    with silent.llm("quiet", input="secret") as run:
        run.output = "secret"
        run.input = "secret"
    silent.flush(10)
    assert "input" not in reported["login"]["_start"] and "output" not in ended(reported["login"])
    assert "secret" not in str(collector.events)


def test_a_disabled_client_does_nothing(collector):
    client = spindle_client.Client(url=collector.url, enabled=False)
    function = client.tool(lambda: 5)
    assert function() == 5
    with client.agent("a") as run:
        run.output = 1
        run.usage(prompt_tokens=1)
        client.chat("user", "hi")
    assert client.flush() and client.stats().made == 0 and client.close()


def test_a_coroutine_is_a_run(client, reported):
    @client.agent("async-agent")
    async def work(question):
        await asyncio.gather(step(1), step(2))
        return "answer"

    @client.tool
    async def step(number):
        await asyncio.sleep(0)
        with client.llm(f"call-{number}"):
            await asyncio.sleep(0)

    assert inspect.iscoroutinefunction(work)
    assert asyncio.run(work("why?")) == "answer"
    agent = ended(reported["async-agent"])
    calls = [ended(reported[f"call-{number}"]) for number in (1, 2)]
    steps = [e for e in reported.collector.events if e["name"] == "step_start"]
    assert {e["parent_run_id"] for e in steps} == {agent["run_id"]}
    assert {call["parent_run_id"] for call in calls} == {e["run_id"] for e in steps}


def test_asynchronous_context_managers(client, reported):
    async def work():
        async with client.tool("outer"), client.tool("inner"):
            pass

    asyncio.run(work())
    assert reported["inner"]["_start"]["parent_run_id"] == reported["outer"]["_start"]["run_id"]


def test_a_cancelled_task_ends_its_run(client, reported):
    @client.tool
    async def endless():
        await asyncio.Event().wait()

    async def work():
        task = asyncio.ensure_future(endless())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(work())
    assert failed(reported["endless"])["error"]["name"] == "CancelledError"


def streaming(client):
    @client.llm("stream", model="m")
    def generate(count):
        for number in range(count):
            with client.tool(f"part-{number}"):
                yield f"<{number}>"

    return generate


def test_a_generator_ends_its_run_when_it_ends(client, reported):
    assert list(streaming(client)(3)) == ["<0>", "<1>", "<2>"]
    call = ended(reported["stream"])
    assert call["output"] == "<0><1><2>"
    assert reported["part-2"]["_start"]["parent_run_id"] == call["run_id"]
    assert spindle_client.current_run() is None


def test_the_code_between_two_items_is_not_inside_of_the_generator(client, reported):
    stream = streaming(client)(2)
    for _ in stream:
        assert spindle_client.current_run() is None
        with client.tool("outside"):
            break
    stream.close()
    assert "parent_run_id" not in reported["outside"]["_start"]
    assert ended(reported["stream"])["output"] == "<0>"


def test_a_generator_that_is_dropped_ends_its_run(client, reported):
    stream = streaming(client)(2)
    next(stream)
    del stream
    assert ended(reported["stream"])["output"] == "<0>"


def test_a_generator_that_fails_fails_its_run(client, reported):
    @client.llm
    def broken():
        yield "a"
        raise OSError("lost")

    with pytest.raises(OSError, match="lost"):
        list(broken())
    run = failed(reported["broken"])
    assert run["error"]["message"] == "lost" and run["output"] == "a"


def test_a_generator_that_is_never_read_is_no_run(client):
    streaming(client)(3)
    assert client.stats().made == 0


def test_generators_send_throw_and_return(client, reported):
    @client.tool
    def echo():
        said = yield "ready"
        while True:
            try:
                said = yield f"heard {said}"
            except ValueError:
                return "end"

    generator = echo()
    assert next(generator) == "ready"
    assert generator.send("a") == "heard a"
    with pytest.raises(StopIteration) as stopped:
        generator.throw(ValueError())
    assert stopped.value.value == "end"
    assert ended(reported["echo"])["output"] == "readyheard a"


def test_items_that_are_no_text_are_a_list(client, reported):
    @client.tool
    def numbers():
        item = {"n": 1}
        yield item
        item["n"] = 2
        yield item

    list(numbers())
    assert ended(reported["numbers"])["output"] == [{"n": 1}, {"n": 2}]


def test_streams_are_cut(make, collector):
    client = make(value_bytes=1000)
    text = client.llm("text")(lambda: (c for c in ["x" * 300] * 10))
    items = client.llm("items")(lambda: (i for i in [{"a": 1}] * 5000))
    assert len("".join(text())) == 3000 and len(list(items())) == 5000
    client.flush(10)
    outputs = {event["name"]: event.get("output") for event in collector.events}
    assert "cut, " in outputs["text_end"] and len(outputs["text_end"]) < 1300
    assert "cut, " in outputs["items_end"][-1]


def test_an_asynchronous_generator_is_a_run(client, reported):
    @client.llm("stream")
    async def generate():
        for number in range(3):
            await asyncio.sleep(0)
            yield str(number)

    async def read(most):
        stream = generate()
        said = []
        async for item in stream:
            assert spindle_client.current_run() is None
            said.append(item)
            if len(said) == most:
                await stream.aclose()
        return said

    assert inspect.isasyncgenfunction(generate)
    assert asyncio.run(read(9)) == ["0", "1", "2"]
    assert ended(reported["stream"])["output"] == "012"


def test_an_asynchronous_generator_that_is_closed_ends_its_run(client, reported):
    @client.llm("stream")
    async def generate():
        try:
            yield "a"
            yield "b"
        finally:
            with client.tool("cleanup"):
                await asyncio.sleep(0)

    async def read():
        stream = generate()
        async for _ in stream:
            break
        await stream.aclose()

    asyncio.run(read())
    call = ended(reported["stream"])
    assert call["output"] == "a"
    assert reported["cleanup"]["_start"]["parent_run_id"] == call["run_id"]


def test_an_asynchronous_generator_that_fails_fails_its_run(client, reported):
    @client.llm("stream")
    async def generate():
        yield "a"
        raise OSError("lost")

    async def read():
        return [item async for item in generate()]

    with pytest.raises(OSError, match="lost"):
        asyncio.run(read())
    assert failed(reported["stream"])["output"] == "a"


def test_a_function_that_returns_a_coroutine_is_a_run_until_that_ends(client, reported):
    async def later():
        with client.tool("inside"):
            return 5

    assert asyncio.run(client.tool("outside")(lambda: later())()) == 5
    assert ended(reported["outside"])["output"] == 5
    assert reported["inside"]["_start"]["parent_run_id"] == reported["outside"]["_start"]["run_id"]


def test_threads_take_the_run_with_them_where_the_application_says_so(client, reported):
    def work(name):
        with client.tool(name):
            pass

    with client.agent("agent"):
        context = contextvars.copy_context()
        threads = [
            threading.Thread(target=context.run, args=(work, "with")),
            threading.Thread(target=work, args=("without",)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert reported["with"]["_start"]["parent_run_id"] == reported["agent"]["_start"]["run_id"]
    assert "parent_run_id" not in reported["without"]["_start"]


def test_explicit_runs_end_once(client, reported):
    run = client.start("chain", "explicit", input={"a": 1})
    child = client.start("tool", "child", parent=run)
    assert spindle_client.current_run() is None
    child.fail("a text")
    run.end({"b": 2})
    run.end("again")
    run.fail(ValueError())
    run.output = "late"
    assert ended(reported["explicit"])["output"] == {"b": 2}
    assert failed(reported["child"])["error"] == {"message": "a text"}
    assert reported["child"]["_start"]["parent_run_id"] == run.id


def test_nothing_an_application_passes_raises(client):
    class Cruel:
        def __getattribute__(self, name):
            raise RuntimeError("no")

        def __repr__(self):
            raise RuntimeError("no")

        __str__ = __repr__

    cruel = Cruel()
    with client.llm("a", model=cruel, input=cruel, tags=cruel, metadata={"c": cruel}) as run:
        run.output = cruel
        run.model = cruel
        run.tags(cruel)
        run.usage(prompt_tokens=cruel, completion_tokens=-1, total_tokens="3")
        run.metadata(c=cruel)
    with spindle_client.tags(cruel), spindle_client.user(cruel), spindle_client.thread(cruel):
        client.chat(cruel, cruel, cruel)
    client.feedback(cruel, cruel, cruel)
    client.saved(cruel)
    client.start(cruel, cruel, tags=cruel, parent=None).end(cruel)
    assert client.tool(lambda value: value)(cruel) is cruel
    assert client.flush(10)


def test_names_are_cut_to_what_the_server_takes(client, collector):
    with client.tool("é" * 1000, tags=["t" * 1000] + [str(n) for n in range(100)]):
        pass
    client.chat("user", "a", "t" * 500)
    client.chat("user", "a", "t" * 501)
    client.flush(10)
    threads = [event["thread_id"] for event in collector.events[2:]]
    assert threads[0] != threads[1] and all(len(thread.encode()) <= 256 for thread in threads)
    assert len(collector.events[0]["name"].encode()) <= 512
    assert len(collector.events[0]["tags"]) <= 64 and all(len(tag) <= 512 for tag in collector.events[0]["tags"])
