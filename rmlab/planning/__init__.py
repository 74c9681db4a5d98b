"""What a run costs before it is started: tokens, operations, memory and hours on a named card. Arithmetic alone, no torch.

advice    what a program asks of a card, and what to change so that it fits
assumed   what is assumed where data or a model is not there before a run; tokens of the attempts of a file, from their characters
cards     GPUs by name, as their makers state them
estimate  what work costs on a card: seconds of a step, memory, whether it fits
memory    bytes by part: weights, gradients, moments, activations, logits, workspace
phases    what a run asks of a device: training, scoring, rollouts; packed or padded rows
policy_work  what pretraining, warm start, RL and collecting ask of a device
report    a plan in words, as plain values, and the table of memory by model and context
verifier_work  what the training of a verifier asks of a device
"""
