"""What a run costs before it is started: tokens, operations, memory and hours on a named card. Arithmetic alone, no torch.

advice    what to change so that a run fits its card
assumed   what is assumed where data or a model is not there before a run
cards     GPUs by name, as their makers state them
estimate  what work costs on a card, and whether it fits
lengths   tokens of the attempts of a file, from their characters
memory    bytes by part: weights, gradients, moments, activations, logits, workspace
phases    what a run asks of a device: training, scoring, rollouts
policy_work  what pretraining, warm start, RL and collecting ask of a device
report    a plan in words, as plain values, and the table of memory by model and context
rows      how a training reads its examples: packed or padded, through whose layers
seconds   of a step: matrix products, attention, memory traffic
verifier_work  what the training of a verifier asks of a device
work      the same of any program, by its name
"""
