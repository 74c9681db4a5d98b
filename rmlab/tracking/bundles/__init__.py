"""Bundles: tracked runs in one file, to carry them from one machine's store to another's.

exporting  from a store to a bundle
format     the records, and which archives are no bundles
importing  from a bundle to a store
opening    opens one, in whatever form it came
reading    its runs, read as those of a store
several    the bundles that a path names, and their runs, each once
study      what of its runs travels with a study: no weights, pages, paths or names of machines; packed as a whole

A zip archive, because any Python can write it and any part of it can be read alone:

    manifest.json               format, where it comes from, and of every run: id, experiment, its files with size and SHA-256
    runs/RUN_ID/run.json        name, times, parameters, tags, data sets
    runs/RUN_ID/metrics.jsonl   [name, value, step, milliseconds] of everything that was logged, one a line
    runs/RUN_ID/artifacts/...   as the run has them; what was left out is named in the manifest

The bundle of a study is one archive of that kind within another, `runs.zip`, which is packed as a whole: what its runs share is
there once. A folder into which a bundle was extracted is read like one.

A bundle may come from anywhere, so nothing in it is believed: names that lead out of its folder, links, and files that
the manifest does not list are refused when it is opened; every file's hash is checked before one of them is used.
"""
