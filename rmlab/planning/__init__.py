"""Estimates what a run will cost: tokens, operations, memory and hours on a named card. Pure arithmetic, without torch.

advice    the requirements of a program, and what to change so that it fits on a card
assumed   assumptions for data or models that do not exist yet; token counts of a file's attempts, from their characters
cards     GPUs by name, with their makers' data
estimate  the cost of work on a card: seconds per step, memory, whether it fits
memory    bytes by part: weights, gradients, moments, activations, logits, workspace
phases    the phases of a run: training, scoring, rollouts; packed or padded rows
policy_work  the work of pretraining, warm start, RL and collecting
report    a plan as text and as plain values, and the table of memory by model and context
verifier_work  the work of training a verifier
"""
