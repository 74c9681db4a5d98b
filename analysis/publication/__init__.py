"""Figures of all RL runs together, for a publication: for two columns and for one, with a caption.

equal_ranks        one verifier paid in two ways of equal ranks, and what RL makes of policies under each
foretelling        which offline metric of a verifier foretells what RL with it does
foretelling_marks  its marks and legends
rl_benchmarks      pass@1 after RL on each held-out benchmark, and what the paper reports
rl_by_reward       what becomes of policies under each reward
two_verifiers      two verifiers that are alike in best of k and unlike in what RL makes of them
verifier_panels    panels that show what verifiers are offline, one beside another
"""
