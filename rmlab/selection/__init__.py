"""Selection: which trajectories a verifier is trained on, and with which labels.

apportionment  divides a total by weight, house-monotone
pool           a trajectory file without its text: identity and counts in a moment
select         the controlled choice of a training set, and its table
shares         a total shared out in steps: to labels, policies, sources
weak_tests     labels from a few of the hidden tests, by execution
"""
