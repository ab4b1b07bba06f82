"""LLM Foundry's KillLossSpike: a loss that stays doubled, or stays above a cap."""

from trainwreck.evaluation.detectors.base import Context, Detector, Row, Verdict, finite_score
from trainwreck.evaluation.detectors.registry import register
from trainwreck.evaluation.detectors.streaming import Window


@register
class LlmFoundryKillLossSpike(Detector):
    """The fifth row in a run of rows with loss >= 2 x window mean, or half the window above a cap.

    The project's window is max(100, 5 % of the run). A detector does not know how long a run will
    be, so the window is 100 rows unless the context declares `planned_steps` (informed track). The
    cap is the largest loss of the first window, at most 10, as the project documents it; the
    revision that we read compares the wrong step there, so that its cap stays at 10.

    >>> detector = LlmFoundryKillLossSpike(window=2, patience=1)
    >>> detector.reset(None)
    >>> [detector.update({"step": step, "loss": loss}).alarm for step, loss in enumerate([1.0, 1.0, 2.0, 4.0])]
    [False, False, False, True]
    """

    name = "llm_foundry_kill_loss_spike"
    rule = "loss >= 2 x mean of the last 100, 5 rows in a row; or half of them above min(10, first window's maximum)"
    source = "LLM Foundry, KillLossSpike: patience 4, outlier_multiplier 2, window max(100, 5 % of the run), cap 10"
    blind_spots = (
        "NaN, and the 100 rows after one; the first 100 rows; spikes shorter than 5 rows; everything that stays under "
        "twice the window's mean, which in nats is nearly everything once the loss is low."
    )
    signals = ("loss",)

    def __init__(self, window: int = 100, patience: int = 4, multiplier: float = 2.0, cap: float = 10.0) -> None:
        self.least_window, self.patience, self.multiplier, self.highest_cap = window, patience, multiplier, cap

    def reset(self, context: Context | None) -> None:
        planned = (context or {}).get("planned_steps") or 0
        self.size = max(self.least_window, round(0.05 * planned))
        self.window = Window(self.size)
        self.cap: float | None = None
        self.outliers = self.rows = 0

    def update(self, row: Row) -> Verdict:
        loss = row["loss"]
        if loss is None:
            return Verdict(0.0)
        self.rows += 1
        ratio, alarm = 0.0, False
        if self.window.full:
            if self.cap is None:
                self.cap = min(max(self.window.values), self.highest_cap)
            mean, _ = self.window.mean_and_std()
            ratio = loss / mean if mean > 0.0 else 0.0
            self.outliers = self.outliers + 1 if loss >= mean * self.multiplier else 0
            high = sum(past > self.cap for past in self.window.values)
            alarm = self.outliers > self.patience
            alarm = alarm or (self.rows >= 2 * self.size and high >= self.size / 2)
        self.window.push(loss)
        return Verdict(finite_score(ratio), alarm)
