"""What a score table says of its verifier: exact metrics, their uncertainty, and the report that joins them.

advantage         what the gradient sees: how well do a verifier's group-relative advantages point where the true ones
                  point?
best_of_k         best of k: how good is the attempt that a score picks from k attempts at a task?
calibration       calibration: does a score of 0.7 mean that 70 % of such attempts are resolved?
compare           is one verifier better than another on the same trajectories?
discrimination    discrimination: does a resolved attempt score above an unresolved one?
hybrid_selection  selection by tests, by a score, and by both: what do the results of tests add to a verifier?
noise_floor       noise floor of the ECE: what would a perfectly calibrated verifier show on a table of this size?
paired            two looks at the same tasks: by how much did a mean change? Clusters are resampled, and both looks
                  with them
recalibration     logistic recalibration: which intercept and slope on the logit would make the scores right?
report            the report: every metric of one score table, by the names of the contract, with intervals
resampled         every metric of a table under integer weights of its clusters, for many weightings at once
risk_coverage     selective use: how often is a verifier wrong when it may abstain where it is least sure?
sweep_levels      do two levels of a sweep differ, or only their seeds, or only these tasks?
table             who belongs with whom: the labelled rows of a score table with the groups that every metric needs
uncertainty       how far may a metric be off because these tasks were drawn and not others?

scores.py          the record that every metric reads: columns of one score table
table.py           its labelled rows with the groups that metrics need: tasks, policies, clusters
best_of_k.py       RM@k and pass@k, exact
discrimination.py  AUC pooled, within tasks, between tasks
calibration.py     ECE in its variants, MCE, Brier score and its decomposition, log loss
recalibration.py   slope and intercept of the logistic recalibration
posthoc.py         calibrators fitted on validation or other folds: temperature, Platt, isotonic
noise_floor.py     the ECE that calibrated scores would show on the same table
risk_coverage.py   errors of a verifier that may abstain: risk-coverage curves and the area under them
hybrid_selection.py  picks by tests, by score, and by both, exact
advantage.py       what group-relative advantages make of the scores
resampled.py       all of these under weights of clusters, for many weightings at once
uncertainty.py     cluster bootstrap and its intervals
report.py          all of it as one object by the contract's names
paired.py          two looks at the same tasks: by how much a mean changed
compare.py         two score tables on the same trajectories: the cluster swap test
sweep_levels.py    two levels of a sweep, several seeds each
same_level.py      one level with itself: what the test between levels finds where there is nothing
"""
