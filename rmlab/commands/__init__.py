"""What `rmlab NAME` does: one file a command, or a group of them, holds its options, help and work; `rmlab/cli.py` joins them.

A command is a function that may be called from Python too. Nothing heavy is imported before one runs.

bench                the scripts of experiments/benchmarks, run and tracked
browse               scored trajectories to read: a page, or a server
common               what commands of programs share: overrides, what a shell completes of them, --cfg, --info
compare              two runs, score tables or levels, paired
compare_levels       two levels of a sweep, or the seeds of one level with each other
doctor               what works on this machine
evaluate             all metrics of a score table
experiments          collect, train, rl, pretrain, warm-start: the programs of experiments/
figures              figures from tracked runs; several sweeps as one study: its ledger, one table, one figure
import_trajectories  trajectories in the wild, read
models               models from elsewhere, and how they travel
plan                 what a run will cost
runs                 tracked runs: listed, exported, imported
score                trajectories scored by a verifier
sweep                a sweep, launched or resumed
tasks                the micro-SWE tasks
trajectories         sets of trajectories: show, lengths, split
ui                   the MLflow UI
verbosity            -q and -v, and a word while a command is still importing
"""
