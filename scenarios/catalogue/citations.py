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
PYTORCH_170862 = "pytorch/pytorch#170862, clip_grad_norm_ with the norm of a rank's own shard"
MEGATRON_1446 = "NVIDIA/Megatron-LM#1446, gradients of the final layer norm differ between ranks"
