"""Language models: their shape, their first weights, their tokenizer, and what they say after the last token.

config          what a model looks like
scratch         a Qwen3-shaped model of random initialisation, dense or with experts, seeded by name
moe             experts: balance loss, load and entropy of each layer's router
pretrained      a model read from a local folder (safetensors, no remote code)
tokenizer       text to token ids: byte-level BPE of our own, or a pretrained one that has ChatML markers
last_position   logits behind the last real token of right-padded sequences
"""
