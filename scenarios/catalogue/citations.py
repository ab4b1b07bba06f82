"""The documents that describe the failures, and papers and threads that name one first, as scenarios cite them."""

DIVERGENT_LOSS = "Debugging Divergent Loss During Training (2025)"
SYMPTOMS = "Recognizing the symptoms of training instability (ApX Machine Learning, 2026)"
INSTABILITY = "10.2 Debugging Training Instability (Practical Verification, Debugging, and Validation Pipelines)"
READING_CURVES = "Debugging Transformer Training Runs: Reading the Curves"
DEBUGGING = "10.16 Debugging training"

MUON = 'Liu et al. 2025, "Muon is scalable for LLM training"'
KIMI_K2 = 'Kimi Team 2025, "Kimi K2: open agentic intelligence"'
LION = 'Chen et al. 2023, "Symbolic discovery of optimization algorithms"'

TRANSFORMERS_35204 = "huggingface/transformers#35204, logged loss is not correct with gradient accumulation"
TRANSFORMERS_13619 = "huggingface/transformers#13619, Add nan/inf logging filter"
MILES_35 = "radixark/miles_diffusion#35, materialize clip_grad_norm's DTensor before logging"
WANDB_5913 = "wandb/wandb#5913, Wandb stores wrong step, drops all following logs"
TRL_3526 = "huggingface/trl#3526, packing with flash attention kwargs to avoid cross-contamination"
TRANSFORMERS_29285 = "huggingface/transformers#29285, RoPE loses precision for Llama and Gemma"
GPT_NEOX_1003 = "EleutherAI/gpt-neox#1003, RotaryEmbedding is wrong for certain pairs in reduced precision"
MARIN_1803 = "marin-community/marin#1803, controlled comparison of Feistel and linear shuffle"
ACCELERATE_1451 = "huggingface/accelerate#1451, permanent skipping of batches with skip_first_batches"
ACCELERATE_2016 = "huggingface/accelerate#2016, dataloader yields incorrect sequence after resuming"
TORCHTITAN_4324 = "pytorch/torchtitan#4324, deterministic replay for silent data corruption detection"
TRL_6668 = "huggingface/trl#6668, SFTTrainer reports loss 0.0 when every label in the batch is masked"
MEGATRON_BRIDGE_3359 = "NVIDIA-NeMo/Megatron-Bridge#3359, SFT chat loss masking silently falls back to all-ones"
UNSLOTH_416 = "unslothai/unsloth#416, Llama 3 Finetuned model is not generating EOS token"
MEGATRON_1446 = "NVIDIA/Megatron-LM#1446, gradients of the final layer norm differ between ranks"
TRANSFORMER_ENGINE_567 = "NVIDIA/TransformerEngine#567, update fp8_meta amax when copying into Float8Tensor"
OPEN_INSTRUCT_1498 = "allenai/open-instruct#1498, ZeRO-2 discards gradients during manual accumulation"
PYTORCH_170862 = "pytorch/pytorch#170862, clip_grad_norm_ with the norm of a rank's own shard"
