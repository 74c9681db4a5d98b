"""Language models: their shape, their first weights, their tokenizer, and what they say after the last token.

attention   causal attention of sequences in one row without padding: which kernel computes it; cuDNN within long ones
config      what a model looks like; adapters (peft): what is trained by a few per cent of the weights, and travels
cost        weights and operations that follow from a shape: what `rmlab plan` and the benchmarks count by
cpu_layers  the layers of a Qwen3 on a CPU, in fewer passes over memory and to the same bits
decoder     a decoder over a static cache: many conversations, each at a position of its own
decoder_kernels  the same in few kernels (Triton)
generation  slots: which token comes next in many conversations that start, stop and read at different times; readings
            of a few tokens as CUDA graphs
gguf        a Llama in GGUF as a transformers model; its tokenizer, and a vocabulary that is cut to a corpus
heads       logits behind the last real token of sequences in padded rows, or packed into one
layer       a decoder layer's parts by name, which models have such layers, and what all readings of one share
load        a model read from a local folder (safetensors, no remote code); a Qwen3-shaped model of random
            initialisation, dense or with experts, seeded by name
lora        adapters (peft): what is trained by a few per cent of the weights, and travels
moe         experts: balance loss, load and entropy of each layer's router
packed      sequences in one row without padding, of which each sees itself alone; common beginnings that are read once
packed_layers  decoder layers as a GPU trains packed rows through them: fewer and larger products, less that is moved
prefix_decoder  what stands behind the last tokens of many prompts, each common start read once
prefixes    what prompts have in common at their start
preload     what a fork server imports
smollm2     such a model as files that travel to a machine without a network
tokenizer   text to token ids: byte-level BPE of our own, or a pretrained one that has ChatML markers
"""
