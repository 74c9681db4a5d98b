"""Supervised training on the one token that answers a prompt, on demonstrations, and on every next token.

batching     which examples an optimiser step sees, planned from lengths and seed; how a step is split into
             micro-batches; documents packed into rows of one length
checkpoints  a training state on disk, for exact resume on any number of GPUs
config       optimiser, schedule, precision, and where a run is computed; the training of a base model
device       the device, precision and threads of a run, by accelerate; compilation of a model's layers, and
             recomputation of their activations
language     pretraining: every next token of a corpus, and the answers to comparisons
loop         the one loop of all trainings: schedule, gradient, step, log, checkpoint, stop
optimizer    AdamW, the same for all trainings; learning rate by step; accumulation, clipping, a check for finite numbers
policy       imitation: the loss on the taught tokens of demonstrations; log-probabilities of the tokens that a policy
             generated
pretrained   the folder of the model that a training starts from, and whether the learning rate suits its weights
ranks        several processes that train one model together: which micro-batches each reads, what they agree on
replicas     a model that several GPUs hold, each the whole of it; or sharded, where that does not fit
sharding     a model sharded over several GPUs, each of which holds a part of every weight
supervised   verifiers: the loss on the answer after a prompt, or any other sum over examples
"""
