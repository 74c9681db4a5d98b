"""Readers of the formats in which agents leave their trajectories: one small module a family, known by content.

protocol                what a reader is; how an attempt ended, in one vocabulary
calls                   one notation for tool calls
executed                which text of a turn was run, where the calls of an agent stand in its text
own                     rmlab's own records, read again
mini                    mini-SWE-agent v1 and v2
sweagent                SWE-agent 0.x (multi-agent too) and 1.x
openhands_output        OpenHands output.jsonl
openhands_completions   OpenHands llm_completions: the last call of a folder and its answer
openhands_events        OpenHands SDK v1: one file an event
moatless                Moatless 0.x: transitions and steps
moatless_nodes          Moatless from 0.0.4 on: a tree of nodes
r2e                     R2E-Gym's own runs: rows of steps
judged                  the attempt within the prompt of R2E-Gym's verifier
chat                    rows of chat messages as on the Hugging Face hub: JSONL, JSON, Parquet
registry                all of them, and which one a document is of
"""
