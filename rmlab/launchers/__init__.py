"""Launchers: where the cells of a sweep run, one process a cell.

beats    how far a job is, where no pipe leads back
gpus     which GPUs there are, and who holds which
hydra    cells through any launcher of Hydra
jobs     what every launcher takes and gives: jobs and events
local    one process a cell, W at once, that end when the parent does
preload  the module that a fork server imports
rank_processes  one run on several GPUs: its processes, started and ended together
ray      cells as tasks of a Ray cluster
slurm    cells as jobs of Slurm
warmup   what all cells read alike, read once by the fork server
"""
