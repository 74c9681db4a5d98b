"""Labels: who resolved what, read from every place where people keep it, and joined to attempts.

documents  reports in JSON, in all their layouts
join       which statement belongs to which attempt
rows       those of one row an instance, and the outcome that a row of OpenHands carries; Markdown lists, CSV
statement  what one file states of one run; the patches that a run submitted; preds.json, all_preds.jsonl
unjoined   why a report labels nobody, and what would make it join
"""
