"""What the study which_metric_foretells_rl planned, ran and may conclude; `analysis.publication.foretelling` draws it.

answer            every number of its answer
answering         puts them together from the runs
as_paid           how near the advantages of what is paid come to those of the labels, beside the outcome; exploratory
beside_execution  hybrid policies beside one that execution alone paid from the same weights; exploratory
causal            its causal experiments
design            the check of its verifiers
equivalence       two conditions paired by seed and task: different, alike within a margin, or neither
ends              what became of the policies of a block
estimates         correlations with the outcome, what a choice by a metric costs, corrected p-values
plan              its plan, and in what a run's configuration departs from it
reruns            how far a run ends from where it ended, repeated from another start with another RL seed
runs              its runs beside its plan
sentences         the answer in words
tables            the answer as a page of Markdown
"""
