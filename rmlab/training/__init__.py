"""Supervised training on the one token that answers a prompt.

config       optimiser, schedule, arithmetic, and where a run goes
device       the device, arithmetic and threads of a run, by accelerate
batching     which examples an optimiser step sees: a plan that follows from lengths and seed
schedule     learning rate by step
checkpoint   a training state as one safetensors file, for exact resume
supervised   the loop
"""
