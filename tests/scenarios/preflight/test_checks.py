"""Each check passes on a sound model and batch, and fails on each fault that it is for."""

import copy
import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.preflight import Preflight, Verdict, checks, preflight
from trainwreck.scenarios.preflight.check import Stage, check
from trainwreck.scenarios.preflight.subject import subject_of

TOKENS, CONTEXT, WIDTH = 60, 16, 32
PADDED = TOKENS + 4


class Model(nn.Module):
    """One causal transformer layer of torch's own; the table has four rows too many."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Embedding(PADDED, WIDTH)
        self.position = nn.Embedding(CONTEXT, WIDTH)
        self.layer = nn.TransformerEncoderLayer(WIDTH, 2, 4 * WIDTH, batch_first=True, norm_first=True)
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, PADDED)

    def features(self, ids: Tensor, ahead: int = 1) -> Tensor:
        x = self.token(ids) + self.position(torch.arange(ids.shape[1]))
        mask = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).triu(ahead)
        return self.norm(self.layer(x, src_mask=mask))

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.features(ids))


def batch() -> tuple[Tensor, Tensor]:
    tokens = torch.randint(0, TOKENS, (6, CONTEXT + 1), generator=torch.Generator().manual_seed(0))
    return tokens[:, :-1], tokens[:, 1:]


def subject(kind: type[nn.Module] = Model, inputs=None, targets=None, **fields) -> Preflight:
    ids, labels = batch()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = kind()
    inputs = ids if inputs is None else inputs
    return Preflight(model, inputs, labels if targets is None else targets, **{"vocab_size": TOKENS, **fields})


def ask(name: str, made: Preflight):
    return preflight(made, [name])[0]


def fails(name: str, made: Preflight, *parts: str) -> None:
    found = ask(name, made)
    assert found.verdict is Verdict.FAIL, found.evidence
    for part in parts:
        assert part in found.evidence
    assert "\n" not in found.evidence


def passes(name: str, made: Preflight) -> None:
    found = ask(name, made)
    assert found.verdict is Verdict.PASS, found.evidence


def does_not_apply(name: str, made: Preflight) -> None:
    found = ask(name, made)
    assert found.verdict is Verdict.NOT_APPLICABLE, found.evidence


def test_the_checks_are_the_files():
    assert set(checks()) == {
        "token_ids_in_range", "labels_aligned", "loss_at_init_is_log_vocab", "gradients_reach_all_parameters",
        "deterministic_repeat", "fp32_versus_mixed", "overfit_tiny_subset", "future_is_hidden", "every_row_is_scored",
        "end_is_scored", "gradients_match_differences", "tied_weights_are_one", "adapters_get_gradients",
    }  # fmt: skip
    for one in checks().values():
        assert one.rule
        assert one.source


def test_a_check_is_named_as_its_file():
    with pytest.raises(ValueError, match="not the name of its file"):
        check(Stage.DATA, rule="r", source="s")(lambda subject: None)


def test_a_sound_subject_passes_all():
    found = preflight(subject(end=int(batch()[1][0, 0]), tied=("head.weight", "head.weight")))
    expected = dict.fromkeys(checks(), Verdict.PASS) | {"adapters_get_gradients": Verdict.NOT_APPLICABLE}
    assert {f.check: f.verdict for f in found} == expected, found


def test_a_classifier_of_floats_is_asked_what_applies():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = Preflight(nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3)), torch.randn(40, 8),
                         torch.arange(40) % 3)  # fmt: skip
    found = {f.check: f.verdict for f in preflight(made)}
    token_checks = {
        "token_ids_in_range", "labels_aligned", "future_is_hidden", "every_row_is_scored", "end_is_scored",
        "tied_weights_are_one", "adapters_get_gradients",
    }  # fmt: skip
    assert {name for name, verdict in found.items() if verdict is Verdict.NOT_APPLICABLE} == token_checks
    assert {verdict for name, verdict in found.items() if name not in token_checks} == {Verdict.PASS}


def test_nothing_of_the_user_is_touched():
    made = subject()
    made.optimizer = torch.optim.AdamW(made.model.parameters())
    made.model.eval()
    before = copy.deepcopy((made.model.state_dict(), made.optimizer.state_dict(), made.inputs, made.targets))
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    expected = random.random(), np.random.rand(), torch.rand(3)
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    preflight(made)
    got = random.random(), np.random.rand(), torch.rand(3)
    assert got[:2] == expected[:2]
    assert torch.equal(got[2], expected[2])
    after = made.model.state_dict(), made.optimizer.state_dict(), made.inputs, made.targets
    assert all(torch.equal(a, b) for a, b in zip(before[0].values(), after[0].values(), strict=True))
    assert before[1] == after[1]
    assert torch.equal(before[2], after[2])
    assert torch.equal(before[3], after[3])
    assert not made.model.training
    assert all(p.grad is None for p in made.model.parameters())


def test_what_the_user_raises_is_evidence():
    class Broken(Model):
        def forward(self, ids: Tensor) -> Tensor:
            raise RuntimeError("sizes\ndo not match")

    fails("overfit_tiny_subset", subject(Broken), "raised RuntimeError: sizes do not match")


def test_an_id_past_the_tokenizer_is_found_though_the_table_has_a_row_for_it():
    ids, labels = batch()
    bad = ids.clone()
    bad[2, 3] = TOKENS + 1
    fails("token_ids_in_range", subject(inputs=bad), "inputs: 1 of 96", "0 to 59", "from 0 to 61")
    passes("token_ids_in_range", subject(inputs=bad, vocab_size=None))
    wrong = labels.clone()
    wrong[0, 0] = -1
    fails("token_ids_in_range", subject(targets=wrong), "targets: 1 of 96")
    wrong[0, 0] = -100  # not scored
    passes("token_ids_in_range", subject(targets=wrong))


@pytest.mark.parametrize("shift", [-1, 0, 2, 3])
def test_labels_off_by_any_step_are_named(shift):
    tokens = torch.randint(0, TOKENS, (6, 40), generator=torch.Generator().manual_seed(0))
    ids, labels = tokens[:, 8 : 8 + CONTEXT], tokens[:, 8 + shift : 8 + shift + CONTEXT]
    fails(
        "labels_aligned",
        subject(inputs=ids, targets=labels),
        f"inputs[t{shift:+d}] for 100.0%",
        f"off by {shift - 1:+d}",
    )
    passes("labels_aligned", subject(inputs=ids, targets=labels, shift=shift))


def test_labels_that_are_no_tokens_of_the_row():
    _, labels = batch()
    fails("labels_aligned", subject(targets=torch.full_like(labels, 7)), "every target is 7")
    fails("labels_aligned", subject(targets=labels.flip(0)), "at no other shift")
    noisy = labels.clone()
    noisy[:, :2] = 3
    fails("labels_aligned", subject(targets=noisy), "at no other shift")
    ignored = labels.clone()
    ignored[:, ::2] = -100
    passes("labels_aligned", subject(targets=ignored))
    does_not_apply("labels_aligned", subject(targets=labels.flip(0), shift=None))
    fails("labels_aligned", subject(targets=torch.full_like(labels, -100)), "no target is scored")


def test_rows_without_a_label_are_counted():
    labels = batch()[1].clone()
    labels[1:4] = -100
    fails("every_row_is_scored", subject(targets=labels), "3 of 6 rows")
    labels[1:4, -1] = 7
    passes("every_row_is_scored", subject(targets=labels))


def test_an_end_that_is_never_scored_is_found():
    ids, labels = (part.clone() for part in batch())
    end = TOKENS - 1
    ids[ids == end], labels[labels == end] = 0, 0
    ids[:, 5], labels[:, 4] = end, end
    does_not_apply("end_is_scored", subject(inputs=ids, targets=labels))
    passes("end_is_scored", subject(inputs=ids, targets=labels, end=end))
    fails("end_is_scored", subject(inputs=ids, targets=labels.masked_fill(labels == end, -100), end=end), "6 times")


class Hooked(Model):
    """Features whose gradient passes through a hook; the loss is as before."""

    def hook(self, grad: Tensor) -> Tensor:
        return grad

    def features(self, ids: Tensor, ahead: int = 1) -> Tensor:
        x = super().features(ids, ahead)
        if x.requires_grad:
            x.register_hook(self.hook)
        return x


def test_a_right_loss_with_a_wrong_gradient_is_found():
    class Small(Hooked):
        def hook(self, grad: Tensor) -> Tensor:
            return 0.5 * grad

    class First(Hooked):
        def hook(self, grad: Tensor) -> Tensor:  # every token has the first one's
            return grad[:, :1].expand_as(grad)

    class Gone(Hooked):
        def hook(self, grad: Tensor) -> Tensor:
            return 0.0 * grad

    passes("gradients_match_differences", subject(Hooked))
    for kind in (Small, First, Gone):
        fails("gradients_match_differences", subject(kind), "off the slopes of the loss")
    fails("gradients_match_differences", subject(loss=lambda logits, y: logits.mean() * torch.nan), "the loss is nan")


@pytest.mark.parametrize("kept", [True, False])
def test_activations_computed_again_with_other_masks_are_found(kept):
    class Thrifty(Model):
        def features(self, ids: Tensor, ahead: int = 1) -> Tensor:
            self.layer.dropout.p = self.layer.dropout1.p = self.layer.dropout2.p = 0.3
            x = self.token(ids) + self.position(torch.arange(ids.shape[1]))
            mask = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).triu(ahead)
            work = checkpoint(self.layer, x, mask, use_reentrant=False, preserve_rng_state=kept)
            return self.norm(work)

    (passes if kept else fails)("gradients_match_differences", subject(Thrifty))


def test_weights_in_a_half_format_have_no_differences():
    made = subject()
    made.model.bfloat16()
    does_not_apply("gradients_match_differences", made)


def test_a_head_that_is_not_the_table_is_found():
    class Tied(Model):
        def __init__(self) -> None:
            super().__init__()
            self.head.weight = self.token.weight

    both = ("token.weight", "head.weight")
    passes("tied_weights_are_one", subject(Tied, tied=both))
    does_not_apply("tied_weights_are_one", subject(Tied))
    fails("tied_weights_are_one", subject(tied=both), "are two parameters, apart by")
    fails("tied_weights_are_one", subject(tied=("token.weight", "head.bias")), "of shapes [64, 32] and [64]")
    fails("tied_weights_are_one", subject(tied=("token.weight", "lm_head.weight")), "no parameter 'lm_head.weight'")
    copied = subject(Tied, tied=both)
    copied.model = copy.deepcopy(copied.model)
    passes("tied_weights_are_one", copied)


@pytest.mark.parametrize("factor", [8.0, 40.0])
def test_a_head_too_large(factor):
    class Loud(Model):
        def forward(self, ids: Tensor) -> Tensor:
            return factor * super().forward(ids)

    fails("loss_at_init_is_log_vocab", subject(Loud), "ln 64 = 4.159", "standard deviation")


def test_the_loss_at_init_is_the_users_own():
    made = subject(loss=lambda logits, y: F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="sum"))
    fails("loss_at_init_is_log_vocab", made)
    does_not_apply("loss_at_init_is_log_vocab", subject(trained=True))
    passes("loss_at_init_is_log_vocab", subject(step=lambda model, inputs, targets: 4.3))
    fails("loss_at_init_is_log_vocab", subject(step=lambda model, inputs, targets: 4.3 * 96))


def test_the_allowance_is_what_logits_of_that_deviation_cost():
    draws = torch.randn(4000, 64, generator=torch.Generator().manual_seed(0)) * 2**0.5
    loss = float(F.cross_entropy(draws, torch.arange(4000) % 64))
    assert loss - np.log(64) == pytest.approx(1 - 1 / 64, abs=0.1)


def test_parameters_without_a_gradient():
    made = subject()
    made.model.layer.linear1.weight.requires_grad_(False)
    fails("gradients_reach_all_parameters", made, "layer.linear1.weight", "requires_grad off")
    made.frozen = ("layer.linear1.*",)
    passes("gradients_reach_all_parameters", made)

    class Detached(Model):
        def forward(self, ids: Tensor) -> Tensor:
            return self.head(self.features(ids).detach())

    fails("gradients_reach_all_parameters", subject(Detached), "token.weight", "without a gradient")

    class Cut(Model):
        def forward(self, ids: Tensor) -> Tensor:
            return super().forward(ids).detach()

    fails("gradients_reach_all_parameters", subject(Cut), "without a gradient")

    class Dead(Model):
        def __init__(self) -> None:
            super().__init__()
            nn.init.constant_(self.layer.linear1.bias, -100.0)

    fails("gradients_reach_all_parameters", subject(Dead), "layer.linear1.weight")


class Adapted(Model):
    """An adapter on a frozen layer, whose activations are recomputed in the re-entrant way; the last norm trains."""

    inputs_require_grad = False

    def __init__(self) -> None:
        super().__init__()
        self.requires_grad_(False)
        self.norm.requires_grad_(True)
        self.lora_a, self.lora_b = (nn.Parameter(x) for x in (torch.randn(WIDTH, 4), torch.zeros(4, WIDTH)))

    def adapted(self, x: Tensor) -> Tensor:
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return self.layer(x, src_mask=mask) + x @ self.lora_a @ self.lora_b

    def features(self, ids: Tensor, ahead: int = 1) -> Tensor:
        x = self.token(ids) + self.position(torch.arange(ids.shape[1]))
        x = x.requires_grad_() if self.inputs_require_grad else x
        return self.norm(checkpoint(self.adapted, x, use_reentrant=True))


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad=True")
def test_adapters_behind_frozen_inputs_get_no_gradient():
    does_not_apply("adapters_get_gradients", subject())
    fails("adapters_get_gradients", subject(Adapted), "2 (lora_a, lora_b)", "without a gradient in 3 steps")
    right = type("Right", (Adapted,), {"inputs_require_grad": True})
    passes("adapters_get_gradients", subject(right))
    still = subject(right, step=lambda model, inputs, targets: 4.3)
    fails("adapters_get_gradients", still, "not moved by 3 training steps")


def test_a_branch_that_begins_at_zero_is_no_fault():
    class Zero(Model):
        def __init__(self) -> None:
            super().__init__()
            nn.init.zeros_(self.head.weight)
            nn.init.zeros_(self.layer.linear2.weight)

    passes("gradients_reach_all_parameters", subject(Zero))


def test_parameters_that_the_optimizer_does_not_hold_or_the_step_does_not_move():
    made = subject()
    made.optimizer = torch.optim.SGD([p for n, p in made.model.named_parameters() if "head" not in n])
    fails("gradients_reach_all_parameters", made, "head.weight", "not in the optimizer")

    def step(model: nn.Module, inputs: Tensor, targets: Tensor) -> None:
        model.zero_grad()
        F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()).backward()
        with torch.no_grad():
            for name, p in model.named_parameters():
                if not name.startswith("norm"):
                    p -= 0.1 * p.grad

    fails("gradients_reach_all_parameters", subject(step=step), "norm.weight, norm.bias", "not moved")


def test_a_gradient_that_is_not_finite():
    class Root(Model):
        def forward(self, ids: Tensor) -> Tensor:
            return super().forward(ids) + (self.token(ids).sum() * 0).sqrt()

    fails("gradients_reach_all_parameters", subject(Root), "not finite")


def test_what_is_not_the_same_twice():
    class Unseeded(Model):
        def forward(self, ids: Tensor) -> Tensor:
            return super().forward(ids) * float(1 + 1e-3 * np.random.default_rng().random())

    class Seeded(Model):
        def forward(self, ids: Tensor) -> Tensor:
            return super().forward(ids) * (1 + 1e-3 * torch.rand(()) * random.random() * np.random.rand())

    fails("deterministic_repeat", subject(Unseeded), "two passes", "off by")
    passes("deterministic_repeat", subject(Seeded))
    passes("deterministic_repeat", subject(again=subject))
    order = iter([False, True, False, True])

    def shuffled() -> Preflight:
        ids, labels = batch()
        flip = next(order)
        return subject(inputs=ids.flip(0) if flip else ids, targets=labels)

    fails("deterministic_repeat", subject(again=shuffled), "the factory", "input 0")


def test_what_half_precision_breaks():
    class Large(Model):
        def forward(self, ids: Tensor) -> Tensor:
            x = self.features(ids)
            return self.head(x + 1e4 * x - F.linear(x, 1e4 * torch.eye(WIDTH)))

    fails("fp32_versus_mixed", subject(Large, mixed=torch.bfloat16))
    does_not_apply("fp32_versus_mixed", subject(mixed=torch.float32))

    def faint(logits: Tensor, targets: Tensor) -> Tensor:  # gradients of 1e-9, which float16 does not have
        return 1e-7 * F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())

    fails("fp32_versus_mixed", subject(mixed=torch.float16, loss=faint), "elements lost")
    passes("fp32_versus_mixed", subject(mixed=torch.float16, loss=faint, loss_scale=1e7))

    class Hot(Model):
        def forward(self, ids: Tensor) -> Tensor:
            x = self.features(ids)
            return self.head(F.linear(1e4 * x, 1e4 * torch.eye(WIDTH)) * 1e-8)

    fails("fp32_versus_mixed", subject(Hot, mixed=torch.float16), "not finite in low precision")
    passes("fp32_versus_mixed", subject(Hot))


def test_a_model_that_can_not_fit_its_batch():
    class Blind(Model):
        def forward(self, ids: Tensor) -> Tensor:
            return super().forward(ids * 0)

    fails("overfit_tiny_subset", subject(Blind), "came down to", "32 targets")
    passes("overfit_tiny_subset", subject())
    fails("overfit_tiny_subset", subject(step=lambda model, inputs, targets: None), "came down to")
    does_not_apply("overfit_tiny_subset", subject(trained=True))


@pytest.mark.parametrize(("ahead", "first"), [(2, 9), (CONTEXT, 0)])
def test_a_mask_that_lets_the_future_in(ahead, first):
    class Leaky(Model):
        def forward(self, ids: Tensor) -> Tensor:
            return self.head(self.features(ids, ahead))

    fails("future_is_hidden", subject(Leaky), f"position 10 changes logits from position {first} on")


def test_of_tokens_that_go_to_experts_neither_the_future_nor_differences_can_be_asked():
    for name in ("future_is_hidden", "gradients_match_differences"):
        passes(name, subject())
        does_not_apply(name, subject(routed=True))


def test_outputs_and_inputs_of_other_forms():
    class Named(Model):
        def forward(self, input_ids: Tensor, scale: float = 1.0) -> dict[str, Tensor]:
            return {"logits": scale * super().forward(input_ids)}

    class Second(Model):
        def forward(self, ids: Tensor, unused: Tensor) -> tuple[Tensor, None]:
            return super().forward(ids).transpose(1, 2), None

    ids, _ = batch()
    for made in (subject(Named, {"input_ids": ids, "scale": 1.0}), subject(Second, (ids, torch.zeros(6, 2)))):
        named = ("overfit_tiny_subset", "end_is_scored", "adapters_get_gradients", "tied_weights_are_one")
        names = [name for name in checks() if name not in named]
        assert {f.verdict for f in preflight(made, names)} == {Verdict.PASS}


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (3, "factory: returns int; allowed: "),
        ((1, 2), "factory: returns tuple"),
        ({"model": 1, "inputs": 2}, "a dict without 'targets'"),
        ({"model": 1, "inputs": 2, "targets": 3, "labels": 4}, "a dict with 'labels'"),
        ((1, torch.zeros(2), torch.zeros(2).long()), "model: int is not allowed; allowed: a torch.nn.Module"),
        ((nn.Linear(2, 2), torch.zeros(2, 2), [0, 1]), "targets: list is not allowed"),
        ((nn.Linear(2, 2), "text", torch.zeros(2).long()), "inputs: str is not allowed"),
        ((nn.Linear(2, 2), torch.zeros(3, 2), torch.zeros(2).long()), r"inputs: shape \[3, 2\] is not allowed"),
        ((nn.ReLU(), torch.zeros(2, 2), torch.zeros(2).long()), "ReLU without parameters"),
        ((nn.Linear(2, 2), torch.zeros(2, 2), torch.zeros(2)), "targets: torch.float32 is not allowed"),
        ((nn.Linear(2, 2), torch.zeros(0, 2), torch.zeros(0).long()), "one or more rows"),
        (
            {"model": nn.Linear(2, 2), "inputs": torch.zeros(2, 2), "targets": torch.zeros(2).long(), "vocab_size": 0},
            "vocab_size: 0",
        ),
    ],
)
def test_what_a_factory_may_not_return(made, message):
    with pytest.raises(InputError, match=message) as refusal:
        subject_of(made)
    assert "\n" not in str(refusal.value)


def test_logits_that_do_not_fit_are_bad_input():
    with pytest.raises(InputError, match=r"logits \[6, 8, 64\] do not fit targets \[6, 16\]"):
        preflight(subject(inputs=batch()[0][:, :8]), ["loss_at_init_is_log_vocab"])


def test_an_unknown_check_is_named():
    with pytest.raises(InputError, match="did you mean 'labels_aligned'"):
        preflight(subject(), ["label_aligned"])
