"""One program an experiment: a Hydra configuration, and the library's parts in the order in which they run. README.md lists them."""
