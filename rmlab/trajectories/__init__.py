"""Trajectories: what an agent did with a task, and whether the hidden tests passed afterwards.

folds            repositories left out in turn, and the parts of each fold
leakage          what tells the outcome: found, removed or refused; issues that are almost the same (MinHash)
record           the trajectory, its identity, the five parts; where a record stands; what a task's id says
parts            a set that is being made: finished attempts in files, the set that they are in the end; one set from several
splitting        parts by repository, task or time; no cluster, task or issue lies in two parts
ingest, readers  attempts of other people's agents become records
labels           who resolved what, joined to attempts
store            Parquet files of trajectories, read and written whole or a row group at a time
"""
