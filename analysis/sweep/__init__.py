"""The finished verifiers of one sweep, and how its levels compare.

level_tests  which levels differ from the baseline, in words
level_words  the same in sentences, each number with its source
rules        what rules that need no verifier are worth at each level
scored       how many of the attempts a level scores
tracked      the runs of one sweep, grouped so that only comparable ones share a line
"""
