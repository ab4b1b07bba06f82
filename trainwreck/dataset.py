"""The data set that `import trainwreck` hands out: that of `evaluation`, with its rows as arrays and tables."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from trainwreck.evaluation.constants import DEFAULT_PROFILE, LOG_EVERY
from trainwreck.evaluation.dataset import dataset
from trainwreck.evaluation.learning.arrays import KINDS, ONSET, Arrays, arrays


class DataSet(dataset.DataSet):
    """Runs and their telemetry. Use `load`.

    runs: the runs table, one row a run with its label (docs/schema.md). manifest: plan, environment and checksums.
    path: its folder.
    """

    def xy(
        self,
        split: str | Sequence[str] | None = None,
        profile: str = DEFAULT_PROFILE,
        *,
        label: str = ONSET,
        signals: Sequence[str] | None = None,
        kinds: Sequence[str] = KINDS,
        k: int = LOG_EVERY,
    ) -> Arrays:
        """Rows, labels and groups as arrays: `X, y, groups = data.xy()`.

        X: [rows, features] float32; `.columns` has the names. y: [rows], 1 under the fault, 0 elsewhere.
        groups: [rows], one number a twin set, for scikit-learn's GroupKFold: runs of one twin set share their data.

        split: "calibration", "train", "test", several, or all. profile: what of a run is shown. label: "onset" for 1
        from the first step under the fault on; "visible" for 1 from the step on at which the profile shows it, and
        without the rows between the two. signals: names of the schema; by default those with one number a step that
        the profile shows and some row has. A signal that a run did not log at a step is NaN there. kinds: of runs;
        "cured" and "latent" only where they are asked for. k: steps between two rows of the thinned profiles.
        InputError for a name that is not there, for imported runs, and where no row is left.

        >>> from trainwreck import load
        >>> data = load("sample").xy(profile="minimal")
        >>> data.columns, data.X.shape, int(data.y.sum())
        (('loss', 'lr'), (1024, 2), 145)
        """
        return arrays(self, split, profile, label=label, signals=signals, kinds=kinds, k=k)

    def frame(
        self,
        split: str | Sequence[str] | None = None,
        profile: str = DEFAULT_PROFILE,
        *,
        label: str = ONSET,
        signals: Sequence[str] | None = None,
        kinds: Sequence[str] = KINDS,
        k: int = LOG_EVERY,
    ) -> pd.DataFrame:
        """The same rows as a table: run_id, step, the signals, y, group, and kind, cause, severity, split of the run.

        >>> from trainwreck import load
        >>> table = load("sample").frame(profile="minimal", kinds=["failing"])
        >>> table.columns.tolist()
        ['run_id', 'step', 'loss', 'lr', 'y', 'group', 'kind', 'cause', 'severity', 'split']
        """
        return self.xy(split, profile, label=label, signals=signals, kinds=kinds, k=k).to_frame()


def load(path: str | Path | dataset.DataSet, *, verify: bool = True) -> DataSet:
    """Open a data set: a folder, or "sample", which ships with the package.

    With `verify` every file is checked against its checksum first. InputError that names every file that is missing,
    truncated or edited, or says what else is wrong: not finished, not a data set, of another version.

    >>> len(load("sample"))
    68
    """
    found = dataset.load(path, verify=verify)
    return found if isinstance(found, DataSet) else DataSet(found.path, found.manifest, found.runs)
