"""Tracking: the only place that knows MLflow.

config    where runs are tracked
store     the store: one sqlite file or a server, opened safely by many processes at once
home      a store's artifacts belong to where the store is, also after it was moved or copied
origin    where a run comes from: commit, host, process
run       writes one run: buffered metrics, artifacts, data sets, and `finished` as the last word
heads     names and tags of runs, quickly: which cells are finished
leases    who is at work on a cell, on any host that shares the store
query     reads runs back: metrics, series, artifacts; closes what died, logs what is reused
artifacts  the files of a run on a server: listed, and copied whole
bundles    runs in one file, from one machine's store to another's
carrying   what export and import say of what they did
preload   what a fork server imports
listing   runs as a table
notes      Markdown that the UI shows of a run
views      columns and charts that the UI shows of an experiment
ui        the MLflow UI over the store
"""
