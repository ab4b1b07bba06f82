"""Logs of every format, made at random and then damaged, read by `import`, `diagnose` and `watch`.

Each ends within its time and memory: read, or refused in one line.
"""

import json
import os
import random
import shutil
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.fuzz

NAMES = (
    "step", "loss", "train/loss", "val_loss", "grad_norm", "lr", "epoch", "_step", "run", "layer_grad_norm/0",
    "layer_grad_norm/9999", "layer_grad_norm/1023", "loss_by_position/3", "validation_loss", "kind", "", "a,b", 'q"q',
    "\x1b[31mred\x1b[0m", "\u202eloss", "l\x07oss", "x" * 300, "loss scale", "bits_loss", "ppl", "step ", "LOSS",
)  # fmt: skip
CELLS = (
    "", "nan", "NaN", "inf", "-inf", "1e400", "1e-400", "-0", "1,5", "2_000", "0x10", "None", "null", "true", "3.5e2",
    "9" * 20, "9" * 400, "9" * 5000, "1e308", "\x1b[2J", "\ud800", "word", "  1 ", "1.#QNAN", "--", "٣", "²",
)  # fmt: skip


FORMS = (
    "step:{s}/1000 train_loss:{v} grad_norm:{w}", "iter {s}: loss {v}, time 3ms",
    "step {s}: train loss {v}, val loss {w}", " iteration {s}/ 1000 | lm loss: {v} | grad norm: {w} |",
    "step: {s}  loss: {v}  grad_norm: {w}", "s:{s} trl:{v}", "{{'loss': {v}, 'grad_norm': {w}, 'epoch': 0.1}}",
    "Epoch 1 | iter {s} step 2 | loss train: {v}, val: n/a",
)  # fmt: skip
EXTRA = (
    "a " * 3000, "a" * 9999, "iter 3: " + "ab " * 3000, "\x1b[31mcolour\x1b[0m", "step:1/", "{" * 5000, "\r" * 99,
    "x" * 300_000,
)  # fmt: skip
BLOBS = (
    b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b'"', b"\x1b[31m", b"\xed\xa0\x80", b"9" * 5000, b"[" * 2000,
    b"\x1c\x85\n",
)  # fmt: skip
ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT "
ENDLESS_METRICS = (
    f"CREATE VIEW metrics AS {ENDLESS} 'loss' AS key, 'r' AS run_uuid, x AS step, 1.0 AS value, 0 AS is_nan, "
    "1 AS timestamp, x AS rowid FROM n"
)
ENDLESS_RUNS = f"CREATE VIEW runs AS {ENDLESS} 'r' AS run_uuid, 'active' AS lifecycle_stage, 1 AS start_time FROM n"


def cell(rng: random.Random) -> str:
    return rng.choice(CELLS) if rng.random() < 0.1 else f"{rng.gauss(3, 1):.{rng.randrange(8)}f}"


def columns(rng: random.Random) -> list[str]:
    plain = ["step", "loss", *rng.sample(NAMES, rng.randrange(6))]
    return plain if rng.random() < 0.7 else rng.sample(NAMES, rng.randint(1, 8))


def rows(rng: random.Random) -> list[dict[str, str]]:
    names, start = columns(rng), rng.choice([0, 0, 1, -5, 2**31 - 5, 10**12])
    return [
        {name: str(start + i) if "step" in name else cell(rng) for name in names}
        for i in range(rng.choice([0, 1, 2, 30, 300]))
    ]


def as_csv(rng: random.Random, path: Path) -> None:
    made, separator = rows(rng), rng.choice([",", ";", "\t", "|", " "])
    end = rng.choice(["\n", "\r\n", "\r", "\n\n"])
    names = list(made[0]) if made else columns(rng)
    quoted = rng.random() < 0.3
    lines = [names, *(row.values() for row in made)]
    text = end.join(separator.join(f'"{c}"' if quoted else c for c in line) for line in lines)
    if rng.random() < 0.1:
        text = separator * rng.choice([3, 200_000]) + end + text
    if rng.random() < 0.1:
        text = separator.join(f"column_number_{i}" for i in range(rng.choice([12_000, 50_000]))) + end + text
    path.write_bytes((text + rng.choice(["", end])).encode("utf-8", "surrogatepass"))


def as_json(rng: random.Random, text: str) -> Any:
    odd: tuple[Any, ...] = (
        None,
        True,
        "nan",
        [],
        {},
        [1.0] * 20,
        {"a": {"b": 1}},
        10**300,
        -1,
        "\ud800",
        1e308,
        [[1], [2]],
    )
    if rng.random() < 0.08:
        return rng.choice(odd)
    with suppress(ValueError):
        return float(text)
    return text


def objects(rng: random.Random) -> list[dict[str, Any]]:
    made = [{name: as_json(rng, text) for name, text in row.items()} for row in rows(rng)]
    for i, row in enumerate(made):
        if rng.random() < 0.02:
            row[f"fresh/{i}"] = 1.0
        if rng.random() < 0.02:
            row["\udc00key"] = 1.0
    return made


def as_json_lines(rng: random.Random, path: Path) -> None:
    lines = [json.dumps(row, ensure_ascii=rng.random() < 0.8) for row in objects(rng)]
    for _ in range(rng.randrange(3)):
        deep = rng.choice([50, 150, 900, 100_000])
        odd = ('{"step": 1, "loss": ' + "9" * 5000 + "}", "[" * deep, '{"a":' * deep + "1" + "}" * deep, "[]", "{")
        lines.insert(rng.randrange(len(lines) + 1), rng.choice([*odd, '{"a": 1, "a": 2}']))
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))


def as_state(rng: random.Random, path: Path) -> None:
    content: Any = {"log_history": objects(rng)}
    if rng.random() < 0.1:
        content = rng.choice([[], {}, {"log_history": None}, {"log_history": [1]}, {"log_history": {"loss": 1}}, 3])
    path.write_text(json.dumps(content), encoding="utf-8")


def as_text(rng: random.Random, path: Path) -> None:
    form = rng.choice(FORMS)
    lines = [form.format(s=i, v=cell(rng), w=cell(rng)) for i in range(rng.choice([1, 30, 500]))]
    lines += rng.sample(EXTRA, rng.randrange(3))
    path.write_bytes(rng.choice(["\n", "\r", "\r\n"]).join(lines).encode("utf-8", "surrogatepass"))


def as_events(rng: random.Random, path: Path) -> None:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    whole = b""
    for row in rows(rng)[:50]:
        event = Event(wall_time=1.0, step=rng.choice([len(whole), -1, 2**40]) if rng.random() < 0.05 else len(whole))
        for name in row:
            value = event.summary.value.add(tag=name.encode("utf-8", "replace").decode())
            if rng.random() < 0.7:
                value.simple_value = rng.gauss(3, 1)
                continue
            value.tensor.dtype = rng.choice([1, 2, 3, 7, 19, 23, 0, 99])
            for size in rng.choice([[], [], [1], [3_000_000_000], [0], [-1], [2, 3]]):
                value.tensor.tensor_shape.dim.add(size=size)
            rng.choice(
                [
                    lambda tensor: tensor.float_val.append(2.0),
                    lambda tensor: tensor.float_val.extend([1.0, 2.0]),
                    lambda tensor: tensor.string_val.append(b"text"),
                    lambda tensor: setattr(tensor, "tensor_content", b"\0" * 7),
                    lambda tensor: None,
                ]
            )(value.tensor)
        content = event.SerializeToString() if rng.random() > 0.02 else rng.randbytes(40)
        head = struct.pack("<Q", len(content))
        whole += head + struct.pack("<I", masked_crc32c(head)) + content + struct.pack("<I", masked_crc32c(content))
    path.write_bytes(whole)


def as_wandb(rng: random.Random, path: Path) -> None:
    from wandb.proto.wandb_internal_pb2 import Record

    whole = b":W&B" + b"\0\0\0"
    for i, row in enumerate(objects(rng)):
        record = Record()
        record.history.step.num = i
        for name, value in row.items():
            text = json.dumps(value) if rng.random() > 0.03 else rng.choice(["[" * 5000, "9" * 5000, "{", "", "NaN"])
            record.history.item.add(key=name.encode("utf-8", "replace").decode(), value_json=text)
        content = record.SerializeToString()
        if len(content) + 7 > 32768 - len(whole) % 32768:
            break
        whole += struct.pack("<IHB", 0, len(content), 1) + content
    path.write_bytes(whole)


def as_database(rng: random.Random, path: Path) -> None:
    odd: tuple[Any, ...] = (None, "text", b"blob", 2**62, -1, 1.5, "\x1b[31m", float("inf"))

    def of(value: Any) -> Any:
        return rng.choice(odd) if rng.random() < 0.02 else value

    with closing(sqlite3.connect(path)) as database:
        if rng.random() < 0.15:
            database.execute(ENDLESS_METRICS)
        else:
            database.execute("CREATE TABLE metrics (key, value, timestamp, run_uuid, step, is_nan)")
            for row in rows(rng)[:100]:
                for name in row:
                    name = name.encode("utf-8", "replace").decode()
                    found = (of(name), of(rng.gauss(3, 1)), of(1), of("r"), of(int(rng.random() * 99)), of(0))
                    database.execute("INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)", found)
        if rng.random() < 0.1:
            database.execute(ENDLESS_RUNS)
        elif rng.random() < 0.95:
            database.execute("CREATE TABLE runs (run_uuid, lifecycle_stage, start_time)")
            for _ in range(rng.choice([1, 1, 3])):
                database.execute("INSERT INTO runs VALUES (?, ?, ?)", (of("r"), of("active"), of(1)))
        database.commit()


def as_parquet(rng: random.Random, path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    made = [(name, row[name]) for row in rows(rng) for name in row]
    count = len(made)
    odd: dict[str, list[Any]] = {
        "run_id": [[1] * count, [None] * count, [["a"]] * count, ["\x1b[31m"] * count],
        "attribute_type": [["int"] * count, [None] * count, [5] * count],
        "step": [["x"] * count, [1.5] * count, [None] * count, [-1] * count, [True] * count],
        "float_value": [["2.5"] * count, ["x"] * count, [None] * count, [[1.0]] * count],
    }
    table: dict[str, list[Any]] = {
        "run_id": ["R-1"] * count,
        "attribute_path": [name.encode("utf-8", "replace").decode() for name, _ in made],
        "attribute_type": ["float_series"] * count,
        "step": list(range(count)),
        "float_value": [rng.gauss(3, 1) for _ in made],
    }
    for name, others in odd.items():
        if rng.random() < 0.15:
            table[name] = rng.choice(others)
    pq.write_table(pa.table(table), path, row_group_size=rng.choice([1, 7, 1000]))


def as_run_folder(rng: random.Random, path: Path) -> None:
    (path / "metrics").mkdir(parents=True)
    (path / "meta.yaml").write_text(rng.choice(["lifecycle_stage: active\n", "", "lifecycle_stage: deleted\n"]))
    for name in ("loss", "lr", "train/loss", "m\x1b[31m")[: rng.randint(1, 4)]:
        (path / "metrics" / name).parent.mkdir(exist_ok=True)
        lines = [f"1 {cell(rng)} {rng.choice([i, i, i, -1, cell(rng)])}" for i in range(30)]
        (path / "metrics" / name).write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))


def as_version_folder(rng: random.Random, path: Path) -> None:
    for version in range(rng.randint(1, 2)):
        (path / f"version_{version}").mkdir(parents=True)
        as_csv(rng, path / f"version_{version}" / "metrics.csv")


def as_chart(rng: random.Random, path: Path) -> None:
    runs = [
        f"{rng.choice(['a', 'b', 'run - x', chr(27) + '[1m'])} - {key}" for key in ("loss", "loss__MIN", "grad_norm")
    ]
    lines = [",".join(f'"{name}"' for name in ("Step", *runs))]
    lines += [",".join(f'"{one}"' for one in (i, *(cell(rng) for _ in runs))) for i in range(30)]
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))


def as_odd(rng: random.Random, path: Path) -> None:
    kind = rng.randrange(6)
    if kind == 0:
        os.mkfifo(path)
    elif kind == 1:
        path.symlink_to(rng.choice(["/dev/zero", "/dev/tty", path.name, "/proc/self/mem", "/dev/full"]))
    elif kind == 2:
        with path.open("wb") as file:
            file.truncate(rng.choice([2**30, 2**42]))
    elif kind == 3:
        path.mkdir()
    elif kind == 4:
        path.write_bytes(rng.randbytes(rng.choice([0, 1, 100, 10_000])))
    else:  # much from little: a list signal as wide as it may be, in many rows
        lines = (
            f'{{"step": {i}, "loss": 1, "layer_grad_norm/{rng.choice([1023, 9999, i % 1024])}": 1}}'
            for i in range(20_000)
        )
        path.write_text("\n".join(lines))


MAKERS: tuple[tuple[Callable[[random.Random, Path], None], str], ...] = (
    (as_csv, "run.csv"), (as_csv, "metrics.csv"), (as_json_lines, "run.jsonl"), (as_state, "trainer_state.json"),
    (as_text, "run.log"), (as_events, "events.out.tfevents.1"), (as_wandb, "run.wandb"), (as_database, "mlflow.db"),
    (as_parquet, "run.parquet"), (as_run_folder, "run"), (as_version_folder, "lightning"), (as_chart, "chart.csv"),
    (as_odd, "run.csv"), (as_odd, "run.jsonl"), (as_odd, "events.out.tfevents.2"), (as_odd, "mlflow.db"),
    (as_odd, "trainer_state.json"), (as_odd, "run.wandb"), (as_odd, "run.parquet"),
)  # fmt: skip
FORMATS = ("csv", "jsonl", "tensorboard", "trainer_state", "lightning", "mlflow", "wandb", "neptune", "text")


def damage(rng: random.Random, path: Path) -> None:
    """Change bytes of a file: turned, cut, doubled, or with something foreign in between."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > 2**26:
        return
    content = bytearray(path.read_bytes())
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(content) + 1)
        kind = rng.randrange(5)
        if kind == 0 and at < len(content):
            content[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del content[at : at + rng.choice([1, 10, 1000])]
        elif kind == 2:
            content[at:at] = content[at : at + rng.choice([1, 50, 5000])]
        elif kind == 3:
            content[at:at] = rng.choice(BLOBS)
        else:
            content = content[: at + 1]
    path.write_bytes(bytes(content))


def words_for(rng: random.Random, log: str) -> list[str]:
    more: list[str] = []
    if rng.random() < 0.15:
        more += ["--map", rng.choice(["loss=loss", "epoch=step", "kind=layer_grad_norm/9999", "=", "x=y", "lr=step"])]
    command = rng.choice(["import", "import", "import", "diagnose", "watch"])
    if command == "watch":
        return [
            "watch",
            log,
            "--detector",
            "nonfinite_loss",
            *more,
            *(["--format", "csv"] if rng.random() < 0.1 else []),
        ]
    if rng.random() < 0.2:
        more += ["--format", rng.choice(FORMATS)]
    if rng.random() < 0.15:
        more += ["--every", rng.choice(["1", "10", "2147483647", "-3"])]
    if rng.random() < 0.15:
        more += ["--blank", rng.choice(["nan", "missing"])]
    if rng.random() < 0.1:
        more += ["--pattern", rng.choice([r"(?P<step>\d+).*?(?P<loss>\d\.\d+)", "(", "x", r"(?P<loss>.*)"])]
    if rng.random() < 0.05:
        more += [rng.choice(["--log-mb", "--log-columns", "--log-line-kb"]), rng.choice(["1", "nan", "1e400", "0"])]
    return [command, log, *(["--out", "made"] if command == "import" else []), *more]


def test_logs_are_read_or_refused_in_one_line(attempts: Any, commands: Any, tmp_path: Path) -> None:
    wrong: list[str] = []
    for count, rng in enumerate(attempts()):
        folder = tmp_path / str(count)
        folder.mkdir()
        make, name = rng.choice(MAKERS)
        make(rng, folder / name)
        if rng.random() < 0.5:
            for file in [folder / name, *(folder / name).rglob("*")] if (folder / name).is_dir() else [folder / name]:
                damage(rng, file)
        words = words_for(rng, name)
        ended = commands.run(words, folder)
        if ended.wrong:
            wrong.append(f"attempt {count} after the first seed, {make.__name__}, {words}: {ended.wrong}")
            print(wrong[-1])
        elif ended.code == 2 and (folder / "made").exists():
            wrong.append(f"attempt {count} after the first seed, {words}: refused, and half-written")
        shutil.rmtree(folder)
    assert not wrong, "\n".join(wrong)
