"""What is shown at the end of a sweep.

conclusions   what came out of it, in five lines of plain words
pareto        figure: the trials of a search
summary_runs  a sweep's one summary run: table, figures, note
"""
