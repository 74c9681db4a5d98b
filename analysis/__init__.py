"""Figures and tables from tracked runs. One file a figure; each reads runs, never training code.

The figures stand in README.md, a table that `python -m analysis.registry` writes. The other files:

registry                      the figures, each registered where it is defined
tracked                       the runs of one sweep, grouped so that only comparable ones share a line
summaries                     a sweep's one summary run: table, figures, note
conclusions                   what came out of a sweep, in five lines of plain words
level_tests                   which levels differ from the baseline, in words
sweep_table                   the table of a sweep
rules                         what rules that need no verifier are worth at each level of a sweep
planned_cells                 the cells that a study plans, and in what a run differs from its cell
planned_study                 several sweeps as one study: what is planned beside what is finished
study_ledger                  which cells of a study are finished or missing, in words, and the commands that run these
study_effects                 what came of each sweep of a study: the largest differences, what is shown, what would have been
study_repeats                 cells of a study that were trained again, and where the later training falls
study_table                   one table of all sweeps of a study
study_overview                one figure of all sweeps of a study
marked_text                   a text under construction, and the source of each number in it
study_page                    the page of a study's results, its numbers marked
study_answer                  what it found, in a few lines
study_gallery                 the page that shows the figures of each of its sweeps
style                         colours, sizes, file formats: what all figures have in common
watched                       a verifier on the policy's own attempts, from the score tables of an RL run's evaluations
outcomes                      reads what an RL run left behind, and proves it
policies                      the RL runs of a store, grouped so that only comparable ones share axes
policy_measures               what is measured of a verifier and of the policy that it paid
captions                      a figure's caption in Markdown and in LaTeX
rank_statistics               rank correlation within strata, permutation, bootstrap, and what a choice by a metric costs
causal                        two conditions paired by seed and task: different, alike within a margin, or neither
foretelling_design            the check of the verifiers of which_metric_foretells_rl
foretelling_plan              the plan of that study, and in what a run's configuration departs from it
foretelling_runs              its runs beside its plan
foretelling_causal            its causal experiments
foretelling_answer            what it allows to say
paper_reported.yaml           what the paper reports, for overlays
"""

import os

# A notebook sets a backend of its own for what it starts, and matplotlib refuses one that is not installed here as soon as it is
# imported. Figures are files.
os.environ["MPLBACKEND"] = "Agg"
