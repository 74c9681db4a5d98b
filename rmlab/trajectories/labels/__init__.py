"""Labels: who resolved what, read from every place where people keep it, and joined to attempts.

statement     what one file states of one run; the patches that a run submitted
documents     reports in JSON, in all their layouts
rows          those of one row an instance, and the outcome that a row of OpenHands carries
tables        Markdown lists, CSV
predictions   preds.json, all_preds.jsonl
join          which statement belongs to which attempt
unjoined      why a report labels nobody, and what would make it join
"""
