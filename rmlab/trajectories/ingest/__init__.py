"""Ingest: from files in the wild to records with labels.

archives     members of zips and tars, safe whatever they hold
assemble     predictions, policies, labels, copies, attempts; writing
compression  gzip, zstd, bzip2, xz: known by their first bytes
containers   files of folders and archives, in order
documents    files as records: JSON, JSON lines, Parquet, files that belong together
drafts       what a reader makes of a record; drafts on disk until labels and copies are known
entries      one file: read whole or by lines, within limits; the elements of a JSON array, one at a time
in_memory    attempts that are Python values, as `rmlab import` would read them
importing    an import from end to end: read, assemble, write; what it did, in numbers and places
json_text    JSON as people leave it
locations    where a record stands; what a task's id says
reading      every file of every path, one record at a time: an attempt, a statement of labels, or skipped
repeats      records that are one attempt: snapshots, renderings, copies
skipped      what is not read, and why
"""
