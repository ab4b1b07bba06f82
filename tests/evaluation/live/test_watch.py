"""The loop of a watch: what it hands over and when, and what ends it. Nobody sleeps: the wait writes the log."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.live import Alarm, Monitor
from trainwreck.evaluation.live.sources import open_log
from trainwreck.evaluation.live.watch import Ended, watch


class Screen:
    def __init__(self) -> None:
        self.rows: list[tuple[int, bool, list[str]]] = []
        self.alarms: list[Alarm] = []

    def row(self, step: int, values: Any, *, live: bool) -> None:
        self.rows.append((step, live, [str(target) for target in values]))

    def alarm(self, alarm: Alarm) -> None:
        self.alarms.append(alarm)

    def note(self, line: str) -> None: ...


class Writer:
    """Writes the next text at every wait; interrupts the watch when it has none left."""

    def __init__(self, path: Path, *texts: str) -> None:
        self.path, self.texts, self.waits = path, list(texts), 0

    def __call__(self, seconds: float) -> None:
        self.waits += 1
        if not self.texts:
            raise KeyboardInterrupt
        with self.path.open("a", encoding="utf-8") as file:
            file.write(self.texts.pop(0))


Run = Callable[..., Ended]


@pytest.fixture
def screen() -> Screen:
    return Screen()


@pytest.fixture
def run(screen: Screen) -> Iterator[Run]:
    with ExitStack() as stack:

        def start(path: Path, detector: Any = "nonfinite_loss", stop: bool = False, **settings: Any) -> Ended:
            source = stack.enter_context(closing(open_log(path, None, {}, wait=settings.get("follow", False))))
            monitor = Monitor(detector, say=screen.note)
            return watch(source, monitor, screen, lambda alarm: stop, **settings)

        yield start


def test_a_finished_log_is_read_to_its_end(run: Run, screen: Screen, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text("step,loss,val_loss\n1,3,\n1,,2\n2,nan,\n3,2", encoding="utf-8")
    ended = run(path)
    assert ended == Ended("end", 2, 2, 1, {"cut off last line": 1})
    assert screen.rows == [(1, False, ["loss", "validation_loss"]), (2, False, ["loss"])]
    assert [alarm.step for alarm in screen.alarms] == [2]


def test_rows_come_as_they_are_written(run: Run, screen: Screen, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    writer = Writer(path, "step,loss\n1,", "3\n", "2,2.5\n3,nan\n", "", "4,2\n", "")
    with pytest.raises(KeyboardInterrupt):
        run(path, follow=True, wait=writer)
    assert [(step, live) for step, live, _ in screen.rows] == [(1, True), (2, True), (3, True), (4, True)]
    assert [alarm.step for alarm in screen.alarms] == [3]
    assert writer.waits == 7


def test_the_last_row_is_held_for_one_look(run: Run, screen: Screen, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    writer = Writer(path, '{"step": 1, "loss": 3}\n', '{"step": 1, "eval_loss": 2}\n', "")
    with pytest.raises(KeyboardInterrupt):
        run(path, follow=True, wait=writer)
    assert screen.rows == [(1, True, ["loss", "validation_loss"])]


def test_stop_ends_at_the_first_alarm(run: Run, screen: Screen, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text("step,loss\n1,3\n2,nan\n3,2\n4,nan\n", encoding="utf-8")
    assert run(path, stop=True) == Ended("stopped", 2, 2, 1, {})
    writer = Writer(path, "", "50,inf\n", "", "60,1\n")
    screen.alarms.clear()
    assert run(path, "terminate_on_nan", stop=True, follow=True, wait=writer).last_step == 2


def test_a_live_alarm_on_the_last_row_stops_after_one_quiet_look(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text("step,loss\n1,3\n", encoding="utf-8")
    writer = Writer(path, "2,nan\n", "")
    assert run(path, stop=True, follow=True, wait=writer).reason == "stopped"
    assert writer.texts == []


def test_idle_counts_from_the_last_row(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text("step,loss\n1,3\n", encoding="utf-8")
    writer = Writer(path, "", "", "2,3\n", "", "", "", "", "", "")
    ended = run(path, follow=True, wait=writer, every=10.0, idle=30.0)
    assert (ended.reason, ended.rows, writer.waits) == ("idle", 2, 6)


def test_a_process_that_is_gone_ends_it_after_a_last_look(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text("step,loss\n1,3\n", encoding="utf-8")
    life = [True, True, False]
    writer = Writer(path, "2,3\n", "3,nan\n", "")
    ended = run(path, follow=True, wait=writer, alive=lambda: life.pop(0) if life else False)
    assert (ended.reason, ended.rows, ended.alarms) == ("gone", 3, 1)


def test_it_ends_when_no_detector_is_left(run: Run, tmp_path: Path) -> None:
    class Broken:
        def reset(self, context: Any) -> None: ...

        def update(self, row: Any) -> bool:
            raise ValueError("by design")

    path = tmp_path / "run.csv"
    path.write_text("step,loss\n1,3\n2,3\n", encoding="utf-8")
    assert run(path, Broken, follow=True, wait=Writer(path, "3,1\n")).reason == "crashed"


def test_what_can_not_be_followed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "trainer_state.json").write_text("{}", encoding="utf-8")
    (tmp_path / "run.wandb").write_text("", encoding="utf-8")
    for path, message in (
        (tmp_path / "trainer_state.json", "trainer_state is written whole, not row by row; allowed: csv, jsonl"),
        (tmp_path, "trainer_state is written whole"),
        (tmp_path / "run.wandb", "wandb is written whole"),
        (tmp_path / "nowhere.csv", "no such file or folder"),
    ):
        with pytest.raises(InputError, match=message):
            open_log(path, None, {}, wait=False)
    with pytest.raises(InputError, match="--format: cvs is not allowed"):
        open_log(tmp_path / "run.csv", "cvs", {}, wait=True)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="empty: no log of a known format in it; allowed: csv, jsonl, tensorboard"):
        open_log(tmp_path / "empty", None, {}, wait=False)


def test_a_log_of_which_nothing_is_there_is_known_by_what_comes(tmp_path: Path) -> None:
    texts = {"a/metrics.csv": "step,train_loss\n1,3\n", "b": "step,loss\n1,3\n", "c.jsonl": '{"step": 1, "loss": 3}\n'}
    for name, text in texts.items():
        given = tmp_path / name.partition("/")[0]
        source = open_log(given, None, {}, wait=True)
        assert list(source.poll()) == []
        (tmp_path / name).parent.mkdir(exist_ok=True)
        if given.is_dir():  # as Lightning begins
            (given / "hparams.yaml").write_text("{}", encoding="utf-8")
            assert list(source.poll()) == []
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert [step for step, _ in source.poll()] == [1], name
        source.close()


def test_the_folder_of_a_lightning_version_is_its_metrics(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text("step,train_loss\n1,3\n", encoding="utf-8")
    source = open_log(tmp_path, None, {}, wait=False)
    assert [step for step, _ in source.poll()] == [1]
    source.close()
