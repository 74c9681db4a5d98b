"""What a score table says of its verifier: exact metrics, their uncertainty, and the report that joins them.

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
