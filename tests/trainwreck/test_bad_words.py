"""A wrong name or value is one line on stderr that names it, exit code 2, and no file."""

import json

import pytest

PLAN = {"scenario": "mask_missing", "role": "faulty", "seed": 0, "size": "micro", "severity": None}
PLAN |= {"overrides": ["steps=12"], "split": "test"}


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["lst"], ["command", "'lst'", "did you mean 'list'?"]),
        (["list", "--family", "look-alike"], ["family", "'look-alike'", "did you mean 'look-alikes'?"]),
        (["show", "hihg_lr"], ["scenario", "'hihg_lr'", "did you mean 'high_lr'?"]),
        (["run", "hihg_lr"], ["scenario", "'hihg_lr'", "did you mean 'high_lr'?"]),
        (["verify", "hihg_lr"], ["scenario", "'hihg_lr'", "did you mean 'high_lr'?"]),
        (["generate", "scenario=hihg_lr", "--out", "o"], ["scenario", "'hihg_lr'", "did you mean 'high_lr'?"]),
        (["run", "high_lr", "--severity", "sever"], ["severity", "'sever'", "did you mean 'severe'?"]),
        (["run", "mask_missing", "--severity", "clear"], ["severity", "'clear'", "it has no scale"]),
        (["generate", "scenario=high_lr", "severity=hard", "--out", "o"], ["severity", "'hard'", "subtle, clear"]),
        (["generate", "scenario=mask_missing", "severity=clear", "--out", "o"], ["severity", "it has no scale"]),
        (["run", "high_lr", "--size", "tiny"], ["size", "'tiny'", "micro, deep, small"]),
        (["run", "high_lr", "--seed", "-1"], ["--seed", "-1"]),
        (["run", "high_lr", "--sede", "1"], ["--sede"]),
        (
            ["run", "corrupt_tokens", "data.source=text", "model.vocab_size=256"],
            ["model.vocab_size: 256", "257 or more"],
        ),
        (["run", "label_leak", "data.source=text", "model.vocab_size=256"], ["data.source: 'text'", "language"]),
        (
            ["generate", "scenario=bad_batch_document", "data.source=text", "model.vocab_size=256", "--out", "o"],
            ["data.source: 'text'", "language"],
        ),
        (["verify", "high_lr", "--seeds", "1"], ["--seeds", "1"]),
        (["verify", "high_lr", "--first-seed", "-1"], ["--first-seed", "-1"]),
        (["verify", "high_lr", "--fresh", "--quick"], ["--fresh", "--quick and --first-seed"]),
        (["verify", "high_lr", "--part", "1/2"], ["part: '1/2'", "N at most 1, the scenarios"]),
        (["verify", "--family", "numeric"], ["family", "'numeric'", "did you mean 'numerics'?"]),
        (["verify", "high_lr", "--family", "numerics"], ["family", "'numerics'", "ids or families"]),
        (["generate", "demo"], ["--out"]),
        (["generate", "demo", "--workers", "0", "--out", "o"], ["--workers", "0"]),
        (["generate", "demo", "--out", "o", "--engine", "slrm"], ["engine", "'slrm'", "did you mean 'slurm'?"]),
        (
            ["generate", "demo", "--out", "o", "--slurm-partition", "fast"],
            ["slurm-partition: 'fast'", "engine local", "allowed: slurm"],
        ),
        (["generate", "demo", "--out", "o", "--engine", "slurm", "--ray-gpus", "1"], ["ray-gpus: 1", "allowed: ray"]),
        (["generate", "demo", "--out", "o", "--engine", "slurm", "--minutes", "5"], ["minutes: 5", "--slurm-minutes"]),
        (
            ["generate", "demo", "--out", "o", "--engine", "slurm", "--slurm-cluster", "locl"],
            ["slurm-cluster", "'locl'", "did you mean 'local'?"],
        ),
        (["generate", "demo", "--out", "o", "--memory", "0"], ["--memory", "0"]),
        (
            ["generate", "scenario=mask_missing", "--out", "o", "--memory", "0.1"],
            ["memory: 0.10 GiB a worker", "mask_missing", "fewer workers"],
        ),
        (["bench", "trian"], ["'trian'", "train"]),
    ],
    ids=" ".join,
)
def test_a_wrong_name_is_refused(words, parts, call, here):
    call(*words).refused(*parts)
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("optimizer.lrr=1", ["'lrr'", "did you mean 'lr'?"]),
        ("optimiser.lr=1", ["'optimiser'", "did you mean 'optimizer'?"]),
        ("fault.facto=1", ["'facto'", "did you mean 'factor'?"]),
        ("optimizer=3", ["optimizer: a group", "lr"]),
        ("steps.more=1", ["'more'"]),
        ("steps=many", ["steps: 'many'", "a whole number"]),
        ("steps=1.5", ["steps: '1.5'", "a whole number"]),
        ("steps=null", ["steps: 'null'", "a whole number"]),
        ("fault.factor=much", ["fault.factor: 'much'", "a number"]),
        ("model.bias=perhaps", ["model.bias: 'perhaps'", "true or false"]),
        ("model.placement=pots", ["model.placement: 'pots'", "did you mean 'post'?"]),
        ("model.attention=referense", ["model.attention: 'referense'", "did you mean 'reference'?"]),
        ("steps=0", ["steps: 0", "1 to"]),
        ("optimizer.lr=-1", ["optimizer.lr: -1.0", "0 to"]),
        ("optimizer.lr=nan", ["optimizer.lr: nan"]),
        ("optimizer.clip=0", ["optimizer.clip: 0", "over 0"]),
        ("fault.ramp_steps=0", ["fault.ramp_steps: 0", "1 or more"]),
        ("fault.factor=1", ["fault.factor: 1", "over 1"]),
        ("fault.factor=inf", ["fault.factor: inf", "a finite number"]),
        ("fault.ramp_steps=1.5", ["fault.ramp_steps: '1.5'", "a whole number"]),
        ("steps=40", ["steps: 40", "high_lr", "on seed 0 its cure is at step 47", "allowed: 59 or more"]),
        ("steps=100 fault.factor=3", ["steps: 100", "its cure is at step", "allowed: 231 or more"]),
        ("model.layers=0", ["model.layers: 0", "1 or more"]),
        ("model.width=15", ["model.width: 15", "multiples of 8"]),
        ("model.vocab_size=8", ["model.vocab_size: 8", "multiples of 16"]),
        ("data.source=text", ["model.vocab_size: 64", "256 or more"]),
        ("+steps=3", ["'+steps=3'", "without a prefix"]),
        ("~steps", ["'~steps'"]),
        ("steps", ["'steps'", "key=value"]),
        ("steps=9 steps=8", ["'steps' is given twice"]),
        ("optimizer.lr=???", ["'optimizer.lr=???' is not allowed"]),
        ("data.text=${oc.env:HOME}", ["'data.text=${oc.env:HOME}' is not allowed; allowed: a plain value"]),
        ("data.text=${now:%Y}", ["'data.text=${now:%Y}' is not allowed"]),
        ("steps=${tail}", ["'steps=${tail}' is not allowed"]),
        ("data.text='x${oc.env:HOME}'", ["is not allowed; allowed: a plain value"]),
        ("optimizer.lr={a:[${oc.decode:1}]}", ["is not allowed; allowed: a plain value"]),
        ("steps@x=3", ["'steps@x=3'", "without a prefix"]),
        ("steps=glob(*)", ["'steps=glob(*)'"]),
        ("steps=" + "9" * 5000, ["steps"]),
        ("steps=" + "9" * 20_000, ["10000 characters"]),
        ("model.layers=1000000", ["model.layers: 1000000", "1 to 4096"]),
        ("model.width=1000000", ["model.width: 1000000", "1 to 65536"]),
    ],
)
def test_a_wrong_setting_is_refused(override, parts, call, here):
    call("run", "high_lr", *override.split()).refused(*parts)
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("setting", "nearest"),
    [
        ("lr=3", "'lr'; did you mean 'optimizer.lr'?"),
        ("factor=3", "'factor'; did you mean 'fault.factor'?"),
        ("layer=3", "'layer'; did you mean 'model.layers'?"),
        ("rows=3", "'rows'; did you mean 'data.rows' or 'evaluation.rows' or 'growth.rows'?"),
    ],
)
def test_a_setting_without_its_group_is_told_with_it(setting, nearest, call, here):
    call("run", "high_lr", setting).refused(f"trainwreck: unknown setting {nearest}")
    call("generate", "scenario=high_lr", setting, "--out", "o").refused(f"trainwreck: unknown setting {nearest}")
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("words", [("model.layers=4096",), ("model.width=32768",), ("model.context=65536",)])
def test_sizes_beyond_memory_are_refused_beforehand_with_the_estimate(words, call, here):
    call("run", "high_lr", *words).refused("memory: about ", "GiB for the 3 runs of high_lr", "of what there is")
    call("generate", "scenario=high_lr", *words, "--out", "o").refused("memory: ", "which takes about ")
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("seed", [2**63, 10**40, -1, "nan", "1.5"])
def test_a_seed_that_no_stream_takes(seed, call, here):
    for words in (("run", "high_lr"), ("reproducer", "high_lr"), ("preflight", "high_lr"), ("quiz", "--no-open")):
        call(*words, "--seed", seed).refused("--seed", str(seed))
    call("generate", "scenario=high_lr", f"seed={seed}", "--out", "o").refused("seed: ")
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("value", ["nan", "inf", "1e400", "-1", "0"])
def test_amounts_that_are_none(value, call, here):
    call("generate", "demo", "--out", "o", "--memory", value).refused("--memory")
    call("generate", "demo", "--out", "o", "--minutes", value).refused("--minutes")
    call("import", "run.csv", "--out", "o", "--log-mb", value).refused("--log-mb")
    assert list(here.iterdir()) == []


def test_names_that_the_system_does_not_take(call, here):
    call("quiz", "--out", "/", "--no-open").refused("out: '/' is not allowed; allowed: a file")
    for long in ("a" * 5000, "a/" * 3000, "a" * 256):
        call("import", long, "--out", "o").refused("aaa" if long[1] == "a" else "a/a")
        call("show", long).refused("aaa" if long[1] == "a" else "a/a")
        call("generate", "demo", "--out", long).refused("aaa" if long[1] == "a" else "a/a")
    assert list(here.iterdir()) == []


def test_messages_have_no_escape_sequences(call, here):
    for words in (("show", "\x1b[31mred"), ("import", "a\x1b]0;title\x07b", "--out", "o"), ("\x1b[2J",)):
        result = call(*words)
        result.refused()
        assert result.err.removesuffix("\n").isprintable()


def test_a_sweep_is_no_setting_of_one_run(call, here):
    call("run", "high_lr", "steps=10,20").refused("'steps=10,20'", "one value")


def test_a_missing_text_is_refused(call, here):
    text = ("data.source=text", "model.vocab_size=256", "data.text=nowhere.txt")
    call("run", "high_lr", *text).refused("data.text: 'nowhere.txt'")


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["dmeo"], ["plan: 'dmeo'", "did you mean 'demo'?"]),
        ([], ["plan: none given", "demo"]),
        (["demo", "high_lr"], ["plan: 'demo high_lr'"]),
        (["seed=range(2)"], ["a sweep without scenario="]),
        (["scenario=high_lr", "seed=one"], ["seed: 'one'", "a whole number"]),
        (["scenario=high_lr", "seed=range(a)"], ["seed: 'range(a)'", "range of whole numbers"]),
        (["scenario=high_lr", "seed=range()"], ["seed: 'range()'", "range of whole numbers"]),
        (["scenario=high_lr", "seed=-1"], ["seed: -1", "0 or more"]),
        (["scenario=high_lr", "seed=range(0)"], ["has no runs"]),
        (["scenario=high_lr", "seed=range(1000000000)"], ["makes 1000000000 combinations", "100000 at most"]),
        (["scenario=high_lr", "seed=range(400)", "steps=range(1,401)"], ["makes 160000 combinations"]),
        (["scenario=high_lr", "seed=range(0,1,0)"], ["a range of finite numbers, with a step"]),
        (["scenario=high_lr", "seed=range(0,inf)"], ["a range of finite numbers"]),
        (["scenario=high_lr", "seed=range(0,1,1e-300)"], ["combinations"]),
        (["scenario=high_lr", "seed=interval(0,1)"], ["values as A,B,C or range(8)"]),
        (["scenario=glob(*)"], ["'scenario=glob(*)' is not allowed; allowed: values as A,B,C or range(8)"]),
        (["scenario=high_lr", "data.text=${oc.env:HOME}"], ["a plain value"]),
        (["scenario=high_lr", "steps=0"], ["steps: 0"]),
        (["nowhere.json"], ["nowhere.json: missing"]),
    ],
    ids=" ".join,
)
def test_a_wrong_plan_is_refused(words, parts, call, here):
    call("generate", *words, "--out", "o").refused(*parts)
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("{", "damaged, not JSON"),
        ("[]", "not a plan"),
        ({"format": "trainwreck-data-set"}, "not a plan"),
        ({"format": "trainwreck-plan"}, "an object with runs"),
        ({"format": "trainwreck-plan", "runs": 3}, "not a plan that this version reads"),
        ({"format": "trainwreck-plan", "runs": []}, "has no runs"),
        ({"format": "trainwreck-plan", "runs": [{"scenario": "high_lr"}]}, "'role'"),
        ({"format": "trainwreck-plan", "runs": [PLAN | {"scenario": "mask_misssing"}]}, "did you mean 'mask_missing'?"),
        ({"format": "trainwreck-plan", "runs": [PLAN | {"role": "villain"}]}, "villain"),
        ({"format": "trainwreck-plan", "runs": [PLAN | {"seed": "one"}]}, "runs[0].seed: a whole number"),
        ({"format": "trainwreck-plan", "runs": [PLAN | {"seed": -1}]}, "seed: -1"),
        ({"format": "trainwreck-plan", "runs": [PLAN | {"severity": "clear"}]}, "it has no scale"),
        ({"format": "trainwreck-plan", "runs": [PLAN | {"scenario": "high_lr"}]}, "subtle, clear, severe"),
        (
            {"format": "trainwreck-plan", "runs": [PLAN | {"scenario": "benign_clean_resume", "role": "cured"}]},
            "look-alike",
        ),
        ({"format": "trainwreck-plan", "runs": [PLAN | {"overrides": ["stesp=3"]}]}, "did you mean 'steps'?"),
        ({"format": "trainwreck-plan", "runs": [PLAN | {"overrides": ["data.text=${oc.env:HOME}"]}]}, "a plain value"),
        ({"format": "trainwreck-plan", "runs": [PLAN | {"overrides": [3]}]}, "runs[0].overrides[0]: text"),
        ({"format": "trainwreck-plan", "runs": [PLAN | {"seed": 2**63}]}, "seed: 9223372036854775808"),
        ("[" * 5000, "brackets deep"),
        ("9" * 5000, "damaged, not JSON"),
    ],
)
def test_a_wrong_plan_file_is_refused(content, part, call, here):
    text = content if isinstance(content, str) else json.dumps(content)
    (here / "plan.json").write_text(text, encoding="utf-8")
    call("generate", "plan.json", "--out", "o").refused(part)
    assert [path.name for path in here.iterdir()] == ["plan.json"]
