"""What a score table says of its verifier: exact metrics, their uncertainty, and the report that joins them.

advantage         what the gradient sees: how well do a verifier's group-relative advantages point where the true ones
                  point?
best_of_k         best of k: how good is the attempt that a score picks from k attempts at a task?
by_patch          selection and discrimination by patch: copies of one patch stand or fall together
calibration       calibration: does a score of 0.7 mean that 70 % of such attempts are resolved?
compare           is one verifier better than another on the same trajectories?
definitions       metrics by their definitions: the exact values of a report
discrimination    discrimination: does a resolved attempt score above an unresolved one?
hybrid_selection  selection by tests, by a score, and by both: what do the results of tests add to a verifier?
noise_floor       noise floor of the ECE: what would a perfectly calibrated verifier show on a table of this size?
paired            two looks at the same tasks: by how much did a mean change? Clusters are resampled, and both looks
                  with them
recalibration     logistic recalibration: which intercept and slope on the logit would make the scores right?
registry          which metrics are there? What each is called, means, and is computed by
report            the report: every metric of one score table, by the names of the contract, with intervals
risk_coverage     selective use: how often is a verifier wrong when it may abstain where it is least sure?
sorted_rows       metrics under weights of clusters that need one pass over the sorted rows
sweep_levels      do two levels of a sweep differ, or only their seeds, or only these tasks?
table             who belongs with whom: the labelled rows of a score table with the groups that every metric needs
uncertainty       how far may a metric be off because these tasks were drawn and not others?
weighted_vote     of k attempts, the label of the patch with the largest sum of scores, exact
weighted          metrics under integer weights of a table's clusters, for many weightings at once
"""
