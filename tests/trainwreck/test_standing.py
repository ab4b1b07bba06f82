"""Boards from stored alarms, and a submission from the command that makes it to the board that has it."""

import json
import shutil
from pathlib import Path

import pytest

from trainwreck.evaluation.dataset.dataset import load
from trainwreck.evaluation.dataset.sample import sample
from trainwreck.evaluation.files import sha256
from trainwreck.evaluation.leaderboard.cache import board_from
from trainwreck.scenarios.bench.score import copied

SOURCE = (
    "import trainwreck\n\n\nclass Mine(trainwreck.Detector):\n    rule = 'loss over 6'\n\n"
    "    def update(self, row):\n        loss = row['loss']\n        return 1e9 if loss != loss else loss\n"
)
FACTS = {
    "name": "over-six", "version": "1.0", "code": "https://example.org/over-six/tree/v1.0", "licence": "MIT",
    "contact": "someone@example.org",
}  # fmt: skip


def words(out, **changed):
    facts = FACTS | changed
    options = [word for name, value in facts.items() if value is not None for word in (f"--{name}", value)]
    return ("submit", "sample", "--detector", "mine.py:Mine", *options, "--out", out)


@pytest.fixture(scope="module")
def submission(call, tmp_path_factory):
    """Made by the command on the shipped sample, in two profiles."""
    root = tmp_path_factory.mktemp("submitted")
    (root / "mine.py").write_text(SOURCE, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        result = call(*words(root / "entries"), "--causal", "--profile", "full", "--profile", "minimal")
    assert result.code == 0, result.err
    assert result.out.endswith(f"submission: {root / 'entries' / 'over-six'}\n")
    return root / "entries" / "over-six"


@pytest.fixture(scope="module")
def kept(call, tmp_path_factory):
    """Alarms of what every board has, on the sample."""
    folder = tmp_path_factory.mktemp("kept")
    names = ("nonfinite_loss", "loss_over_minimum", "grad_norm_zscore", "any_zscore")
    detectors = [word for name in names for word in ("--detector", name)]
    for profile in ("full", "minimal"):
        result = call("score", "sample", *detectors, "--profile", profile, "--alarms", folder)
        assert result.code == 0, result.err
    assert len(list(folder.iterdir())) == 8
    return folder


def test_one_detector_beside_the_others(call, kept, submission):
    stored = ("--from", kept, "--from", submission)
    result = call("compare", "sample", "loss_over_minimum", *stored, "--json")
    assert result.code == 0, result.err
    rows = json.loads(result.out)
    assert [row["profile"] for row in rows] == ["full"] * 4 + ["minimal"] * 4
    cards = {
        (card["profile"], card["detector"]): card["points"]
        for card in json.loads(call("rescore", "sample", kept, submission, "--json").out)
    }
    for row in rows:
        assert row["detector"] != "loss_over_minimum"
        own, other = (
            cards[row["profile"], name]["0.05"]["recall"]["value"] for name in ("loss_over_minimum", row["detector"])
        )
        assert row["recall_0.05"] == other
        assert row["ahead_0.05"] == pytest.approx(own - other, abs=1e-12)
        assert 0 <= row["p_0.01"] <= 1
    text = call("compare", "sample", "loss_over_minimum", "--from", kept).out
    for part in ("nonfinite_loss", "loss_over_minimum ahead by at 1%", "p at 5%"):
        assert part in text
    one = json.loads(call("compare", "sample", "loss_over_minimum", "over-six", *stored, "--json").out)
    assert [(row["profile"], row["detector"]) for row in one] == [("full", "over-six"), ("minimal", "over-six")]
    assert one[0]["ahead_0.05"] == next(row for row in rows if row["detector"] == "over-six")["ahead_0.05"]
    call("compare", "sample", "loss_over_minium", "--from", kept).refused("did you mean 'loss_over_minimum'?")
    call("compare", "sample", "loss_over_minimum", "over-sixx", *stored).refused("did you mean 'over-six'?")


def test_detectors_are_replayed_where_no_alarms_are_given(call, kept):
    words = ("compare", "sample", "loss_over_minimum", "nonfinite_loss", "--profile", "minimal", "--json")
    result = call(*words)
    assert result.code == 0, result.err
    (row,) = json.loads(result.out)
    stored = call("compare", "sample", "loss_over_minimum", "nonfinite_loss", "--from", kept, "--json")
    assert row == next(one for one in json.loads(stored.out) if one["profile"] == "minimal")


def test_a_submission_is_facts_and_alarms(submission):
    content = json.loads((submission / "submission.json").read_text(encoding="utf-8"))
    assert {key: content[key] for key in ("name", "code", "causal", "detector")} == {
        "name": "over-six", "code": FACTS["code"], "causal": True, "detector": "mine.py:Mine",
    }  # fmt: skip
    files = {path.relative_to(submission).as_posix() for path in submission.rglob("*.parquet")}
    assert content["alarms"] == {name: sha256(submission / name) for name in files}
    assert content["batch"] == 1
    assert len(files) == 2
    assert sum(path.stat().st_size for path in submission.rglob("*.parquet")) < 50_000


def test_it_is_scored_again_to_the_same_numbers(call, submission, here):
    (here / "mine.py").write_text(SOURCE, encoding="utf-8")
    again = {card["profile"]: card for card in json.loads(call("rescore", "sample", submission, "--json").out)}
    (direct,) = json.loads(call("score", "sample", "--detector", "mine.py:Mine", "--json").out)
    assert set(again) == {"full", "minimal"}
    for facts in (direct, again["full"]):
        for timed in [facts["cost"], *facts["alarms"]]:
            timed.pop("update_us")
    same = set(direct) - {"detector", "about"}
    assert {key: direct[key] for key in same} == {key: again["full"][key] for key in same}
    assert again["full"]["detector"] == "over-six"
    assert call("rescore", "sample", submission).out.startswith("over-six on ")


def test_a_board_from_stored_alarms_and_submissions(call, kept, submission, here):
    result = call("leaderboard", "sample", "--from", kept, "--from", submission.parent, "--out", "board", "--json")
    assert result.code == 0, result.err
    rows = json.loads(result.out)
    assert {row["detector"] for row in rows} >= {"over-six", "any_zscore", "oracle_at_v"}
    assert {row["profile"] for row in rows} == {"full", "minimal"}
    page = (here / "board" / "leaderboard.html").read_text(encoding="utf-8")
    assert "over-six" in page
    assert FACTS["code"] in page
    full = next(row for row in rows if (row["profile"], row["detector"]) == ("full", "over-six"))
    for at, head, key in (
        ("5%", "operating point: 5 % stopped.", "recall_0.05"),
        ("1%", "operating point: 1 % stopped.", "recall_0.01"),
        ("default", "operating point: published default.", "recall_default"),
        ("none", "operating point: no threshold.", "area"),
    ):
        text = call("leaderboard", "sample", "--from", kept, "--from", submission, "--at", at)
        assert "within" not in text.err
        first, second, third, *lines = text.out.splitlines()
        assert (
            first
            == f"{100 * full['visible_in_time']:.0f} % of failing runs are visible in time under the profile full."
        )
        assert second.endswith("under the profile minimal.")
        assert third.startswith(head)
        (shown,) = [line for line in lines if line.split()[1] == "over-six" and " full " in line]
        assert shown.split(" full ")[1].split()[0] == f"{full[key]:.2f}"


def test_an_entry_that_reads_ahead_has_no_rank(kept, submission, tmp_path):
    ahead = edited(submission, tmp_path, lambda content: content | {"causal": False})
    rows = board_from(sample(), [kept, ahead])["rows"]
    assert {row["rank"] for row in rows if row["detector"] == "over-six"} == {None}
    assert {type(row["rank"]) for row in rows if row["detector"] == "any_zscore"} == {int}


@pytest.fixture(scope="module")
def private(tmp_path_factory):
    """The sample under other ids and seeds."""
    return copied(tmp_path_factory.mktemp("copied") / "private", load("sample"), 1).path


def test_a_claim_is_run_again_and_the_board_says_so(call, kept, submission, private, here):
    (here / "mine.py").write_text(SOURCE, encoding="utf-8")
    words = ("confirm", "sample", submission, "--private", private, "--detector")
    result = call(*words, "mine.py:Mine", "--out", "confirmed")
    assert result.code == 0, result.err
    assert result.out.startswith("over-six: verified on private seeds\n")
    assert "68 of 68" in result.out
    assert result.out.endswith("record: confirmed/over-six.json\n")
    stored = ("leaderboard", "sample", "--from", kept, "--from", submission, "--out", "board")
    for more, claim in (
        ((), "over-six (claimed"),
        (("--confirmed", "confirmed"), "over-six (verified on private seeds: "),
    ):
        board = call(*stored, *more)
        assert board.code == 0, board.err
        assert claim in board.out
        page = (here / "board" / "leaderboard.html").read_text(encoding="utf-8")
        assert f"<small>{claim.removeprefix('over-six (')}" in page
    table = (here / "board" / "leaderboard.csv").read_text(encoding="utf-8")
    assert "verified on private seeds" in table
    (here / "mine.py").write_text(SOURCE.replace("else loss", "else -loss"), encoding="utf-8")
    other = call(*words, "mine.py:Mine", "--json")
    assert other.code == 1
    found = json.loads(other.out)
    assert found["verdict"] == "not reproduced"
    assert found == json.loads((here / "results" / "confirmed" / "over-six.json").read_text(encoding="utf-8"))


def edited(submission, tmp_path, change):
    folder = Path(shutil.copytree(submission, tmp_path / submission.name))
    content = json.loads((folder / "submission.json").read_text(encoding="utf-8"))
    (folder / "submission.json").write_text(json.dumps(change(content)), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda content: [], "submission.json: not a submission"),
        (lambda content: content | {"version": 9}, "version 9 is not allowed; allowed: 1, 2"),
        (lambda content: content | {"contacts": "x"}, "field: 'contacts' is not allowed; did you mean 'contact'?"),
        (lambda content: content | {"contact": ""}, "contact: '' is not allowed"),
        (lambda content: content | {"code": "over there"}, "code: 'over there' is not allowed; allowed: http://"),
        (lambda content: content | {"causal": "yes"}, "causal: 'yes' is not allowed; allowed: true, false"),
        (lambda content: content | {"batch": True}, "batch: True is not allowed; allowed: 1"),
        (lambda content: content | {"name": "other"}, "name: 'other' is not the folder's, 'over-six'"),
        (lambda content: content | {"name": "zclip"}, "name: 'zclip' is taken by a built-in entry"),
        (lambda content: content | {"detector": "x"}, "detector: 'mine.py:Mine' is not the submission's, 'x'"),
        (lambda content: content | {"alarms": {}}, "alarms: {} is not allowed"),
        (
            lambda content: content | {"alarms": dict.fromkeys(content["alarms"], "0")},
            "damaged or edited, its checksum is not that of submission.json",
        ),
        (lambda content: content | {"alarms": content["alarms"] | {"alarms/x.parquet": "0"}}, "x.parquet: missing"),
        (
            lambda content: content | {"alarms": dict(list(content["alarms"].items())[:1])},
            "not listed in submission.json",
        ),
    ],
)
def test_a_submission_that_is_wrong_is_one_line(change, part, call, submission, tmp_path):
    result = call("rescore", "sample", edited(submission, tmp_path, change))
    assert result.code == 2
    assert result.out == ""
    (line,) = result.err.splitlines()
    assert part in line


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ({"name": "Over Six"}, "name: 'Over Six' is not allowed; allowed: up to 60 of a-z, 0-9, - and _"),
        ({"name": "oracle_at_v"}, "name: 'oracle_at_v' is taken"),
        ({"code": "mine.py"}, "code: 'mine.py' is not allowed"),
        ({"licence": " "}, "licence: ' ' is not allowed"),
        ({"contact": None}, "Missing option '--contact'"),
    ],
)
def test_facts_that_are_wrong_are_told_before_any_work(changed, part, call, here):
    (here / "mine.py").write_text(SOURCE, encoding="utf-8")
    result = call(*words("entries", **changed), "--causal")
    assert (result.code, result.out) == (2, "")
    (line,) = result.err.splitlines()
    assert part in line
    assert [path.name for path in here.iterdir()] == ["mine.py"]


def test_bad_words(call, kept, submission, here, data_set):
    for line, part in (
        (("leaderboard", "sample", "--from", kept, "--detector", "zclip"), "detector: not allowed beside --from"),
        (("leaderboard", "sample", "--from", kept, "--alarms", "x"), "alarms: not allowed beside --from"),
        (("leaderboard", "sample", "--from", kept, "--profile", "full"), "profile: not allowed beside --from"),
        (("leaderboard", "sample", "--from", submission), "from: no alarms of any_zscore, grad_norm_zscore"),
        (("leaderboard", "sample", "--from", "nowhere"), "alarms: 'nowhere' is not a file"),
        (("compare", "sample", "zclip"), "detector: one alone is not allowed"),
        (("compare", "sample", "zclip", "zclip"), "detector: 'zclip' is given twice"),
        (("compare", "sample", "zclip", "zclop"), "did you mean 'zclip'?"),
        (("compare", "sample", "sample"), "'sample' is a data set; two data sets are compared by `trainwreck diff`"),
        (("compare", data_set, data_set), "two data sets are compared by `trainwreck diff`"),
        (("compare", "sample", "any_zscore", "--from", kept, "--profile", "full"), "profile: not allowed beside"),
        (("compare", "sample", "any_zscore", "--from", kept, "--track", "blind"), "track: not allowed beside"),
        (("rescore", data_set, submission), "made on other telemetry"),
        (("rescore", "nowhere", submission), "data set: 'nowhere' is not a folder"),
        (("rescore", "sample", kept, kept), "are in"),
        (("leaderboard", "sample", "--confirmed", "x"), "confirmed: not allowed without --from"),
        (("leaderboard", "sample", "--from", kept, "--confirmed", "x"), "confirmed: 'x' holds no record"),
        (("confirm", "sample", "nowhere", "--detector", "zclip", "--private", data_set), "'nowhere' has no submission"),
        (("confirm", "sample", submission, "--detector", "zclip", "--private", data_set), "'zclip' is not the submiss"),
        (("confirm", "sample", submission, "--detector", "mine.py:Mine"), "Missing option '--private'"),
        (
            ("confirm", "sample", submission, "--detector", "mine.py:Mine", "--private", "sample"),
            "has the telemetry of",
        ),
        (
            ("confirm", "sample", submission, "--detector", "mine.py:Mine", "--private", "nowhere"),
            "data set: 'nowhere' is not a folder",
        ),
    ):
        result = call(*line)
        assert (result.code, result.out) == (2, ""), line
        (message,) = result.err.splitlines()
        assert part in message
    assert not list(here.iterdir())
