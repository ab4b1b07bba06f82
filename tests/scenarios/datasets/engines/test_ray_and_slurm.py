"""Ray, submitit's local executor, and SLURM as far as an sbatch and srun of a few lines are it, keep one contract."""

import gc
import os
import signal
import stat
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import read_json
from trainwreck.scenarios.datasets.engines.call import Call, End
from trainwreck.scenarios.datasets.engines.ray import Ray
from trainwreck.scenarios.datasets.engines.slurm import FOLDER, Slurm

MISSING = [name for name in ("ray", "submitit") if find_spec(name) is None]
pytestmark = [
    pytest.mark.engines,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}; pip install 'trainwreck[engines]'"),
    # Ray's own modules, and processes that it leaves to end by themselves.
    pytest.mark.filterwarnings("ignore::FutureWarning:ray", "ignore::DeprecationWarning:ray"),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

SBATCH = """#!{python}
import os, re, subprocess, sys
file = sys.argv[1]
text = open(file).read()
with open({log!r}, "a") as log:
    log.write("".join(line + "\\n" for line in text.splitlines() if line.startswith("#SBATCH")))
found = re.search(r"--array=0-([0-9]+)", text)
for task in range(int(found.group(1)) + 1 if found else 1):
    own = {{"SLURM_JOB_ID": "77", "SLURM_NTASKS": "1", "SLURM_JOB_NUM_NODES": "1", "SLURM_NODEID": "0",
           "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_JOB_NODELIST": "here"}}
    if found:
        own |= {{"SLURM_ARRAY_JOB_ID": "77", "SLURM_ARRAY_TASK_ID": str(task)}}
    subprocess.Popen(["bash", file], env=os.environ | own, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print("Submitted batch job 77")
"""
SRUN = """#!/bin/bash
while [[ $1 == --* ]]; do [[ $1 == --unbuffered ]] && shift || shift 2; done
exec "$@"
"""
# A job is failed as soon as anybody asks: the tests that ask are those in which it is.
SACCT = """#!/bin/bash
echo 'JobID|State|NodeList'
echo '77_0|FAILED|here'
echo '77|FAILED|here'
"""
SCANCEL = """#!/bin/bash
echo "scancel $*" >> {log}
"""


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """Commands named as SLURM's, first on the path; the arguments of sbatch and scancel are kept, as text."""
    log = tmp_path / "log.txt"
    scripts = {"sbatch": SBATCH, "srun": SRUN, "sacct": SACCT, "scancel": SCANCEL}
    for name, text in scripts.items():
        file = tmp_path / "bin" / name
        file.parent.mkdir(exist_ok=True)
        python, path = sys.executable, str(log)
        file.write_text(text.format(python=python, log=path) if "{log" in text else text, encoding="utf-8")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return log


@pytest.fixture(params=["ray", "submitit", "sbatch"])
def engine(request, tmp_path, monkeypatch):
    """One of each, started in a folder where something else has this package's name, as in a checkout."""
    (tmp_path / "trainwreck").mkdir()
    (tmp_path / "trainwreck" / "__init__.py").write_text("raise RuntimeError('not this one')", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    if request.param == "sbatch":
        request.getfixturevalue("cluster")
    settings = {
        "ray": Ray(workers=2),
        "submitit": Slurm(tmp_path, workers=2, cluster="local"),
        "sbatch": Slurm(tmp_path),
    }[request.param]
    engine = settings.start(9)
    yield engine
    engine.close()
    gc.collect()  # while the warnings above are not errors


def hear(engine, count):
    found = {}
    while len(found) < count:
        found |= {ended.ticket: ended for ended in engine.ended(None)}
    return found


def test_calls_come_back_done_raised_or_short(engine):
    def work(what, width):
        if what == "short":
            raise MemoryError
        if what == "raise":
            raise KeyError("no such layer")
        return os.getpid(), width

    engine.submit([Call(1, work, ("value",), 5), Call(2, work, ("short",), 1)])
    found = hear(engine, 2)
    assert found[1].end is End.DONE
    assert found[1].value[0] != os.getpid()
    assert found[1].value[1] == 5
    assert found[2].end is End.SHORT
    engine.submit([Call(3, work, ("raise",), 1)])
    raised = hear(engine, 1)[3]
    assert raised.end is End.RAISED
    assert isinstance(raised.value, KeyError)
    assert "in work" in raised.value.__notes__[0]


def test_a_dead_worker_loses_its_call_only(engine):
    def work(dies, width):
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return "done"

    engine.submit([Call(1, work, (True,), 1), Call(2, work, (False,), 1)])
    found = hear(engine, 2)
    assert found[1].end is End.LOST
    assert found[1].why.startswith("lost its ")
    assert (found[2].end, found[2].value) == (End.DONE, "done")
    engine.submit([Call(3, work, (False,), 1)])
    assert hear(engine, 1)[3].end is End.DONE


def test_what_is_asked_of_slurm_is_what_sbatch_is_told(cluster, tmp_path):
    settings = Slurm(tmp_path, workers=3, partition="short", account="lab", cpus=2, gpus=1, minutes=7, memory=3 * 2**29)
    engine = settings.start(2)
    engine.submit([Call(i, lambda width: width, (), i) for i in (1, 2)])
    assert {ended.value for ended in hear(engine, 2).values()} == {1, 2}
    engine.close()
    options = set(cluster.read_text(encoding="utf-8").splitlines())
    assert {
        "#SBATCH --partition=short", "#SBATCH --account=lab", "#SBATCH --cpus-per-task=2", "#SBATCH --gpus-per-node=1",
        "#SBATCH --time=7", "#SBATCH --mem=1536MB", "#SBATCH --array=0-1%2", "#SBATCH --job-name=trainwreck",
    } <= options  # fmt: skip
    assert not (tmp_path / FOLDER).exists()


def test_jobs_that_a_killed_parent_left_are_cancelled_by_the_next(cluster, tmp_path):
    first = Slurm(tmp_path).start(2)
    first.submit([Call(i, lambda width: width, (), i) for i in (1, 2)])
    assert read_json(tmp_path / FOLDER / "jobs.json")["jobs"] == ["77_0", "77_1"]
    second = Slurm(tmp_path).start(2)  # the first is never closed
    record = cluster.read_text(encoding="utf-8")
    assert "scancel 77_0" in record
    assert "scancel 77_1" in record
    second.close()


def test_a_refusal_of_sbatch_is_one_line(cluster, tmp_path):
    refusing = Path(cluster.parent / "bin" / "sbatch")
    refusing.write_text("#!/bin/bash\necho 'sbatch: error: invalid partition: shrt' >&2; exit 1\n", encoding="utf-8")
    engine = Slurm(tmp_path, partition="shrt").start(1)
    with pytest.raises(InputError, match=r"^engine: sbatch refuses the array: [^\n]*invalid partition: shrt[^\n]*$"):
        engine.submit([Call(1, lambda width: width, (), 1)])


def test_slurm_is_refused_where_there_is_no_sbatch(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"^engine: 'slurm' is not allowed without sbatch"):
        Slurm(tmp_path).check()
    Slurm(tmp_path, cluster="local").check()


def test_an_address_where_no_cluster_is_is_refused():
    with pytest.raises(InputError, match=r"^ray-address: 'nowhere:1:2' is not allowed[^\n]*$"):
        Ray(address="nowhere:1:2").start(1)
