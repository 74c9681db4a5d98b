"""Supervised training on the one token that answers a prompt, on demonstrations, and on every next token.

batching     which examples an optimiser step sees: a plan that follows from lengths and seed; how a step is cut into
             micro-batches; documents side by side in rows of one length
checkpoints  a training state on disk, for exact resume on any number of GPUs
config       optimiser, schedule, arithmetic, and where a run goes; how long and how wide a base model reads
device       the device, arithmetic and threads of a run, by accelerate; a model's layers compiled, or their
             activations made again, while they train
language     pretraining: every next token of a corpus, and the answers to comparisons
loop         the one loop of all trainings: schedule, gradient, step, log, checkpoint, stop
optimizer    AdamW as all use it; learning rate by step; accumulation, clipping and the check that numbers are finite
policy       imitation: the loss on the taught tokens of demonstrations; log-probabilities of the tokens that a policy
             said
pretrained   the folder of the model that a training starts from, and whether the learning rate fits its weights
ranks        several processes that train one model together: which micro-batches each reads, what they agree on
sharding     a model shared out over several GPUs, each of which holds a part of every weight
supervised   verifiers: the loss on the answer behind a prompt, or any other sum over examples
"""
