"""Trajectories: what an agent did with a task, and whether the hidden tests passed afterwards.

record    the trajectory, its identity, the five parts
parts     no cluster lies in two parts
store     Parquet files of trajectories, read and written whole
"""
