"""Reinforcement learning of a policy in micro-SWE, paid by execution, by a verifier, or by both (`rmlab rl`).

advantages      rewards to group-relative advantages; scores bent on purpose, the order within a task asserted to stay
artifacts       files made on the way, kept beside the checkpoint until the run has ended; attempts to read, as HTML
assemble        from a configuration and what it names to a training that is ready to go; may it go on from this policy?
before          what a start does before it learns, measured once for all runs that begin from it
batch           one batch: which tasks come next, attempts at them, rewards, advantages
config          what a policy is trained with; the version of the algorithm
evaluation      attempts at validation and held-out tasks, measured
forward         how likely each token of an attempt is under a model; attempts at one task share its issue
graphed_rows    passes of a decoder over rows of one shape as CUDA graphs
held_out        the held-out benchmarks; two policies on them, paired by task
learner         the policy that learns, its adapters, and the start that it is measured from; where a training stands,
                for exact resume
loop            all of these in order
losses          GRPO and GSPO on log-probabilities
outcome         what came of a training: gained, collapsed, hacked; what attempts look like
reward_model    what the verifier says of fresh attempts, calibrated, combined, transformed
rewards         what an attempt is paid; each reward registers itself
tracked         the MLflow run of a training: what identifies it, and what came of it
update          optimiser steps over a batch
"""
