"""Sweeps: one choice is varied and everything else is held fixed, which the hashes prove.

cells           config_hash and control_hash of a run
dry_run         what a sweep would do, and how two of its cells differ
factors         named choices and the configuration keys they own
launch          a sweep is launched, resumed, or only described
own_launchers   our own launchers by name
owned_keys      the keys that a sweep itself sets: overrides of them are refused
plan            the cells of a sweep
progress_table  the state of a sweep, as one live table or as lines
request         the request on the command line or to Hydra's sweeper, and the cells that follow
scheduler       the fork server and what cells share; then each unfinished cell, exactly once
search          a running search: trials become cells, and their runs' metrics are reported to the study
search_spec     the search section of a sweep file: space, objectives, trials
single_run      one run by itself, outside a sweep
spec            sweeps/NAME.yaml: the question, the levels, and what their names mean
stopped_cells   the checkpoint that a stopped cell left, and how far it was
study           which settings were tried and what to try next: Optuna, shared with other searches
study_identity  which studies there are: the name of a study covers what makes its trials comparable
time_left       when a sweep will be done, by the cells that are known
typed_yaml      the text of a sweep file as plain values, checked against the types of its keys
under_way       a running sweep: what is finished, at work elsewhere, failed, or to be started
"""
