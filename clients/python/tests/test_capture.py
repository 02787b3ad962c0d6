"""What is kept of values: the same as the value where it is small, bounded where it is large, and never an error."""

import array
import collections
import dataclasses
import datetime
import decimal
import enum
import json
import pathlib
import uuid
from collections import OrderedDict, namedtuple

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle_client import capture

LIMIT = 10_000
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=8), inner, max_size=6),
    max_leaves=40,
)
ANY = st.recursive(
    st.none()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.dates()
    | st.decimals()
    | st.complex_numbers(),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers() | st.tuples(st.text()), inner)
    ),
    max_leaves=60,
)


def kept(value, limit=LIMIT):
    frozen, _ = capture.freeze(value, limit)
    return capture.thaw(frozen, limit)


@given(JSON)
def test_json_stays_what_it_is(value):
    assert kept(value, 1 << 20) == value


@given(ANY, st.integers(64, 4096))
def test_everything_becomes_json_of_a_bounded_size(value, limit):
    made = kept(value, limit)
    text = json.dumps(made, allow_nan=False, ensure_ascii=False)
    # Each key, mark and bracket costs something beside the text that is counted; escapes up to six times.
    assert len(text) <= 6 * (limit + 600) + 60 * (text.count(",") + 1)


@given(ANY)
def test_the_fast_way_and_the_slow_way_agree(value):
    assert kept(value, 1 << 20) == capture.plain(value, 1 << 20).value


@given(
    st.recursive(st.just("x"), lambda inner: st.lists(inner, min_size=1, max_size=3), max_leaves=30),
    st.integers(64, 900),
)
def test_the_size_of_what_is_frozen_is_told(value, limit):
    frozen, size = capture.freeze(value, limit)
    assert size >= len(str(capture.thaw(frozen, limit))) / 8


def test_what_the_application_changes_later_is_not_changed():
    messages = [{"role": "user", "content": "one", "parts": [1]}]
    flat = {"a": "one"}
    frozen, frozen_flat = capture.freeze(messages, LIMIT)[0], capture.freeze(flat, LIMIT)[0]
    messages[0]["content"] = "two"
    messages[0]["parts"].append(2)
    messages.append({})
    flat["a"] = "two"
    assert capture.thaw(frozen, LIMIT) == [{"role": "user", "content": "one", "parts": [1]}]
    assert capture.thaw(frozen_flat, LIMIT) == {"a": "one"}


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Point:
    x: int
    inner: object = None
    secret: str = dataclasses.field(default="hidden", repr=False)


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    name: str
    key: pydantic.SecretStr = pydantic.SecretStr("s3cret")
    points: list[int] = []


class Cruel:
    def __repr__(self):
        raise RuntimeError("no")

    def __getattr__(self, name):
        raise RuntimeError("no")

    def __reduce__(self):
        raise RuntimeError("never called")


class Large:
    def __repr__(self):
        return "y" * 1_000_000


class Scalar(float):
    pass


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (Point(1, Point(2)), {"x": 1, "inner": {"x": 2, "inner": None}}),
        (namedtuple("Pair", "a b")(1, [2]), {"a": 1, "b": [2]}),
        (OrderedDict(a=1), {"a": 1}),
        ({1: "a", None: "b", (2, 3): "c"}, {"1": "a", "None": "b", "(2, 3)": "c"}),
        ((1, {2}), [1, [2]]),
        (b"12345", "<5 bytes>"),
        (float("nan"), "nan"),
        (-float("inf"), "-inf"),
        (10**1000, "<integer of 3322 bits>"),
        (Scalar(0.5), 0.5),
        (decimal.Decimal("1.10"), "1.10"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (pathlib.PurePosixPath("/a"), "/a"),
        (datetime.datetime(2026, 11, 22, 1, 2), "2026-11-22T01:02:00"),
        (ValueError("no"), "ValueError: no"),
        (int, "<class int>"),
        (Cruel(), "<Cruel: could not be read, RuntimeError>"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_objects_become_what_a_person_expects(value, expected):
    assert kept(value) == expected
    assert kept([value]) == [expected]


def test_models_are_kept_by_fields_and_secrets_stay_secret():
    made = kept([Model(name="a", points=[1], more={"b": 2})])
    assert made == [{"name": "a", "key": "SecretStr('**********')", "points": [1], "more": {"b": 2}}]
    assert "s3cret" not in str(made)


def test_long_descriptions_are_cut():
    assert len(kept(Large())) < 2_100


@pytest.mark.parametrize(
    "value",
    [
        "é" * 100_000,
        ["z" * 60_000] * 3,
        {"k" * 5_000: "v" * 99_999},
        list(range(1_000_000)),
        {i: i for i in range(100_000)},
    ],
    ids=["text", "list of text", "long key", "long list", "large dict"],
)
def test_what_is_large_is_cut_and_says_so(value):
    made = json.dumps(kept(value), ensure_ascii=False)
    assert "cut" in made and len(made) < 130_000


def test_what_refers_to_itself_ends():
    ring = [1]
    ring.append({"ring": ring})
    point = Point(1)
    point.inner = point
    assert "too deep" in json.dumps(kept(ring))
    assert "too deep" in json.dumps(kept(point))


def test_what_is_deep_ends():
    value = []
    for _ in range(100_000):
        value = [value]
    assert "too deep" in json.dumps(kept(value))
    # Freed level by level: the interpreter itself may not survive doing so at once.
    while value:
        value = value.pop()


def test_what_is_small_only_because_it_shares_is_cut():
    value = "laugh"
    for _ in range(40):
        value = [value, value]
    assert len(json.dumps(kept(value))) < 2_000_000


def test_what_another_thread_changes_is_kept_as_far_as_possible():
    class Moving(dict):
        def items(self):
            raise RuntimeError("dictionary changed size during iteration")

    assert "could not be read" in str(kept(Moving(a=1)))


@pytest.mark.parametrize(
    "value", [Point(1, Point(2)), datetime.date(2026, 11, 22), Colour.RED, Model(name="a"), Point, len, capture._same]
)
def test_objects_go_the_fast_way_and_each_is_looked_at_once(value, monkeypatch):
    looked = []

    class Counting(capture._Pickler):
        def reducer_override(self, obj):
            looked.append(obj)
            return super().reducer_override(obj)

    monkeypatch.setattr(capture, "_Pickler", Counting)
    frozen, _ = capture.freeze([value, value], LIMIT)
    assert isinstance(frozen, bytes)
    # The object and, once in a pickle, the function that stands for it there.
    assert len(looked) <= 2
    assert capture.thaw(frozen, LIMIT) == capture.plain([value, value], LIMIT).value


def test_many_small_objects_are_kept():
    made = kept([Point(number) for number in range(1_000)], 1 << 18)
    assert made == [{"x": number, "inner": None} for number in range(1_000)]


class Table(collections.abc.Sequence):
    """As long as a table of a database: each row is fetched when it is asked for."""

    def __init__(self):
        self.fetched = 0

    def __len__(self):
        return 1_000_000

    def __getitem__(self, place):
        if place >= len(self):
            raise IndexError
        self.fetched += 1
        return place


def test_containers_are_read_no_further_than_they_are_kept():
    parts = range(1_000_000)
    for value in (collections.deque(parts), dict.fromkeys(parts).keys(), dict.fromkeys(parts).values(), Table()):
        made = kept([value], 1 << 20)[0]
        kind = type(value).__name__
        assert isinstance(made, list) and len(made) <= capture.NODES + 1 and "cut" in made[-1], kind
    fetched = value.fetched
    assert fetched <= capture.NODES + 2
    assert kept(array.array("i", [0]) * 1_000_000) == "<array of 1000000>"
    assert kept(array.array("i", [1, 2])) == "array('i', [1, 2])"
    assert kept(parts) == "range(0, 1000000)"


def test_containers_are_kept_by_their_parts():
    pairs = {"a": 1, "b": 2}
    assert kept(collections.deque([1, {"a": 2}])) == [1, {"a": 2}]
    assert kept([pairs.keys(), pairs.values(), pairs.items()]) == [["a", "b"], [1, 2], [["a", 1], ["b", 2]]]
    assert kept(collections.UserList([1, 2])) == [1, 2] and kept(collections.UserString("text")) == "text"
