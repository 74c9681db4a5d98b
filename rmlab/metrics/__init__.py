"""What a score table says of its verifier: exact metrics, their uncertainty, and the report that joins them.

best_of_k         the attempt that a score picks from k; of k attempts, the patch with the largest sum of scores; all exact
by_patch          selection and discrimination by patch: copies of one patch stand or fall together
calibration       does a score of 0.7 mean that 70 % are resolved? and how often is a verifier wrong when it may abstain?
compare           is one verifier better than another on the same trajectories?
definitions       metrics by their definitions: the exact values of a report
discrimination    does a resolved attempt score above an unresolved one? Do group-relative advantages point where the true ones do?
hybrid_selection  selection by tests, by a score, and by both: what do the results of tests add to a verifier?
noise_floor       noise floor of the ECE: what would a perfectly calibrated verifier show on a table of this size?
recalibration     logistic recalibration: which intercept and slope on the logit would make the scores right?
registry          which metrics are there? What each is called, means, and is computed by
report            the report: every metric of one score table, by the names of the contract, with intervals
same_level        how often do the tests of levels reject where nothing differs?
sweep_levels      do two levels of a sweep differ, or only their seeds, or only these tasks?
table             who belongs with whom: the labelled rows of a score table with the groups that every metric needs
uncertainty       how far may a metric, or a paired difference, be off because these tasks were drawn and not others?
weighted          metrics under integer weights of clusters, many weightings at once: those that are sums over clusters
weighted_sorted   those that need one pass over the rows, sorted by score or by confidence
"""
