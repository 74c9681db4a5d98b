"""What all figures, tables and pages share.

captions      a figure's caption in Markdown and in LaTeX
metric_names  the metrics of a verifier as tables and pages name them
style         colours, sizes, file formats: what all figures have in common
"""
