"""How well can one do without a verifier? The rules that are reported beside every score table.

rules  the rules, read from the table or from its trajectories, and the majority of identical patches
shape  how much does the shape of an attempt reveal without its text?
"""
