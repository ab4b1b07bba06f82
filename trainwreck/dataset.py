"""The data set that `import trainwreck` hands out: that of `evaluation`, with its rows as arrays and tables."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from trainwreck.arguments import checked
from trainwreck.evaluation.constants import DEFAULT_PROFILE, LOG_EVERY
from trainwreck.evaluation.dataset import dataset
from trainwreck.evaluation.dataset.schema import FAILURES, RunKind
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.learning.arrays import KINDS, ONSET, Arrays, arrays

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEPS = "steps"  # what a declared configuration leaves out, since no detector may know it


class Run(Trace):
    """The telemetry of a run of a data set: a `Trace` that knows the data set, and so its label and its twin."""

    data: "DataSet"

    @property
    def label(self) -> pd.Series:
        """Its row of the runs table."""
        return self.data.run(self.run_id)

    @property
    def title(self) -> str:
        """What it is, in a line: scenario, severity, kind, seed; of an imported run its id and that."""
        row = self.label
        if row["kind"] == RunKind.IMPORTED.value:
            return f"{self.run_id}, {row['kind']}"
        parts = [row["scenario"], row["severity"], row["kind"], f"seed {row['seed']}"]
        return ", ".join(str(part) for part in parts if part)

    def figure(self, *signals: str) -> "Figure":
        """Its picture beside its twin's; a panel for each signal. See `trainwreck.figure`."""
        from trainwreck.pictures import figure

        return figure(self, signals=signals)

    def __repr__(self) -> str:
        return f"{super().__repr__()}\n  {self.title}"

    def _repr_html_(self) -> str:
        from trainwreck.pictures import as_html

        return as_html(self.figure())

    def __reduce__(self) -> tuple[Any, ...]:
        return Trace, (self.run_id, dict(self.signals), self.evaluated, self.steps, self.logged)


class DataSet(dataset.DataSet):
    """Runs and their telemetry. Use `load`.

    runs: the runs table, one row a run with its label (docs/schema.md). A setting of the runs that the plan gives more
    than one value is a column as well, by its name: `optimizer.lr`, and `fault.factor` for a knob, which is missing
    where there is no fault. manifest: plan, environment and checksums. path: its folder.
    """

    def __init__(self, path: Path, manifest: dict[str, Any], runs: pd.DataFrame) -> None:
        super().__init__(path, manifest, with_settings(runs))

    def trace(self, run_id: str) -> Run:
        """Telemetry of a run: `run["loss"]` is a signal, `run.label` its row of the runs table."""
        found = super().trace(run_id)
        run = Run(found.run_id, found.signals, found.evaluated, found.steps, found.logged)
        run.data = self
        return run

    @checked
    def xy(
        self,
        split: str | Sequence[str] | None = None,
        profile: str = DEFAULT_PROFILE,
        *,
        label: str = ONSET,
        signals: Sequence[str] | None = None,
        kinds: Sequence[str] = KINDS,
        k: int = LOG_EVERY,
        window: int = 1,
    ) -> Arrays:
        """Rows, labels and groups as arrays: `X, y, groups = data.xy()`.

        X: [rows, features] float32; `.columns` has the names. y: [rows], 1 under the fault, 0 elsewhere.
        groups: [rows], one number a twin set, for scikit-learn's GroupKFold: runs of one twin set share their data.

        split: "calibration", "train", "test", several, or all. profile: what of a run is shown. label: "onset" for 1
        from the first step under the fault on; "visible" for 1 from the step on at which the profile shows it, and
        without the rows between the two. signals: names of the schema; by default those with one number a step that
        the profile shows and some row has. A signal that a run did not log at a step is NaN there. kinds: of runs;
        "cured" and "latent" only where they are asked for. k: steps between two rows of the thinned profiles. window:
        so many rows of a run are one row of X, itself last; NaN before the run began. `X.reshape(len(X), window, -1)`
        has them one by one. InputError for a name that is not there, for imported runs, and where no row is left.

        >>> from trainwreck import load
        >>> data = load("sample").xy(split="test", profile="minimal", window=2)
        >>> data.columns
        ('loss@-1', 'lr@-1', 'loss', 'lr')
        """
        return arrays(self, split, profile, label=label, signals=signals, kinds=kinds, k=k, window=window)

    @checked
    def frame(
        self,
        split: str | Sequence[str] | None = None,
        profile: str = DEFAULT_PROFILE,
        *,
        label: str = ONSET,
        signals: Sequence[str] | None = None,
        kinds: Sequence[str] = KINDS,
        k: int = LOG_EVERY,
        window: int = 1,
    ) -> pd.DataFrame:
        """The same rows as a table: run_id, step, signals, y, phase, group, and the kind, cause, severity and split.

        phase: "no fault", "before onset", "under fault", "visible" (to this profile), "cured" or "not known".

        >>> from trainwreck import load
        >>> table = load("sample").frame(profile="minimal", kinds=["failing"])
        >>> table.columns.tolist()
        ['run_id', 'step', 'loss', 'lr', 'y', 'phase', 'group', 'kind', 'cause', 'severity', 'split']
        """
        found = self.xy(split, profile, label=label, signals=signals, kinds=kinds, k=k, window=window)
        return found.to_frame()

    def counts(self) -> pd.DataFrame:
        """Runs by kind, a row each, and by split, a column each."""
        return pd.crosstab(self.runs["kind"], self.runs["split"])

    def __repr__(self) -> str:
        return self._headline() + ("" if self.imported else f"\n{self.counts().to_string()}")

    def _repr_html_(self) -> str:
        from html import escape

        return f"<p>{escape(self._headline())}</p>" + ("" if self.imported else self.counts().to_html())

    def _headline(self) -> str:
        failing = self.runs[self.runs["kind"].isin(FAILURES)]
        of = f"{failing['cause'].nunique()} causes, {self.runs['base'].nunique()} bases"
        runs = f"{len(self)} run{'' if len(self) == 1 else 's'}"
        return f"data set {str(self.path)!r}: {runs}, {'imported' if self.imported else of}"


@checked
def load(path: str | Path | dataset.DataSet, *, verify: bool = True) -> DataSet:
    """Open a data set: a folder, or "sample", which ships with the package.

    With `verify` every file is checked against its checksum first. InputError that names every file that is missing,
    truncated or edited, or says what else is wrong: not finished, not a data set, of another version.

    >>> load("sample").manifest["plan"]
    'sample'
    """
    found = dataset.load(path, verify=verify)
    return found if isinstance(found, DataSet) else DataSet(found.path, found.manifest, found.runs)


def with_settings(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs table with a column for each setting that its plan gives more than one value."""
    specs = [json.loads(text or "{}") for text in runs["spec"].fillna("")]
    given = [dict(text.split("=", 1) for text in spec.get("overrides", ())) for spec in specs]
    names = sorted({name for settings in given for name in settings} - {*runs.columns})
    declared = [json.loads(text or "{}") for text in runs["context"].fillna("")] if names else []
    added = {}
    for name in names:
        values = [_value(name, settings, config) for settings, config in zip(given, declared, strict=True)]
        if name == STEPS:
            values = runs["planned_steps"].tolist()
        if len({repr(value) for value in values if value is not None}) > 1:
            added[name] = pd.Series(values, index=runs.index).infer_objects()
    return runs.assign(**added) if added else runs


def _value(name: str, given: dict[str, str], declared: dict[str, Any]) -> Any:
    """Of a setting in a run: what its configuration declares; of a knob, which that does not have, what was given."""
    node: Any = declared
    for part in name.split("."):
        if not isinstance(node, dict) or part not in node:
            return _number(given.get(name))
        node = node[part]
    return node


def _number(text: str | None) -> Any:
    """A number where a text is one, else the text."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text
