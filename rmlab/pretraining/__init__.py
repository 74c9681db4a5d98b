"""The unlabelled text that the starter base reads before any verifier is trained.

sources      functions of installed, pinned packages as plain text
near_copies  which of them are, or nearly are, functions that must not be read
repairs      functions with one line broken, and the line that mends it
corpus       all of it, with the supervised part's episodes, as one fingerprinted file
"""
