"""The commands of `rmlab`: each file holds the options, help and code of one command or group; `rmlab/cli.py` joins them.

A command is a function that can also be called from Python. Nothing heavy is imported before one runs.

bench                run and track the scripts of experiments/benchmarks
browse               read scored trajectories: as a page, or on a server
common               what the commands of programs share: overrides and their shell completion, --cfg, --info
compare              paired comparison of two runs, score tables or levels
compare_levels       two levels of a sweep, or the seeds of one level with each other
compare_rules        a run or a score table with a rule that needs no verifier
compare_shown        the tables of a comparison
compare_sides        which runs, files or rule are compared; runs are looked up in a store or a bundle
doctor               what works on this machine
evaluate             all metrics of a score table
experiments          collect, train, rl, pretrain, warm-start: the programs of experiments/
figures              figures from tracked runs
import_trajectories  import trajectories from other formats
models               fetch, pack, unpack and merge models
multirun             Hydra's own multirun of a program (`rmlab train -m`)
plan                 estimate what a run will cost
runs                 list, export and import tracked runs
score                score trajectories with a verifier
study                several sweeps as one study: its ledger, one table, one figure
sweep                launch or resume a sweep
tasks                build, check and set apart the micro-SWE tasks
trajectories         show, measure, split and join trajectory sets
ui                   the MLflow UI
verbosity            -q and -v, and a message while a command is still importing
"""
