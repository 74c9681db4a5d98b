"""The figures and the table of the verifiers of one sweep, one file each.

across_policies             several policies with one attempt each: which does the verifier pick, and how does it judge a new one
differences                 which levels differ from the baseline, and by how much
discrimination_calibration  AUC and ECE along the factor, beside the noise floors of the ECE
reliability                 of the attempts with a score, how many are resolved
rm_at_k                     best of k at each level
score_distributions         the scores of resolved and of unresolved attempts
sweep_table                 the table: each level with intervals, and every baseline
"""
