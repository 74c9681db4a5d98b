"""Supervised training on the one token that answers a prompt, on demonstrations, and on every next token.

config           optimiser, schedule, arithmetic, and where a run goes
device           the device, arithmetic and threads of a run, by accelerate
batching         which examples an optimiser step sees: a plan that follows from lengths and seed
schedule         learning rate by step
optimizer        AdamW as all use it
checkpoint       a training state as one safetensors file, for exact resume
compiled         a model's layers compiled while they train
supervised       the loop on answers
packing          documents side by side in rows of one length
language_config  how long and how wide a base model reads
language         the loop on every next token
policy           imitation: the loop on the taught tokens of demonstrations
policy_loss      log-probabilities of the tokens that a policy said
"""
