"""`run --serve`: a page beside the training, which stays when it has ended; and what is refused before it begins."""

import json
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager
from threading import Event, Thread

import pytest

from trainwreck.evaluation.pages.live_page.stream import Stream

COMMAND = (sys.executable, "-m", "trainwreck", "run", "mask_missing", "--serve", "--no-open")
PATIENCE = 300  # seconds


@contextmanager
def under_way(folder, *words):
    """The process and its address, once that is printed."""
    pipe = subprocess.PIPE
    with subprocess.Popen([*COMMAND, *words], cwd=folder, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            line = process.stdout.readline()
            assert line.startswith("page: http://127.0.0.1:"), process.stderr.read()
            yield process, line.removeprefix("page: ").strip()
        finally:
            process.kill()


def events(address):
    """Events as they come, as a page asks for them, to the end."""
    place = 0
    while True:
        with urllib.request.urlopen(f"{address}events?since={place}", timeout=PATIENCE) as answer:
            answered = json.load(answer)
        place = answered["next"]
        for event in answered["events"]:
            yield event
            if "state" in event:
                return


@pytest.mark.usefixtures("interruptible")
def test_a_page_follows_the_run_and_stays_until_ctrl_c(tmp_path, tiny):
    with under_way(tmp_path, *tiny) as (process, address):
        *blocks, end = events(address)
        assert {block["role"] for block in blocks} == {"faulty", "twin", "cured"}
        for role in ("faulty", "twin", "cured"):
            own = [block["curves"]["loss"][0] for block in blocks if block["role"] == role]
            assert [step for steps in own for step in steps] == list(range(24))
        assert end["state"] == "finished"
        assert {run["role"] for run in end["facts"]["runs"]} == {"faulty", "twin", "cured"}
        printed = ""
        while not printed.endswith("the page stays until Ctrl-C\n"):
            line = process.stdout.readline()
            assert line, process.stderr.read()
            printed += line
        assert "signature: " in printed
        assert list(events(address)) == [*blocks, end]  # a reload, long after
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert rest == ""
    assert "Traceback" not in errors
    assert (tmp_path / "mask_missing.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=PATIENCE)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_in_the_middle_is_told_to_the_page(tmp_path, tiny):
    size = [word for word in tiny if not word.startswith("steps=")]
    with under_way(tmp_path, *size, "steps=50000") as (process, address):
        found, begun = [], Event()

        def read():
            for event in events(address):
                found.append(event)
                begun.set()

        reader = Thread(target=read)
        reader.start()
        assert begun.wait(PATIENCE)
        process.send_signal(signal.SIGINT)
        reader.join(PATIENCE)
        printed, errors = process.communicate(timeout=PATIENCE)
    assert found[0]["role"] in ("faulty", "twin", "cured")
    assert found[-1] == {"state": "interrupted", "reason": ""}
    assert process.returncode == 130
    assert printed == ""
    assert errors.splitlines()[-1] == "trainwreck: interrupted"
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


def refused(result, *parts):
    assert result.code == 2
    assert result.out == ""
    (line,) = result.err.splitlines()
    assert line.startswith("trainwreck: ")
    assert all(part in line for part in parts)


@pytest.fixture
def untrained(monkeypatch):
    def train(*words, **more):
        raise AssertionError("nothing is to be trained")

    monkeypatch.setattr("trainwreck.scenarios.views.session.train", train)


@pytest.mark.usefixtures("untrained")
@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["high_lr", "--serve", "--json"], ["--serve", "--json", "allowed: one of them"]),
        (["high_lr", "--port", "8000"], ["--port: 8000", "--serve", "allowed: both"]),
        (["high_lr", "--serve", "--port", "65536"], ["--port", "65536", "0<=x<=65535"]),
        (["high_lr", "--serve", "--port", "-1"], ["--port", "-1", "0<=x<=65535"]),
        (["high_lr", "--serve", "--port", "eighty"], ["--port", "eighty"]),
        (["hihg_lr", "--serve"], ["scenario", "'hihg_lr'", "did you mean 'high_lr'?"]),
        (["mask_missing", "--serve", "--severity", "clear"], ["severity", "it has no scale"]),
        (["mask_missing", "--serve", "model.wide=3"], ["model.wide"]),
    ],
)
def test_what_is_refused_opens_no_page(words, parts, call, here):
    refused(call("run", *words), *parts)
    assert list(here.iterdir()) == []


@pytest.mark.usefixtures("untrained")
def test_a_taken_port_is_refused_before_training(call, here):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        refused(call("run", "high_lr", "--serve", "--port", port), f"port: {port}", "in use", "allowed: 0")
    assert list(here.iterdir()) == []


def test_a_failure_is_told_to_the_page(call, here, tiny, monkeypatch):
    events = []
    monkeypatch.setattr(Stream, "add", lambda stream, event: events.append(event))
    (here / "file").write_text("")
    result = call("run", "mask_missing", *tiny, "--serve", "--plot", "file/a.png")
    assert result.code == 2
    reason = result.err.splitlines()[-1].removeprefix("trainwreck: ")
    assert "file" in reason
    assert events[-1] == {"state": "failed", "reason": reason}
    assert "Traceback" not in result.err
