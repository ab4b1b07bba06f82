"""The documents that describe the failures, as scenarios cite them."""

DIVERGENT_LOSS = "Debugging Divergent Loss During Training (2025)"
SYMPTOMS = "Recognizing the symptoms of training instability (ApX Machine Learning, 2026)"
INSTABILITY = "10.2 Debugging Training Instability (Practical Verification, Debugging, and Validation Pipelines)"
READING_CURVES = "Debugging Transformer Training Runs: Reading the Curves"
DEBUGGING = "10.16 Debugging training"
