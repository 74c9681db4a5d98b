"""Figures and tables from tracked runs. One file a figure; each reads runs, never training code.

tracked                       the runs of one sweep, grouped so that only comparable ones share a line
figures                       which figures there are, and how one is drawn
summaries                     a sweep's one summary run: table, figures, note
level_tests                   which levels differ from the baseline, in words
sweep_table                   the table of a sweep
style                         colours, sizes, file formats: what all figures have in common
rm_at_k                       best of k over k, by level, with pass@k and the baselines
differences                   every level beside the baseline: what is shown, what is not
discrimination_calibration    AUC (both) and ECE with its noise floors over the factor; the paper's values in a panel of their own
reliability                   reliability diagrams with counts
score_distributions           scores of resolved and unresolved attempts
pareto                        the trials of a search, and those that no other beats
watched                       a verifier on the policy's own attempts, from the tables of an RL run's looks
outcomes                      reads what an RL run left behind, and proves it
policies                      the RL runs of a store, grouped so that only comparable ones share axes
policy_measures               what is measured of a verifier and of the policy that it paid
rl_table                      what came of every RL run
rl_curves                     what became of policies in training
relation                      which offline metric foretold it
paper_reported.yaml           what the paper reports, for overlays
"""

import os

# A notebook sets a backend of its own for what it starts, and matplotlib refuses one that is not installed here as soon as it is
# imported. Figures are files.
os.environ["MPLBACKEND"] = "Agg"
