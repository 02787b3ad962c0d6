"""The process ends, forks or gets a signal: what was reported is sent once, and the end stays what it was."""

import signal

import pytest

REPORTS = """
import os, signal, sys, threading, time
# A background job inherits this signal as ignored, and so would this program.
signal.signal(signal.SIGINT, signal.default_int_handler)
import spindle_client as spindle
for number in range(30):
    spindle.chat("user", str(number), "talk")
"""


def contents(collector):
    return sorted(event.get("content", event["name"]) for event in collector.events)


THIRTY = sorted(str(number) for number in range(30))


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        ("", 0),
        ("sys.exit(3)", 3),
        ("raise KeyboardInterrupt", -signal.SIGINT),
        ("raise RuntimeError", 1),
        ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)", -signal.SIGTERM),
        ("os.kill(os.getpid(), signal.SIGINT); time.sleep(60)", -signal.SIGINT),
        ("t = threading.Thread(target=sys.exit); t.start(); t.join()", 0),
    ],
)
def test_the_end_of_a_process_sends_what_waits_and_keeps_its_status(collector, run, ending, status):
    assert run(REPORTS + ending)[0] == status
    assert contents(collector) == THIRTY
    assert collector.requests == 1


def test_events_of_other_exit_handlers_are_sent(collector, run):
    text = "import atexit\nimport spindle_client\natexit.register(lambda: spindle_client.chat('user', 'last'))\n"
    assert run(text) == (0, "")
    assert contents(collector) == ["last"]


def test_events_that_threads_make_after_the_main_one_are_sent(collector, run):
    run(REPORTS + "threading.Thread(target=lambda: (time.sleep(0.2), spindle.chat('user', 'late'))).start()")
    assert contents(collector) == sorted([*THIRTY, "late"])


def test_an_application_that_handles_sigterm_does_so(collector, run):
    text = """
    import os, signal, sys
    def ended(number, frame):
        print("handled", number)
        sys.exit(7)
    signal.signal(signal.SIGTERM, ended)
    import spindle_client as spindle
    spindle.chat("user", "hello")
    os.kill(os.getpid(), signal.SIGTERM)
    """
    assert run(text) == (7, "handled 15\n")
    assert contents(collector) == ["hello"]


def test_a_handler_of_the_application_does_not_wait_for_the_server(collector, run):
    collector.always = "hang"
    text = """
    import os, signal, time
    def ended(number, frame):
        print(time.monotonic() - began < 20, flush=True)
        os._exit(7)
    signal.signal(signal.SIGTERM, ended)
    import spindle_client as spindle
    spindle.configure(timeout_s=40.0, exit_timeout_s=40.0)
    spindle.chat("user", "hello")
    began = time.monotonic()
    os.kill(os.getpid(), signal.SIGTERM)
    """
    assert run(text) == (7, "True\n")


def test_a_handler_that_lets_the_program_go_on_has_events_sent_at_once(collector, run):
    text = """
    import os, signal, sys, time
    signal.signal(signal.SIGTERM, lambda *_: None)
    import spindle_client as spindle
    spindle.configure(flush_interval_s=3600.0)
    spindle.chat("user", "hello")
    os.kill(os.getpid(), signal.SIGTERM)
    until = time.monotonic() + 30
    while spindle.stats().sent == 0 and time.monotonic() < until:
        time.sleep(0.01)
    assert spindle.stats().sent == 1
    """
    assert run(text) == (0, "")


def test_an_application_that_ignores_sigterm_goes_on(collector, run):
    text = """
    import os, signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    import spindle_client as spindle
    spindle.chat("user", "hello")
    os.kill(os.getpid(), signal.SIGTERM)
    print("still here")
    """
    assert run(text) == (0, "still here\n")
    assert contents(collector) == ["hello"]


def test_sigterm_while_all_threads_report_loses_nothing_that_was_queued(collector, program):
    process = program(
        """
        import threading
        import spindle_client as spindle
        def work():
            while True:
                spindle.chat("user", "again")
        # First of all: a queue that is full says so in the same output.
        print("ready", flush=True)
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        work()
        """
    )
    assert process.stdout.readline() == "ready\n"
    collector.wait(lambda it: it.requests >= 3)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == -signal.SIGTERM


@pytest.mark.parametrize("server", ["down", "hangs"])
def test_a_server_that_takes_nothing_delays_the_end_by_a_bounded_time(collector, run, server):
    collector.always = "hang"
    url = collector.url if server == "hangs" else "http://127.0.0.1:9"
    text = """
    import atexit, time
    atexit.register(lambda: print(time.monotonic() - began < 20))
    import spindle_client as spindle
    spindle.configure(exit_timeout_s=0.5)
    spindle.chat("user", "hello")
    began = time.monotonic()
    """
    status, output = run(text, SPINDLE_URL=url)
    assert status == 0 and output.endswith("True\n"), output
    assert "were not sent before the process ended" in output or "was dropped" in output


FORKS = {
    "fork": """
        child = os.fork()
        if child == 0:
            report("child")
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
    """,
    "two levels": """
        child = os.fork()
        if child == 0:
            grandchild = os.fork()
            report("grandchild" if grandchild == 0 else "child")
            if grandchild:
                os.waitpid(grandchild, 0)
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
    """,
    "multiprocessing fork": """
        import multiprocessing
        child = multiprocessing.get_context("fork").Process(target=report, args=("child",))
        child.start()
        child.join()
        assert child.exitcode == 0
    """,
    "multiprocessing spawn": """
        import multiprocessing
        child = multiprocessing.get_context("spawn").Process(target=report, args=("child",))
        child.start()
        child.join()
        assert child.exitcode == 0
    """,
    "pool": """
        from concurrent.futures import ProcessPoolExecutor
        import multiprocessing
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
            pool.submit(report, "child").result()
    """,
    "subprocess": """
        import subprocess
        subprocess.run([sys.executable, "-c", "import spindle_client as s; s.chat('user', 'child')"], check=True)
    """,
    "prefork": """
        # As servers do that fork their workers after the application is loaded and tell them to end.
        reading, writing = os.pipe()
        workers = []
        for _ in range(2):
            worker = os.fork()
            if worker == 0:
                signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
                report("child")
                os.write(writing, b"x")
                while True:
                    time.sleep(1)
            workers.append(worker)
        assert len(os.read(reading, 1)) + len(os.read(reading, 1)) == 2
        for worker in workers:
            os.kill(worker, signal.SIGTERM)
        for worker in workers:
            assert os.waitpid(worker, 0)[1] == 0
    """,
}


@pytest.mark.parametrize("way", FORKS)
@pytest.mark.parametrize("flushed", [False, True], ids=["waiting", "connected"])
def test_parent_and_child_each_send_their_own_events_once(collector, run, way, flushed):
    text = f"""
    import os, signal, sys, time
    import spindle_client as spindle
    def report(what):
        spindle.chat("user", what)
    if __name__ == "__main__":
        spindle.configure(flush_interval_s=3600.0)
        report("before")
        if {flushed}:
            spindle.flush()
        {FORKS[way]}
        report("after")
    """
    text = "\n".join(line[4:] if line.startswith("    ") else line for line in text.splitlines())
    status, output = run(text)
    assert (status, output) == (0, "")
    children = {"two levels": ["child", "grandchild"], "prefork": ["child", "child"]}.get(way, ["child"])
    assert contents(collector) == sorted(["before", "after", *children])
    ids = [event["event_id"] for event in collector.events]
    assert len(set(ids)) == len(ids)
    runs = {event["run_id"] for event in collector.events}
    assert len(runs) == len(ids), "ids of a child repeat ids of its parent"


def test_a_fork_inside_a_run_ends_it_once(collector, run):
    text = """
    import os, sys
    import spindle_client as spindle
    with spindle.agent("parent"):
        child = os.fork()
        with spindle.tool("inside"):
            pass
        if child == 0:
            sys.exit(5)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
    """
    assert run(text) == (0, "")
    names = sorted(event["name"] for event in collector.events)
    assert names == ["inside_end", "inside_end", "inside_start", "inside_start", "parent_end", "parent_start"]
    parent = next(event["run_id"] for event in collector.events if event["name"] == "parent_start")
    assert all(e["parent_run_id"] == parent for e in collector.events if e["name"].startswith("inside"))


def test_forks_while_other_threads_report_never_hang(collector, run):
    text = """
    import os, threading
    import spindle_client as spindle
    stop = False
    def work():
        while not stop:
            spindle.chat("user", "thread")
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(30):
        child = os.fork()
        if child == 0:
            spindle.chat("user", "child")
            os._exit(0 if spindle.flush(20) else 1)
        assert os.waitpid(child, 0)[1] == 0
    stop = True
    for thread in threads:
        thread.join()
    """
    assert run(text)[0] == 0
    assert contents(collector).count("child") == 30


def test_without_threads_the_last_flush_sends_everything(collector, run):
    text = """
    import threading
    def refuse(self):
        raise RuntimeError("can't start new thread")
    threading.Thread.start = refuse
    import spindle_client as spindle
    for number in range(600):
        spindle.chat("user", str(number))
    assert spindle.stats().pending == 600
    """
    assert run(text) == (0, "")
    assert len(collector.events) == 600


def test_a_signal_handler_may_report_and_flush_at_any_moment(collector, run):
    text = """
    import os, signal, sys
    import spindle_client as spindle
    # Lists, as `+= 1` loses counts when a handler interrupts it.
    handled, made, is_flushing = [], [], False
    def on_alarm(*_):
        global is_flushing
        handled.append(spindle.chat("user", "handler"))
        if len(handled) % 20 == 0 and not is_flushing:
            is_flushing = True
            assert spindle.flush(20)
            is_flushing = False
    signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    while len(handled) < 300:
        made.append(spindle.chat("user", "main"))
        if spindle.stats().pending > 5000:
            spindle.flush()
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert spindle.flush(20)
    stats = spindle.stats()
    assert stats.made == len(made) + len(handled), (stats, len(made), len(handled))
    assert stats.made == stats.sent + stats.dropped.total, stats
    """
    assert run(text) == (0, "")


def test_finalizers_may_report_at_any_moment(collector, run):
    text = """
    import gc
    import spindle_client as spindle
    class Ring:
        def __init__(self):
            self.me = self
        def __del__(self):
            spindle.chat("user", "finalizer")
    gc.set_threshold(5)
    for number in range(2000):
        Ring()
        spindle.chat("user", "main")
    gc.collect()
    assert spindle.flush(20)
    stats = spindle.stats()
    assert (stats.made, stats.sent) == (4000, 4000), stats
    """
    assert run(text) == (0, "")
