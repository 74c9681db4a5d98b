"""Trajectories: what an agent did with a task, and whether the hidden tests passed afterwards.

record            the trajectory, its identity, the five parts
parts             no cluster, task or issue lies in two parts
store             Parquet files of trajectories, read and written whole or a row group at a time

Reading those of others, in the order in which a file goes through it:
containers        files of folders and archives, in order
archives          members of zips and tars, safe whatever they hold
compression       gzip, zstd, bzip2, xz: known by their first bytes
entries           one file: read whole or by lines, damage and limits are refusals
documents         files as records: JSON, JSON lines, Parquet, files that belong together
arrays            the elements of a JSON array, one at a time
reading           JSON as people leave it
formats/          one reader a format
draft             what a reader makes of a record
labels/           who resolved what, and which statement belongs to which attempt
leakage           what tells the outcome: found, removed or refused
spool             drafts on disk until labels and copies are known
importing         all of that for every file of every path
repeats           records that are one attempt: snapshots, renderings, copies
settling          predictions, policies, labels, copies, attempts; writing
summary           what an import did
places, naming    where a record stands; what a task's id says

And looking at a set:
near_duplicates   issues that are almost the same (MinHash)
splitting         parts by repository, task or time
folds             repositories left out in turn, and the parts of each fold
"""
