"""Sweeps: one choice is varied, everything else is held still, and that is proven.

cells           config_hash and control_hash of a run
dry_run         what a sweep would do, and in what two of its cells differ
factors         named choices and the configuration keys they own
options         what `rmlab sweep` takes as flags, and Hydra's sweeper as keys
plan            the cells that answer it
progress_table  what a sweep is doing, as one live table or as lines
request         what is asked on the command line, and the cells that follow from it
scheduler       a sweep under way: what is finished, at work elsewhere, failed, or to be started
search          a search under way, and the study that proposes its trials, beside other searches too
search_spec     what a search in a sweep file may set, and what it judges by
single          one run by itself, beside sweeps
spec            sweeps/NAME.yaml: what is asked, which levels, and what their names mean
study           a search under way, and the study that proposes its trials, beside other searches too
study_identity  which studies there are: what makes the trials of one comparable is in its name
"""
