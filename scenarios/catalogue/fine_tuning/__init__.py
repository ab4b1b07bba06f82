"""Failures of fine-tuning on prompts and answers."""
