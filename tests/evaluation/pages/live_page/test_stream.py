"""The history of a run: everyone gets all of it, in order, whenever they come."""

import json
from threading import Thread
from time import monotonic

import pytest

from trainwreck.evaluation.pages.live_page.stream import MOST, Stream


def since(stream, place, patience=0.0):
    return json.loads(stream.since(place, patience))


def test_each_reader_has_its_own_place():
    stream = Stream()
    for number in range(5):
        stream.add({"number": number})
    assert since(stream, 0)["events"] == [{"number": number} for number in range(5)]
    assert since(stream, 3) == {"id": stream.id, "next": 5, "events": [{"number": 3}, {"number": 4}]}
    assert since(stream, 5) == {"id": stream.id, "next": 5, "events": []}
    assert since(stream, 0)["events"][0] == {"number": 0}  # again, or another reader
    assert len(stream) == 5


def test_a_late_reader_gets_it_all_in_parts():
    stream = Stream()
    for number in range(2 * MOST + 1):
        stream.add({"number": number})
    place, found = 0, []
    while place < len(stream):
        answer = since(stream, place, 100.0)
        place = answer["next"]
        found += [event["number"] for event in answer["events"]]
        assert len(answer["events"]) <= MOST
    assert found == list(range(2 * MOST + 1))


def test_a_place_beyond_the_end_is_answered_at_once():
    """It is that of a reader of another stream, which the id tells."""
    stream = Stream()
    stream.add({})
    assert since(stream, 9, 100.0) == {"id": stream.id, "next": 1, "events": []}
    assert Stream().id != stream.id


def test_several_readers_wait_for_the_next_event():
    stream, found = Stream(), []
    readers = [Thread(target=lambda: found.append(since(stream, 0, 100.0)["events"])) for _ in range(3)]
    for reader in readers:
        reader.start()
    stream.add({"loss": "nan"})
    for reader in readers:
        reader.join(60)
    assert found == [[{"loss": "nan"}]] * 3


def test_a_wait_ends_without_an_event():
    before = monotonic()
    assert since(Stream(), 0, 0.05)["events"] == []
    assert monotonic() - before >= 0.05


def test_nobody_waits_for_what_is_closed():
    stream, found = Stream(), []
    stream.add({"number": 1})
    reader = Thread(target=lambda: found.append(since(stream, 1, 100.0)))
    reader.start()
    stream.close()
    reader.join(60)
    assert found[0]["events"] == []
    assert since(stream, 0, 100.0)["events"] == [{"number": 1}]


def test_what_json_lacks_is_refused():
    stream = Stream()
    with pytest.raises(ValueError, match="JSON"):
        stream.add({"loss": float("nan")})
    assert len(stream) == 0
