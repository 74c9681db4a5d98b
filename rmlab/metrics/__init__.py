"""What a score table says about its verifier: exact metrics, their uncertainty, and the report that joins them.

best_of_k             the attempt that a score picks from k; the patch with the largest sum of scores among k attempts; both exact
by_patch              selection and discrimination by patch: copies of one patch stand or fall together
calibration           does a score of 0.7 mean that 70 % are resolved? how often is a verifier wrong when it may abstain?
compare               is one verifier better than another on the same trajectories?
definitions           metrics computed by definition: the exact values of a report
discrimination        does a resolved attempt score above an unresolved one? Do group-relative advantages point where the true ones do?
estimates             the value of every metric of one table
hybrid_selection      selection by tests, by a score, and by both: what do test results add to a verifier?
metric                what the registry says of one metric
noise_floor           noise floor of the ECE: what would a perfectly calibrated verifier show on a table of this size?
recalibration         logistic recalibration: which intercept and slope on the logit would make the scores right?
registry              all metrics, each with its name, meaning and implementation
registry_calibration  those of calibration
report                the report: every metric of one score table, by the names of the contract, with intervals
same_level            how often do the tests between levels reject when there is no difference?
sweep_levels          do two levels of a sweep differ, or only their seeds, or only these tasks?
table                 the labelled rows of a score table, with the groups that every metric needs
thin                  words beside numbers that rest on little
uncertainty           how far can a metric, or a paired difference, be off because of the tasks that were drawn?
weighted              metrics that are sums over clusters, for many integer weightings of the clusters at once
weighted_sorted       the same for metrics that need one pass over the rows, sorted by score or by confidence
"""
