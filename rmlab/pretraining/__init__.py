"""The unlabelled text that the starter base reads before any verifier is trained.

comparisons  text that teaches a model to compare: is the last value seen the one that the issue asks for?
corpus       all of it, with the supervised part's episodes, as one fingerprinted file
rows         the corpus as token ids: tokenizer, rows to read, rows that are held out
sources      functions of packages as plain text, without held-out ones; broken lines with their repairs
"""
