"""Reinforcement learning of a policy in micro-SWE, paid by execution, by a verifier, or by both.

config      what a policy is trained with; the version of the algorithm
advantages  rewards to group-relative advantages
losses      GRPO and GSPO on log-probabilities
rewards     what an attempt is paid
transforms  scores bent on purpose
"""
