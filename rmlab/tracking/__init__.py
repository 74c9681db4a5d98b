"""Tracking: the only package that uses MLflow.

bundles    export and import of runs in one file
artifacts  the files of a run on a server: listed, and copied whole
config     where runs are tracked
dead_runs  tells runs whose process died from those at work, and closes them
fold_logger  what one fold of a cross-validation says in the run of all of them
home       keeps the artifacts of a store beside it, even after the store was moved or copied
leases     which process works on a cell, on any host that shares the store
metric_writer  the metrics of one run, buffered and written in batches
notes      Markdown that the UI shows of a run
parameters  what distinguishes two runs: parameters, names, differing keys
preload    what a fork server imports
query      reads runs back: metrics, series, artifacts
references  which run, cell or model is meant by a name
reuse      a separate run for a cell that another run already finished
run        writes one run: buffered metrics, artifacts, data sets, and finally the status `finished`
run_index  names and tags of runs, quickly: which cells are finished
store      the store: one sqlite file or a server, opened safely by many processes at once
store_errors  messages for a store that is busy or does not work
successors  which run came after one of the same configuration that ended unfinished
tags       names of a run's tags; sets and removes them; the origin of a run: commit, host, process
ui         the MLflow UI for the store; what it shows of experiments of an earlier version
ui_server  the process that serves it: MLflow's application, opened as model training
views      columns and charts that the UI shows of an experiment; the few metrics that runs are compared by
weights    what of a run are weights, and the command that trains a run again that was imported without them
"""
