"""Reinforcement learning of a policy in micro-SWE, paid by execution, by a verifier, or by both (`rmlab rl`).

config         what a policy is trained with; the version of the algorithm
references     which saved model is meant: a run, a cell of a sweep, or a folder

Pure, on numbers:

advantages     rewards to group-relative advantages
losses         GRPO and GSPO on log-probabilities
rewards        what an attempt is paid
transforms     scores bent on purpose
benchmarks     four held-out benchmarks; two looks at the same tasks compared in pairs
outcome        what came of a training: gained, collapsed, hacked
measures       what attempts look like

The loop:

starts         may training go on from this policy, on these tasks and by these rules
attempts       which tasks come next; attempts that the environment failed on made again
judges         what the verifier says of fresh attempts, calibrated, combined, transformed
batches        one batch: attempts, rewards, advantages
learner        the policy that learns, its adapters, and the start that it is measured from
update         optimiser steps over a batch
looks          validation and held-out tasks on the way
episodes_page  attempts to read, as HTML
attachments    files made on the way, kept beside the checkpoint until the run has ended
state          where a training stands, for exact resume
loop           all of these in order
"""
