"""Ablation: one choice is varied, everything else is held still, and that is proven.

apportionment   shares a total out by weight, house-monotone
selection       the controlled choice of a training set, and its table
weak_tests      labels from a few of the hidden tests, by execution
pool            a trajectory file without its text: identity and counts in a moment
factors         named choices and the configuration keys they own
cells           config_hash and control_hash of a run
sweep_files     sweeps/NAME.yaml: what is asked, which levels, and what their names mean
search_files    what a search in a sweep file may set, and what it judges by
sweeps          the cells that answer it
outlook         what a sweep would do, and in what two of its cells differ
running         a sweep under way: what is finished, at work elsewhere, failed, or to be started
search, study   a search under way, and the study that proposes its trials, beside other searches too
studies         which studies there are: what makes the trials of one comparable is in its name
single          one run by itself, beside sweeps
launching       what every launcher takes and gives: jobs and events
processes       one process a cell, W at once, that end when the parent does
shared, preload  what all cells read alike, read once by the fork server
slurm           cells as jobs of Slurm
ray_cluster     cells as tasks of a Ray cluster
through_hydra   cells through any launcher of Hydra
gpus            one GPU a cell, or a part of one
board           what a sweep is doing, as one live table or as lines
"""
