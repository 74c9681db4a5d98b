"""Readers of the formats in which agents leave their trajectories: one small module a family, known by content.

calls          one notation for tool calls
chat           rows of chat messages as on the Hugging Face hub: JSONL, JSON, Parquet
executed       which text of a turn was run, where the calls of an agent stand in its text
mini           mini-SWE-agent v1 and v2
moatless       Moatless 0.x: transitions and steps; Moatless from 0.0.4 on: a tree of nodes
openhands      OpenHands output.jsonl; OpenHands llm_completions: the last call of a folder and its answer
openhands_sdk  OpenHands SDK v1: one file an event
own            rmlab's own records, read again
protocol       what a reader is; how an attempt ended, in one vocabulary
r2e            the attempt within the prompt of R2E-Gym's verifier
registry       all of them, and which one a document is of
sweagent       SWE-agent 0.x (multi-agent too) and 1.x
"""
