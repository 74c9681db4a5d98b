"""Tracking: the only place that knows MLflow.

bundles    runs in one file that travels
artifacts  the files of a run on a server: listed, and copied whole
config     where runs are tracked
home       a store's artifacts belong to where the store is, also after it was moved or copied
leases     who is at work on a cell, on any host that shares the store; closes runs whose process died
notes      Markdown that the UI shows of a run
parameters  by what two runs are told apart: parameters, names, differing keys
preload    what a fork server imports
query      reads runs back: metrics, series, artifacts; which run, cell or model is meant by a name
reuse      a run of its own for a cell that another run already finished
run        writes one run: buffered metrics, artifacts, data sets, and `finished` as the last word
run_index  names and tags of runs, quickly: which cells are finished
store      the store: one sqlite file or a server, opened safely by many processes at once
store_errors  what a store says when it is busy or does not work
tags       names of a run's tags; sets them and takes them away; where a run comes from: commit, host, process
ui         the MLflow UI over the store; what it shows of experiments of an earlier version
ui_server  the process that serves it: MLflow's application, opened as model training
views      columns and charts that the UI shows of an experiment; the few metrics that runs are compared by
"""
