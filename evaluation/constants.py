"""The constants of the scoring specification. They live here, never in a data set.

A change of meaning bumps SCORING_VERSION; scores of different versions are not comparable.
"""

SCORING_VERSION = 2

# What a detector sees.
LOG_EVERY = 10  # k: steps between two rows of the thinned profiles
LOG_MB, LOG_COLUMNS, LOG_LINE_KB = 2048.0, 20_000, 16_384.0  # what reading a log may take
LIST_EVERY = 10  # rows between two rows that hold per-layer and other list signals
COMMON_SIGNALS = ("loss", "validation_loss", "grad_norm", "lr")  # of the profile `common`

# What is scored where nothing else is asked for, by a command as in Python.
DEFAULT_PROFILE = "full"
BOARD_PROFILES = ("full", "common")  # of boards; of runs of which only logs were released, the second
DEFAULT_TRACK = "blind"
DEFAULT_SEEDS = 1  # replays of a detector that draws

# Protocols.
REFRACTORY = 20  # steps; a spike at micro size takes 15 to 35 steps to settle

# Splits: thresholds and blind policies are set on these, everything else is measured.
CALIBRATION = "calibration"
TUNING_SPLITS = (CALIBRATION, "train")

# Metrics 1 and 2.
RATE_STEPS = 10_000  # false alarms are counted per so many healthy steps
BUDGETS = (0.01, 0.05)  # share of healthy runs that may be stopped
HEADLINE_BUDGET = 0.05
CALIBRATION_RUNS = {0.01: 300, 0.05: 60}  # no stop in so many healthy runs bounds the rate at the budget
LOOK_ALIKE_SHARE = 0.1  # of the runs that a budget counts
LARGEST_STOPPED = 0.1  # up to where the curve of recall over the share stopped counts for the area under it

# Metric 5.
TOP = (1, 3)
UNKNOWN = "unknown"  # the right answer for a cause that no training run had
# Causes of the family `logging`: an alarm that names one first, on a run that is healthy and logged wrongly, is right.
LOG_FAULTS = ("log_loss_summed", "log_nan_as_zero", "log_norm_of_one_shard", "log_rows_missing")

# Metric 6, as shares of the run's last step.
RESPONSE = 0.01  # r: what it takes to act on a true alarm
COSTS = {
    "inspect": 0.01,  # someone looks at the curves
    "rollback": 0.05,  # half of a checkpoint interval of a tenth of the run, the mean loss of a restart
    "kill": 1.0,  # the run is thrown away
}
PREVALENCES = (0.02, 0.1, 0.5)  # pi: share of runs that fail
HEADLINE_COST = "rollback"
HEADLINE_PREVALENCE = 0.1

# Uncertainty.
RESAMPLES = 400  # of scenarios, of seeds, and of the cells of both; a standard error is then known to 4 %
PERMUTATIONS = 10_000
CONFIDENCE = 0.95
CLUSTERS = 8  # scenarios, and seeds; with fewer, a note is printed
SIGNIFICANCE = 0.05

# The leaderboard. An entry that failed on a larger share of the runs has no rank, and no part in the ranks of others.
MOST_FAILED = 0.1
# A scenario is easy when each of these finds so large a share of its runs in time.
ONE_LINERS = ("nonfinite_loss", "loss_over_minimum", "grad_norm_zscore", "any_zscore")
EASY_RECALL = 0.9
