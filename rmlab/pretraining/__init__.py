"""The unlabelled text that the starter base reads before any verifier is trained.

comparisons  text that teaches to compare: is the value that was seen last the one that the issue asks for?
corpus       all of it, with the supervised part's episodes, as one fingerprinted file
sources      functions of packages as plain text, none that must not be read; one line broken, and the line that mends it
"""
