"""Losses of pairs and of rewarded answers against TRL's trainers, on a GPT-2 of Transformers with a run's weights."""

import numpy as np
import pytest
import torch

from trainwreck.kernels.random import generator
from trainwreck.models.config import Positions
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.data.reward import learned
from trainwreck.scenarios.data.sources.pairs import GIVEN as PROMPT
from trainwreck.scenarios.data.sources.tasks import END, GIVEN, Tasks
from trainwreck.scenarios.training.bundle import Bundle
from trainwreck.scenarios.training.inputs import inputs as inputs_of
from trainwreck.scenarios.training.loop import fresh_state
from trainwreck.scenarios.training.objectives import policy, preferences

pytestmark = [
    pytest.mark.objectives,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]

SEED, ROWS, GROUP, CONTEXT, VOCABULARY = 3, 12, 4, 16, 64
BETA, ANCHOR = 0.3, 0.7
KL, CLIP, CLIP_HIGH, TEMPERATURE = 0.2, 0.1, 0.15, 0.8
NAMES = {  # of a layer
    "attention_norm.gain": "ln_1.weight", "attention_norm.bias": "ln_1.bias", "qkv.weight": "attn.c_attn.weight",
    "qkv.bias": "attn.c_attn.bias", "attention_out.weight": "attn.c_proj.weight",
    "attention_out.bias": "attn.c_proj.bias", "mlp_norm.gain": "ln_2.weight", "mlp_norm.bias": "ln_2.bias",
    "mlp_in.weight": "mlp.c_fc.weight", "mlp_in.bias": "mlp.c_fc.bias", "mlp_out.weight": "mlp.c_proj.weight",
    "mlp_out.bias": "mlp.c_proj.bias",
}  # fmt: skip
OUTER = {"embedding.weight": "transformer.wte.weight", "positions.weight": "transformer.wpe.weight",
         "final_norm.gain": "transformer.ln_f.weight", "final_norm.bias": "transformer.ln_f.bias",
         "head.weight": "lm_head.weight"}  # fmt: skip


# Signals of the profile `trainer` and what TRL's trainers call them.
PAIRED = {
    "margin": "rewards/margins", "chosen_logp": "rewards/chosen", "rejected_logp": "rewards/rejected",
    "preference_accuracy": "rewards/accuracies",
}  # fmt: skip
SCALED = ("rewards/margins", "rewards/chosen", "rewards/rejected")  # times beta
REWARDED = {
    "reward": "reward", "kl": "kl", "policy_entropy": "entropy", "answer_length": "completions/mean_length",
    "groups_without_variance": "frac_reward_zero_std",
}  # fmt: skip


def theirs(name):
    """The name in Transformers of a parameter; None for the head's bias, which is 0 here and which GPT-2 has not."""
    layer, _, rest = name.partition(".")
    return f"transformer.h.{layer.removeprefix('layer_')}.{NAMES[rest]}" if rest in NAMES else OUTER.get(name)


def gpt2(parameters):
    """A GPT-2 that has the parameters, each [1, ...], of a run."""
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=CONTEXT + 1, n_embd=32, n_layer=2, n_head=2, activation_function="gelu",
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, tie_word_embeddings=False, eos_token_id=END, bos_token_id=END,
        pad_token_id=END,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config)
    assert not parameters["head.bias"].any()
    state = {theirs(n): p[0].detach() for n, p in parameters.items() if theirs(n)}
    state["lm_head.weight"] = state["lm_head.weight"].T
    place = state["transformer.wpe.weight"]  # TRL reads a row's last token too, which says nothing that is scored
    state["transformer.wpe.weight"] = torch.cat((place, 0 * place[:1]))
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected
    assert not [name for name in missing if not name.endswith("attn.bias")]
    return model


def words():
    """A tokenizer whose words are ids."""
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    table = {f"t{i}": i for i in range(VOCABULARY)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(table, unk_token="t63"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    end = f"t{END}"
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=end, pad_token=end)


def text(ids):
    return " ".join(f"t{i}" for i in ids)


def bundle_of(setup, make_job, **kept):
    """A bundle of one run at its second step, with weights at which tokens matter, and a reference apart from them."""
    job = make_job(SEED, replaced(setup, model__positions=Positions.DOCUMENT))
    state = fresh_state(job)
    noise = torch.from_numpy(generator(1, "reference").standard_normal(state["parameters"].shape)).float()
    plan = Bundle([job], [state], 0).plan
    own = {name: 3 * value for name, value in plan.views(state["parameters"][None]).items()}
    apart = {name: value + 0.05 * view * value for (name, value), view in zip(
        own.items(), plan.views(noise[None]).values(), strict=True)}  # fmt: skip
    flat = {"parameters": own, "reference": apart}
    state |= {k: torch.cat([v[n].flatten() for n in plan.views(noise[None])]) for k, v in flat.items()}
    return Bundle([job], [state | kept], 1), inputs_of([job], range(1, 2), 0, torch.float32)


def same_gradients(bundle, loss, model, other):
    """Whether the gradients of a loss and of TRL's are the same, parameter by parameter."""
    own = bundle.parameters()
    grads = dict(zip(own, torch.autograd.grad(loss.sum(), list(own.values())), strict=True))
    other.backward()
    found = {name: p.grad for name, p in model.named_parameters()}
    for name, grad in grads.items():
        if theirs(name):
            wanted = found[theirs(name)].T if name == "head.weight" else found[theirs(name)][: grad.shape[1]]
            torch.testing.assert_close(grad[0], wanted, rtol=2e-3, atol=2e-5, msg=lambda text, of=name: f"{of}: {text}")


def arguments(kind, folder, **settings):
    return kind(
        output_dir=str(folder), use_cpu=True, bf16=False, fp16=False, report_to="none", gradient_checkpointing=False,
        per_device_train_batch_size=ROWS, **settings,
    )  # fmt: skip


def logged(trainer):
    """What a trainer has to log so far, as it averages it."""
    return {name: float(np.mean(values)) for mode in trainer._metrics.values() for name, values in mode.items()}


def logged_as(trainer, signals, names, factor=1.0):
    """The signals that the profile `trainer` shows are logged under their names, with the same values."""
    found = logged(trainer)
    for name, theirs in names.items():
        wanted = float(signals[name]) * (factor if theirs in SCALED else 1.0)
        assert found[theirs] == pytest.approx(wanted, rel=1e-3, abs=1e-5), name


def test_the_loss_of_pairs_is_that_of_trl(make_job, tmp_path):
    trl = pytest.importorskip("trl")
    from datasets import Dataset

    base = replaced(bases.preferences(healthy(Size.MICRO)), data__rows=ROWS)
    bundle, block = bundle_of(
        replaced(base, preferences__begun=True, preferences__beta=BETA, preferences__anchor=ANCHOR), make_job
    )
    rows = torch.cat((block.inputs[0][0], block.targets[0].view(ROWS, CONTEXT)[:, -1:]), 1).tolist()
    examples = [
        {"prompt_ids": right[:PROMPT], "chosen_ids": right[PROMPT:], "rejected_ids": wrong[PROMPT:]}
        for right, wrong in zip(rows[::2], rows[1::2], strict=True)
    ]
    parameters, reference = bundle.parameters(), bundle.plan.views(bundle.reference)
    trainer = trl.DPOTrainer(
        gpt2(parameters),
        gpt2(reference),
        arguments(trl.DPOConfig, tmp_path, beta=BETA, loss_type=["sigmoid", "sft"], loss_weights=[1.0, ANCHOR]),
        train_dataset=Dataset.from_list([{"prompt": text([1, 2]), "chosen": text([3]), "rejected": text([4])}]),
        processing_class=words(),
    )
    wanted = trainer.compute_loss(trainer.model, trainer.data_collator(examples))
    found = preferences.losses(bundle, block, 0, 1, None)
    logged_as(trainer, found.signals, PAIRED, BETA)
    assert {"logps/chosen", "logps/rejected"} <= set(logged(trainer)), "of an evaluation, the held-out losses"
    assert float(found.signals["margin"].abs()) > 0.1
    assert float(found.loss) == pytest.approx(float(wanted), rel=1e-5)
    same_gradients(bundle, found.objective, trainer.model, wanted)


def test_the_loss_of_rewarded_answers_is_that_of_trl(make_job, tmp_path):
    trl = pytest.importorskip("trl")
    from datasets import Dataset

    base = replaced(bases.policy(healthy(Size.MICRO)), data__rows=ROWS, policy__begun=True, policy__group=GROUP)
    wished = {"kl": KL, "clip": CLIP, "clip_high": CLIP_HIGH, "temperature": TEMPERATURE, "updates": 4}
    setup = replaced(base, policy__comparisons=200, **{f"policy__{name}": value for name, value in wished.items()})
    bundle, block = bundle_of(setup, make_job)
    judge = learned(Tasks(0), SEED, 200, 0.0)
    prompts = block.inputs[0][0][:, :GIVEN]

    def row(prompt, answer):
        return [*prompt, *answer, *[END] * (CONTEXT + 1 - GIVEN - len(answer))]

    def reward(prompts, completion_ids, **others):
        given = [[int(word[1:]) for word in prompt.split()] for prompt in prompts]
        return [float(judge.reward(np.array(row(g, c)))) for g, c in zip(given, completion_ids, strict=True)]

    gpt2(bundle.plan.views(bundle.reference)).save_pretrained(tmp_path / "reference")
    policy_model = type(gpt2(bundle.parameters())).from_pretrained(tmp_path / "reference")
    examples = [{"prompt": text(prompt)} for prompt in prompts.tolist()]
    trainer = trl.GRPOTrainer(
        policy_model,
        reward,
        arguments(
            trl.GRPOConfig, tmp_path / "run", beta=KL, epsilon=CLIP, epsilon_high=CLIP_HIGH, temperature=TEMPERATURE,
            num_generations=GROUP, max_completion_length=CONTEXT + 1 - GIVEN, loss_type="grpo", scale_rewards="group",
            use_bias_correction_kl=False,
        ),
        train_dataset=Dataset.from_list(examples),
        processing_class=words(),
    )  # fmt: skip
    trainer.model.load_state_dict(gpt2(bundle.parameters()).state_dict(), strict=False)
    trainer.model.eval()  # no step is accumulated
    torch.manual_seed(0)
    batch = trainer._generate_and_score_completions(examples)

    answers = torch.tensor([
        row(prompt, ids[: int(mask.sum())].tolist())
        for prompt, ids, mask in zip(prompts.tolist(), batch["completion_ids"], batch["completion_mask"], strict=True)
    ])  # fmt: skip
    shape = batch["ref_per_token_logps"].shape
    old = batch["ref_per_token_logps"] + torch.from_numpy(generator(2, "old").normal(0, 0.2, shape)).float()
    old_logp = torch.zeros(ROWS, CONTEXT)
    old_logp[:, GIVEN - 1 : GIVEN - 1 + shape[1]] = old
    kept = {"answers": answers, "old_logp": old_logp.flatten(), "sampler_logp": old_logp.flatten()}
    bundle, block = bundle_of(setup, make_job, **kept)
    bundle.rollouts.first = [0]
    found = policy.losses(bundle, block, 0, 1, None)
    assert torch.equal(bundle.rollouts.answers[0], answers)
    advantages, _ = policy.advantage(bundle.rollouts.rewards(answers[None]), GROUP, bundle.rollouts.mixed)
    torch.testing.assert_close(advantages[0], batch["advantages"], rtol=1e-4, atol=1e-5)
    wanted = trainer.compute_loss(trainer.model, batch | {"old_per_token_logps": old})
    logged_as(trainer, found.signals, REWARDED)
    assert 0.0 <= logged(trainer)["clip_ratio/region_mean"] <= float(found.signals["clip_share"])  # of one side
    assert 0.1 < float(found.signals["clip_share"]) < 0.9
    assert float(found.signals["kl"]) > 0.001
    assert float(found.loss) == pytest.approx(float(wanted), rel=1e-4, abs=1e-6)
    same_gradients(bundle, found.objective, trainer.model, wanted)
