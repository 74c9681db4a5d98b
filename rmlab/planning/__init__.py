"""What a run costs before it is started: tokens, operations, memory and hours on a named card. Arithmetic alone, no torch.

cards    GPUs by name, as their makers state them
memory   bytes by part: weights, gradients, moments, activations, logits, workspace
seconds  of a step: matrix products, attention, memory traffic
"""
