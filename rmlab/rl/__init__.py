"""Reinforcement learning of a policy in micro-SWE, paid by execution, by a verifier, or by both (`rmlab rl`).

advantages      rewards to group-relative advantages
artifacts       files made on the way, kept beside the checkpoint until the run has ended; attempts to read, as HTML
attempts        which tasks come next; attempts that the environment failed on made again
batches         one batch: attempts, rewards, advantages
benchmarks      four held-out benchmarks; two looks at the same tasks compared in pairs
compare_policies  two runs of RL on the same held-out tasks, paired
config          what a policy is trained with; the version of the algorithm
evaluation      validation and held-out tasks on the way
initial_policy  may training go on from this policy, on these tasks and by these rules
learner         the policy that learns, its adapters, and the start that it is measured from; where a training stands,
                for exact resume
loop            all of these in order
losses          GRPO and GSPO on log-probabilities
outcome         what came of a training: gained, collapsed, hacked; what attempts look like
reward_model    what the verifier says of fresh attempts, calibrated, combined, transformed (scores bent on purpose)
rewards         what an attempt is paid; each reward registers itself
update          optimiser steps over a batch
"""
