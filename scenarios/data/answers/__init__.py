"""Prompts with answers: pairs of them, tasks with a known true reward, and the reward model that is learned."""
