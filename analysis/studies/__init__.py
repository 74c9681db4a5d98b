"""Several sweeps as one study: what is planned beside what is finished, and the pages, table and figure of its results.

answer          what the study found, in a few lines
effects         what came of each sweep: the largest differences, what is shown, what would have been
gallery         the page that shows the figures of each sweep
ledger          which cells are finished or missing, in words, and the commands that run these
page            the page of the results, its numbers marked
planned_cells   the cells that a study plans, and in what a run differs from its cell
planned_study   the sweeps of a study, as they are planned, beside what its bundles hold
references      how good the baselines of the sweeps are, beside what needs no verifier
repeats         cells that were trained again, and where the later training falls
study_overview  figure: every level of all sweeps beside its baseline
study_table     one table of all sweeps
"""
