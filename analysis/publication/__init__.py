"""Figures of all RL runs together, for a publication: for two columns and for one, with a caption.

foretelling        which offline metric of a verifier foretells what RL with it does
foretelling_marks  its marks and legends
rl_by_reward       what becomes of policies under each reward
two_verifiers      two verifiers that are alike in best of k and unlike in what RL makes of them
"""
