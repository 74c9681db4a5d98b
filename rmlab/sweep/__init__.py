"""Sweeps: one choice is varied, everything else is held still, and that is proven.

cells           config_hash and control_hash of a run
dry_run         what a sweep would do, and in what two of its cells differ
factors         named choices and the configuration keys they own
multirun        Hydra's own multirun of a program (`rmlab train -m`); our launchers by name; one run by itself, beside sweeps
plan            the cells that answer it
progress_table  what a sweep is doing, as one live table or as lines; how long it will go on
request         what is asked on the command line or of Hydra's sweeper, and the cells that follow
scheduler       the fork server and what cells share; then each cell that is not finished yet, exactly once
search          a search under way: trials become cells, and their runs' metrics are reported to the study
search_spec     what a search in a sweep file may set, and what it judges by
spec            sweeps/NAME.yaml: what is asked, which levels, and what their names mean
study           which settings were tried and what to try next: Optuna, shared with other searches
study_identity  which studies there are: what makes the trials of one comparable is in its name
typed_yaml      the text of a sweep file as plain values of the types that its keys have
under_way       a sweep under way: what is finished, at work elsewhere, failed, or to be started
"""
