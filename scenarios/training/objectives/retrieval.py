"""Answers to questions after passages that the model finds by itself, in an index that is rebuilt every so often.

Retriever and reader share the token table. The retriever asks for the key whose token is nearest to the name's by the
cosine (two encoders of one space, Karpukhin et al. 2020), and learns which that is by the cross entropy over all keys.
The index has the keys' tokens as they were when it was made, of what the slots of the store held then; what lies in the
slot now is the passage that is read. The reader learns the answers after the passages that were found.

Shapes: N runs, B rows, T positions, Q exchanges of a batch, S facts and slots, D width.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from trainwreck.kernels.random import sent
from trainwreck.models import gpt
from trainwreck.models.loss import weighted_mean
from trainwreck.models.probe import Probe
from trainwreck.scenarios.data.sources.facts import EXCHANGE, FACTS, KEY, PASSAGE, QUESTION, Facts
from trainwreck.scenarios.data.sources.selection import source, source_key
from trainwreck.scenarios.training.bundle import Bundle, HeldOut
from trainwreck.scenarios.training.evaluation import evaluated, held_out_logits, sampled
from trainwreck.scenarios.training.inputs import Inputs
from trainwreck.scenarios.training.objectives import next_token
from trainwreck.scenarios.training.objectives.losses import Losses

TEMPERATURE = 0.1  # of cosines


def losses(bundle: Bundle, block: Inputs, index: int, step: int, probe: Probe | None) -> Losses:
    """The next token of answers after the passages that are found; what is minimised has the retriever's loss too."""
    inputs = block.inputs[index]
    names_NQ = _names(inputs)
    with torch.no_grad():
        refresh(bundle, step)
        read = _with_passages(bundle, inputs, _found(bundle, bundle.parameters(), names_NQ), step)
    found = next_token.losses(bundle, block, index, step, probe, read)
    table = bundle.parameters()["embedding.weight"]
    nearness = _cosines(gpt.embed(table, names_NQ), table[:, KEY : KEY + FACTS]) / TEMPERATURE
    wanted_NS = _of_runs([facts.keys - KEY for facts in _facts(bundle)], bundle.device)
    wanted_NQ = wanted_NS.gather(1, names_NQ)
    retriever = F.cross_entropy(nearness.transpose(1, 2), wanted_NQ, reduction="none").mean(1)
    return found._replace(objective=found.objective + retriever)


@torch.no_grad()
def evaluate(bundle: Bundle, step: int) -> dict[str, Tensor]:
    """Losses of held-out questions about the store as it is at the step, how many find the right passage, each [N]."""
    refresh(bundle, step)
    found = _answered(bundle, step, bundle.held_out)
    found["index_age"] = step - bundle.indexed
    if bundle.fresh is not None:
        found["fresh_loss"] = _answered(bundle, step, bundle.fresh)["validation_loss"]
    return found


def refresh(bundle: Bundle, step: int) -> None:
    """Make the index of the runs that are due: of the weights and the stores of this step."""
    every = [s.setup.retrieval.refresh for s in bundle.segments]
    due = [step == 0 or (n > 0 and step % n == 0) for n in every]
    if not any(due):
        return
    keys_NS = _of_runs([facts.store(step)[:, 0] for facts in _facts(bundle)], bundle.device)
    table = bundle.plan.views(bundle.computing())["embedding.weight"]
    due_N = torch.tensor(due, device=bundle.device)
    bundle.index = torch.where(due_N.view(-1, 1, 1), gpt.embed(table, keys_NS), bundle.index)
    bundle.indexed = torch.where(due_N, float(step), bundle.indexed)


def _answered(bundle: Bundle, step: int, held_out: HeldOut) -> dict[str, Tensor]:
    inputs, _, weights, documents = held_out
    names_NQ = _names(inputs)
    params = evaluated(bundle, step).params
    slots_NQ = _found(bundle, params, names_NQ)
    read = _with_passages(bundle, inputs, slots_NQ, step)
    truth = read.roll(-1, 2)  # the last of a row is nobody's target
    parts = held_out_logits(bundle, step, (read, truth, weights, documents))
    nll = torch.cat([bundle.token_losses(logits, targets).nll_NM for logits, targets in parts], 1)
    weights = sampled(bundle, step, weights).flatten(1)
    hit_NQ = slots_NQ == _right(bundle, names_NQ, step)
    hit_NM = hit_NQ.repeat_interleave(EXCHANGE, 1)
    counted = weights.view(len(weights), -1, EXCHANGE).amax(2)
    return {
        "validation_loss": weighted_mean(nll, weights),
        "hit_rate": weighted_mean(hit_NQ.to(nll.dtype), counted),
        "hit_loss": _mean_of(nll, torch.where(hit_NM, weights, 0.0)),
        "miss_loss": _mean_of(nll, torch.where(hit_NM, 0.0, weights)),
    }


def _mean_of(nll_NM: Tensor, weights_NM: Tensor) -> Tensor:
    """NaN of nothing."""
    return torch.where(weights_NM.sum(1) > 0, weighted_mean(nll_NM, weights_NM), torch.nan)


def _facts(bundle: Bundle) -> list[Facts]:
    found = [source(source_key(segment.setup.data)) for segment in bundle.segments]
    return [one for one in found if isinstance(one, Facts)]


def _of_runs(arrays: list[np.ndarray], device: torch.device) -> Tensor:
    return sent(np.stack(arrays), device)


def _names(inputs_NBT: Tensor) -> Tensor:
    """The name that each exchange asks for, [N, Q]; the last one for an id of a damaged row that is no name."""
    return inputs_NBT[..., QUESTION::EXCHANGE].flatten(1).clamp(max=FACTS - 1)


def _found(bundle: Bundle, params: dict[str, Tensor], names_NQ: Tensor) -> Tensor:
    """The slot that the index has nearest to each name, [N, Q]."""
    return _cosines(gpt.embed(params["embedding.weight"], names_NQ), bundle.index).argmax(2)


def _cosines(a_NQD: Tensor, b_NSD: Tensor) -> Tensor:
    """[N, Q, S]"""
    return torch.bmm(F.normalize(a_NQD, dim=2), F.normalize(b_NSD, dim=2).transpose(1, 2))


def _right(bundle: Bundle, names_NQ: Tensor, step: int) -> Tensor:
    """The slot that has the answer to each name at a step, [N, Q]."""
    slots_NS = _of_runs([facts.right(np.arange(FACTS), step) for facts in _facts(bundle)], bundle.device)
    return slots_NS.gather(1, names_NQ)


def _with_passages(bundle: Bundle, inputs_NBT: Tensor, slots_NQ: Tensor, step: int) -> Tensor:
    """Rows with the passages of these slots, and the answers that are right at a step."""
    stores_NSP = _of_runs([facts.store(step) for facts in _facts(bundle)], bundle.device)

    def of(slots: Tensor) -> Tensor:
        return stores_NSP.gather(1, slots.unsqueeze(2).expand(-1, -1, PASSAGE))

    names_NQ = _names(inputs_NBT)
    answers = of(_right(bundle, names_NQ, step))[..., 1:]
    return torch.cat((of(slots_NQ), names_NQ.unsqueeze(2), answers), 2).view_as(inputs_NBT)
