"""Reinforcement learning of a policy in micro-SWE, rewarded by execution, by a verifier, or by both (`rmlab rl`).

advantages      group-relative advantages from rewards; deliberate distortions of scores that keep the order within a task
artifacts       files made during a run, kept beside the checkpoint until it has ended; attempts as HTML
assemble        sets a training up from its configuration; checks that it may start from the given policy
before          the start's results on held-out tasks, measured once for all runs that begin from it
batch           one batch: the next tasks, attempts at them, rewards, advantages
config          the settings of RL; the version of the algorithm
evaluation      attempts at validation and held-out tasks, measured
forward         the log-probability of each token of an attempt under a model; attempts at one task share its issue
graphed_rows    passes of a decoder over rows of one shape as CUDA graphs
held_out        the held-out benchmarks; two policies compared on them, paired by task
learner         the policy being trained, its adapters, and the start that it is compared with; the training state
                for exact resume
loop            all of these in order
losses          GRPO and GSPO on log-probabilities
outcome         the outcome of a training: gain, collapse, reward hacking; statistics of attempts
paid_cosine     how near the advantages of a reward come to those of the labels, before RL
paid_scores     what a reward would pay for the attempts of a verifier's own score table
reward_model    the verifier's scores of new attempts, calibrated, combined, transformed
rewards         the rewards of attempts; each reward registers itself
tracked         the MLflow run of a training: its identity and its results
update          optimiser steps over a batch
"""
