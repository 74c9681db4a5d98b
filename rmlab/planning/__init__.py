"""What a run costs before it is started: tokens, operations, memory and hours on a named card. Arithmetic alone, no torch.

advice    what to change so that a run fits its card
cards     GPUs by name, as their makers state them
estimate  what work costs on a card, and whether it fits
lengths   tokens of the attempts of a file, from their characters
memory    bytes by part: weights, gradients, moments, activations, logits, workspace
report    a plan in words, as plain values, and the table of memory by model and context
seconds   of a step: matrix products, attention, memory traffic
work      what a program asks of a device: phases of training, scoring and rollouts
"""
