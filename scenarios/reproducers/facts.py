"""Arguments of the plain program's templates: which parts of it a scenario uses, and how."""

import textwrap
from typing import TYPE_CHECKING, Any

from trainwreck.evaluation.dataset.schema import ALIGNED, EVALUATIONS
from trainwreck.models.config import Activation
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import Dialect
from trainwreck.scenarios.data.batch import PADDING, SHORT
from trainwreck.scenarios.data.frames import COARTICULATION
from trainwreck.scenarios.data.masking import SAMPLING_STEPS
from trainwreck.scenarios.data.sources.captions import PLACES
from trainwreck.scenarios.data.sources.chat import Chat
from trainwreck.scenarios.data.sources.language import LanguageSpec
from trainwreck.scenarios.data.sources.selection import SPECS
from trainwreck.scenarios.reproducers import signals as lines
from trainwreck.scenarios.reproducers.values import NotPlainError
from trainwreck.scenarios.spec.proofs import recorded
from trainwreck.scenarios.spec.scenario import Scenario

if TYPE_CHECKING:
    from trainwreck.scenarios.reproducers.program import Program

# Settings that few scenarios touch, and what they are in all others.
SELDOM = {"calls": 1, "update_clip": None, "moment_format": "fp32", "weight_format": "fp32"}

# Other losses, and what they are where the loss is the plain one.
OF_ALL_ROWS = {"label_smoothing": 0.0, "reduction": "mean", "z_loss": 0.0}


def gathered(program: "Program", places: dict[str, str]) -> dict[str, Any]:
    """Everything that the templates ask for. places: the lines of fault and cure by place."""
    values = {name: _distinct([t[name] for t in program.told.values()]) for name in program.told["healthy"]}
    varied = {name for name, found in values.items() if len(found) > 1}
    harvest = program.harvest
    signals = set(harvest.signals) | {program.entry.telling}
    ranks = program.base.distributed.ranks > 1

    def some(name: str, healthy: Any) -> bool:
        return any(v != healthy for v in values[name])

    def how_often(name: str, value: Any) -> str:
        hits = [v == value for v in values[name]]
        return "always" if all(hits) else "sometimes" if any(hits) else ""

    specs = _languages(program)
    decoding = program.base.objective is ObjectiveKind.DECODING
    diffusion = program.base.objective is ObjectiveKind.DIFFUSION
    triggers, names, operators = (
        any(getattr(s, p) > 0 for s in specs.values()) for p in ("p_trigger", "p_name", "p_operator")
    )
    dropout = some("dropout", 0.0)
    noise = some("noise", 0.0)
    known = harvest.known
    pooled = "always" if 0 not in values["pool"] else "sometimes" if some("pool", 0) else ""
    padded = some("padded", False)
    one_token, end_padded = some("one_token_every", 0), some("padding_every", 0)
    scaled = any(t["dynamic"] or t["loss_scale"] != 1.0 for t in program.told.values())
    clip = "" if values["clip"] == [None] else "sometimes" if None in values["clip"] else "always"
    if "clip_coef" in signals and not clip:
        raise NotPlainError("reproducer: clip_coef without clipping is not in the plain program")
    tied, recompute = some("tied", False), some("recompute", "none")
    if tied and some("format", "fp32"):
        raise NotPlainError("reproducer: a tied head in float16 is not in the plain program")
    if {"fp16", "bf16"} <= set(values["format"]):
        raise NotPlainError("reproducer: float16 and bfloat16 in one run is not in the plain program")
    if recompute and (not dropout or varied & {"branch_gain", "shortcut_gain"}):
        raise NotPlainError("reproducer: recomputation without dropout or with gains is not in the plain program")
    if "gradient_rows" in varied and (scaled or any(some(k, v) for k, v in OF_ALL_ROWS.items())):
        raise NotPlainError("reproducer: the gradient of some rows of another loss is not in the plain program")
    experts = _experts(program, {name for name, usual in OF_ALL_ROWS.items() if some(name, usual)}, scaled or dropout)
    used = "used" if "parametrization" in known else "trained"
    signal_lines = [line.replace("used", used) for line in _signal_lines(signals, places["at_clock"], ranks)]
    in_parts = noise or experts or some("evaluated_rows", 0) or some("evaluate_with_dropout", False)
    evaluates = in_parts or "validation" in known or padded or some("fresh_rows", False)
    return {
        "signals": signals,
        "clauses": bool(program.entry.checked()),
        "sharpened": any(spec.sharpness != 1 for spec in specs.values()),
        "operators": operators,
        "chat": Dialect.CHAT.value in specs,
        "refrain": program.base.data.dialect is Dialect.REFRAIN,
        "speech": program.base.data.dialect is Dialect.SPEECH,
        "decoding": decoding,
        "pairs": program.base.objective is ObjectiveKind.PREFERENCES,
        "repeated": "updates" in varied,
        "critic": _critic(program, signals, {"updates", "mixed"} & varied),
        "bonus": some("entropy_bonus", 0.0),
        "one_draw": "one_draw" in varied,
        "mixed": "mixed" in varied,
        "offset": some("offset", 0.0),
        "evenness": "groups_without_variance" in signals,
        "rewarded": program.base.objective is ObjectiveKind.POLICY,
        "diffusion": diffusion,
        "sampling_steps": SAMPLING_STEPS,
        "emphasis": some("emphasis", 0.0),
        "bidirectional": some("causal", True),
        "retrieval": program.base.objective is ObjectiveKind.RETRIEVAL,
        "places": repr(PLACES.tolist()),
        "modalities": program.base.objective is ObjectiveKind.MODALITIES,
        "transcription": _transcription(program, signals),
        "coarticulation": COARTICULATION,
        "keeps_cache": "flush" in varied,
        "cache_slots": "cache_slots" in varied,
        "cache_places": "cache_places" in varied,
        "cache_rows": "cache_rows" in varied,
        "nats": "pool" in known,
        "structures": triggers or names or operators,
        "triggers": triggers,
        "names": names,
        "uses": _Uses(known),
        "padded": padded,
        "pooled": pooled,
        "cut_short": some("longest", 0),
        "some_short": some("short_every", 0),
        "short": SHORT,
        "rare_words": some("rare_words", 0),
        "one_token": one_token,
        "end_padded": end_padded,
        "padding": PADDING,
        "zero_padding": some("zero_padding", False),
        "residual_std": some("residual_std", 0.0),
        "feeds": "training_batch" in known
        or bool(pooled)
        or any((padded, some("longest", 0), some("short_every", 0), some("rare_words", 0), one_token, end_padded)),
        "evaluates": evaluates,
        "held_out": "validation(c)" if evaluates else "held_out",
        "fresh": some("fresh_rows", False),
        "mlp_bias": some("mlp_bias", 0.0),
        "scale_residual": values["scale_residual"] == [True],
        "rope_base": program.base.model.rope_base,
        "learned": some("positions", "rotary"),
        "qk_norm": some("qk_norm", False),
        "placement": values["placement"],
        "half": how_often("format", "fp16") or how_often("format", "bf16"),
        "narrow": "bfloat16" if "bf16" in values["format"] else "half",
        "float8": values["format"] == ["fp8"],
        "amax_stops": "amax_updates" in varied,
        "experts": experts,
        "blind": "balance_axis" in varied,
        "bare": some("without_norm", ()),
        "batch_norm": some("norm", "layer"),
        "one_pass": "one_pass" in values["variance"],
        "eps_outside": "eps_outside" in values["variance"],
        "dropout": dropout,
        "dropped_evaluation": some("evaluate_with_dropout", False),
        "noise": noise,
        "evaluate": in_parts,
        "at": dropout or noise or some("evaluated_rows", 0),
        "q_positions": "q_positions" in varied,
        "k_positions": "k_positions" in varied,
        "rounded_angles": "angle_format" in varied,
        "fp16_scores": "fp16_scores" in values["attention"],
        "unshifted": "softmax_unshifted" in values["attention"],
        "scale": "c.scale" if "scale" in varied else "(c.width // c.heads) ** -0.5",
        "activation": values["activation"],
        "diagonal": "diagonal" in varied,
        "inverted": "inverted" in varied,
        "documents_apart": how_often("documents_apart", True),
        "branch_gain": "branch_gain" in varied,
        "shortcut_gain": "shortcut_gain" in varied,
        "logit_gain": "logit_gain" in varied,
        "by_layer": any("by_layer" in line for line in signal_lines) or "layer_update_ratio" in signals,
        "uses_used": any("used" in line for line in signal_lines) or "layer_update_ratio" in signals,
        "decays": values["weight_decay"] != [0.0],
        "naive": "log_of_softmax" in values["loss_form"],
        "first_factor": "first_factor" in values["loss_form"],
        "tied": tied,
        "refitted": "tied" in varied,
        "recompute": recompute,
        "decay": values["decay"],
        "total_steps": some("total_steps", None),
        "told": {f"c.{name}" for name, usual in SELDOM.items() if some(name, usual)},
        "sampled": some("evaluated_rows", 0),
        "look_alike": program.entry.look_alike,
        "wrong_log": program.entry.look_alike and program.entry.has_signature,
        "own_twin": program.entry.own_twin,
        "ranks": ranks,
        "shared": "shared(state)" in "".join(places.values()),
        "fed": "mine" if ranks else "batch",
        "scaled": scaled,
        "averaged": some("average_decay", 0.0),
        "carried": "gradients_kept" in varied,
        "gradient_gain": "gradient_gain" in varied,
        "gradient_rows": "gradient_rows" in varied,
        "frozen": "frozen" in varied,
        "weights_move": "weights_move" in varied,
        "decay_factors": "decay_factors" in varied,
        "late": "late" in varied,
        "hears": "hears" in varied,
        "alone": "alone" in varied,
        "added_up": "summed" in varied,
        "unshared": "unshared" in varied,
        "clips_alone": "clips_alone" in varied,
        "kept_steps": "" if not program.kept else repr(tuple(sorted(program.kept))),
        "evaluations": bool(known & {"evaluations", "evaluated"} or signals & {*EVALUATIONS}),
        "smoothed": some("label_smoothing", 0.0),
        "summed": some("reduction", "mean"),
        "z_loss": some("z_loss", 0.0),
        "clip": clip,
        "dies": _dies(program),
        "coupled": some("coupled", False),
        "optimizer": values["optimizer"],
        "before": scaled or "frozen" in varied or program.adapted,
        "planned": program.planned is not None,
        "grown": program.grown,
        "adapted": program.adapted,
        "planned_batch": program.planned_batch,
        "signal_lines": signal_lines,
        "kinds": _kinds(program.entry),
        "specs": specs,
        "own": "".join(f"\n\n{text}" for text in harvest.functions.values()),
    }


def _signal_lines(signals: set[str], clock: str, ranks: bool) -> list[str]:
    """The lines of the loop that take the signals."""
    found: list[str] = []
    if signals & lines.TIMES:
        found += ["taken = 1.0", *textwrap.dedent(clock).splitlines(), *lines.CLOCK]
    for signal in sorted(signals - lines.SEEN - lines.ALWAYS - lines.RANKS):
        if signal not in lines.LINES:
            raise NotPlainError(f"reproducer: the signal {signal} is not in the plain program")
        found += lines.LINES[signal]
    if signals & lines.SEEN:
        found.append("row |= {name: [float(x) for x in values] for name, values in seen.items()}")
    if ranks:
        found += lines.OF_RANKS
    elif "rank_batch_hash" in signals:
        found.append('row["rank_batch_hash"] = [zlib.crc32(batch.inputs.tobytes()) % 2**24]')
    return found


def _experts(program: "Program", losses: set[str], more: bool) -> bool:
    """Whether there are experts. losses: what else the loss has; more: a loss scale or dropout."""
    model, told = program.base.model, program.told.values()
    if not model.experts:
        return False
    plain = model.experts_per_token == 1 and model.activation is Activation.GELU and not model.init.mlp_bias
    if not plain or losses or more or any(t["router_z_loss"] or t["gradient_rows"] is not None for t in told):
        raise NotPlainError("reproducer: several experts a token, or another loss, are not in the plain program")
    return True


def _critic(program: "Program", signals: set[str], others: set[str]) -> bool:
    """Whether there is a value head. others: settings that are told and do not go with it in the plain program."""
    if not program.base.model.value_head:
        return False
    if others or "explained_variance" in signals:
        raise NotPlainError("reproducer: old values of a critic, and what they explain, are not in the plain program")
    return True


def _transcription(program: "Program", signals: set[str]) -> bool:
    """Whether frames are transcribed. Of its signals the program has one."""
    if program.base.objective is not ObjectiveKind.TRANSCRIPTION:
        return False
    missing = signals & (lines.SEEN | {*ALIGNED} - {"alignment_mass"})
    if missing or program.base.model.qk_norm or program.base.model.activation is not Activation.GELU:
        what = min(missing, default="another activation or qk-norm")
        raise NotPlainError(f"reproducer: {what} with an encoder is not in the plain program")
    return True


def _dies(program: "Program") -> bool:
    """Whether some run of the proof had a loss that was not finite."""
    level = program.severity
    rows = (
        r for r in recorded() if r["scenario"] == program.entry.id and r["severity"] == (level.value if level else "")
    )
    return any(row["non_finite"] for row in rows)


def _languages(program: "Program") -> dict[str, LanguageSpec]:
    """The dialects that are spoken, by name."""
    harvest = program.harvest
    text = "".join([*harvest.constants.values(), *harvest.functions.values()])
    spoken = {program.base.data.dialect.value} | {d.value for d in Dialect if f'"{d.value}"' in text}
    of_prompts = {Dialect.CHAT.value: Chat().language.spec}
    no_languages = (Dialect.REFRAIN, Dialect.PAIRS, Dialect.FACTS, Dialect.SPEECH, Dialect.CAPTIONS, Dialect.TASKS)
    spoken -= {dialect.value for dialect in no_languages}
    return {name: of_prompts.get(name) or SPECS[Dialect(name)](0) for name in sorted(spoken)} | harvest.languages


def _kinds(entry: Scenario) -> str:
    """The runs that are trained."""
    if entry.own_twin:
        return '"faulty",'
    return '"twin", "faulty"' if entry.look_alike else '"twin", "faulty", "cured"'


class _Uses:
    """Names of the plain program that are used, as attributes for the templates."""

    def __init__(self, known: set[str]) -> None:
        self.known = known

    def __getattr__(self, name: str) -> bool:
        return name in self.known


def _distinct(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found
