"""The board of real runs as files for other tools, and as the table of a terminal."""

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.files import sha256, write_csv, write_json, write_parquet
from trainwreck.evaluation.leaderboard.cache import stamp
from trainwreck.evaluation.leaderboard.columns import BY_NAME, FREE, UPDATE, Column
from trainwreck.evaluation.leaderboard.transfer.boards import write_detections, write_peaks
from trainwreck.evaluation.logs.real_runs.board import BY_CLUSTER, BY_RUN, LENIENT, STRICT, RealBoard
from trainwreck.evaluation.pages.leaderboard.board_files import made

ENTRY = (
    Column("rank", "rank", form=".0f", interval=False),
    Column("detector", "detector", form="", interval=False),
)
_BY = ((BY_CLUSTER, ""), (BY_RUN, ", by run"))
_WINDOWS = ((STRICT, "in-time recall"), (LENIENT, "lenient"))


def terminal(name: str) -> tuple[Column, ...]:
    """The columns at an operating point, of `columns.BY_NAME`: by cluster first, then by run."""
    point = BY_NAME[name].point
    scores = []
    for by, beside in _BY:
        if point == FREE:
            heads = {STRICT: f"area{beside}", LENIENT: f"area, lenient{beside}"}
            scores += [Column(f"area{window}{by}", head) for window, head in heads.items()]
        else:
            scores += [Column(f"recall{window}{by}_{point}", f"{head}{beside}") for window, head in _WINDOWS]
            scores += [Column(f"stopped{by}_{point}", f"healthy stopped{beside}", form=".0%")]
    return (*ENTRY, *scores, UPDATE)


def write_real_board(out: Path, dataset: DataSet, labels: Path, board: RealBoard, command: str) -> list[Path]:
    """Write leaderboard.csv, .parquet and .json, and what `transfer` reads; the paths.

    Columns that a board of synthetic runs has too are named as there. Every row names data set and labels.
    """
    of = stamp(dataset)
    facts: dict[str, Any] = made(dataset, {"of": of}, command) | {"labels_sha256": sha256(labels)}
    named = {
        "data_set": facts["data_set"]["plan"], "manifest_sha256": of["manifest"],
        "labels_sha256": facts["labels_sha256"], "scoring_version": of["scoring_version"],
    }  # fmt: skip
    content = board.to_dict()
    rows = pd.DataFrame([row | named for row in content["rows"]])
    write_csv(out / "leaderboard.csv", rows)
    write_parquet(out / "leaderboard.parquet", [pa.Table.from_pandas(rows, preserve_index=False)])
    write_json(out / "leaderboard.json", {"made": facts} | content)
    more = [write_detections(out, board.detections), write_peaks(out, board.peaks)]
    return [*(out / f"leaderboard.{end}" for end in ("csv", "parquet", "json")), *more]
