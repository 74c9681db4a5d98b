"""Trajectories: what an agent did with a task, and whether the hidden tests passed afterwards.

folds            repositories left out in turn, and the parts of each fold
leakage          outcomes in prompts: found, removed or refused; nearly identical issues (MinHash)
record           the trajectory, its identity, the five parts; the location of a record; what a task's id says
parts            a set during collection: finished attempts in files, and the final set; one set from several
splitting        parts by repository, task or time; no cluster, task or issue lies in two parts
ingest, readers  attempts of other people's agents become records
labels           labels from reports, joined to attempts
set_file         whether a path can be a set, with what helps where it is a folder or not there
store            Parquet files of trajectories, read and written whole or a row group at a time
"""
