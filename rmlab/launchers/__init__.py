"""Launchers: where the cells of a sweep run, one process per cell.

beats    the progress of jobs that have no pipe to the parent
gpus     which GPUs there are, and which process holds each
hydra    cells through any launcher of Hydra
jobs     the interface of all launchers: jobs in, events out
local    one process per cell, W at once, which end with their parent
preload  the module that a fork server imports
rank_processes  one run on several GPUs: its processes, started and ended together
ray      cells as tasks of a Ray cluster
slurm    cells as jobs of Slurm
warmup   data that all cells read, loaded once by the fork server
"""
