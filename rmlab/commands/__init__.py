"""Groups of commands, one file a noun; `rmlab/cli.py` joins them. Nothing heavy is imported before a command runs.

common   what they share: overrides on the line, programs by name
models   models from elsewhere, and how they travel
runs     tracked runs
tasks    the micro-SWE tasks
trajectories   trajectories of others: import; sets: show, lengths, split
"""
