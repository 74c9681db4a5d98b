"""RL runs: what they left behind, what is measured of it, and the figures of comparable runs.

outcomes         reads what an RL run left behind, and proves it
policies         the RL runs of a store, grouped so that only comparable ones share axes
policy_measures  what is measured of a verifier and of the policy that it paid
rank_statistics  rank correlation within strata, permutation, bootstrap, and what a choice by a metric costs
relation         figure: offline metrics of a verifier beside what RL with it does
rl_curves        figure: pass@1 and hacking gap during training
rl_table         table: the result of every RL run
watched          a verifier on the policy's own attempts, from the score tables of an RL run's evaluations
"""
