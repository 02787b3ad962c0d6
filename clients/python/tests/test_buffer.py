"""The queue is bounded and counts exactly, in any order of puts and takes, from any thread."""

import threading

from hypothesis import given
from hypothesis import strategies as st

from spindle_client.buffer import Buffer


def event(number, size=10):
    return {"name": str(number)}, "", 0.0, {}, size


ACTIONS = st.lists(st.integers(1, 60) | st.just("take") | st.just("close"), max_size=200)


@given(ACTIONS, st.integers(1, 20), st.integers(1, 300))
def test_it_holds_what_fits_in_order_and_counts_the_rest(actions, max_events, max_bytes):
    buffer = Buffer(max_events, max_bytes)
    model, is_closed, made, full, closed, taken = [], False, 0, 0, 0, 0
    for number, action in enumerate(actions):
        if action == "take":
            expected = model.pop(0)[0] if model else None
            taken += expected is not None
            assert buffer.take() == expected
        elif action == "close":
            buffer.close()
            is_closed = True
        else:
            made += 1
            if is_closed:
                closed += 1
            elif len(model) >= max_events or sum(size for _, size in model) + action > max_bytes:
                full += 1
            else:
                model.append((event(number, action), action))
            assert buffer.put(event(number, action)) == len(model)
        assert (len(buffer), buffer.bytes) == (len(model), sum(size for _, size in model))
        assert (buffer.made, buffer.dropped_full, buffer.dropped_closed, buffer.taken) == (made, full, closed, taken)
        assert buffer.made == len(buffer) + buffer.taken + buffer.dropped_full + buffer.dropped_closed


def test_threads_lose_no_count():
    buffer = Buffer(1000, 10**9)
    writers = [threading.Thread(target=lambda: [buffer.put(event(number)) for number in range(5000)]) for _ in range(4)]
    for writer in writers:
        writer.start()
    taken = 0
    while any(writer.is_alive() for writer in writers) or len(buffer):
        taken += buffer.take() is not None
    assert (buffer.made, buffer.taken) == (20_000, taken)
    assert taken + buffer.dropped_full == 20_000
    assert buffer.bytes == 0


def test_who_interrupts_itself_is_counted_too():
    buffer = Buffer(10, 10**9)
    inner = []

    class Interrupting(int):
        """A size that is added in the middle of `put`, as a signal handler would come."""

        def __radd__(self, other):
            if not inner:
                inner.append(buffer.put(event("inner", 5)))
            return other + int(self)

    assert buffer.put(event("outer", Interrupting(7))) == 2
    assert [buffer.take()[0]["name"] for _ in range(2)] == ["outer", "inner"]
    assert (buffer.made, buffer.bytes) == (2, 0)
