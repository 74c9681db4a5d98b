"""Language models: their shape, initial weights, tokenizer, and next-token predictions.

attention   causal attention of sequences in one row without padding: which kernel computes it; cuDNN within long ones
config      the shape of a model, and its adapters
cost        weights and operations that follow from a shape, for `rmlab plan` and the benchmarks
cpu_layers  the layers of a Qwen3 on a CPU, with fewer passes over memory and bit-identical results
decoder     a decoder over a static cache: many conversations, each at a position of its own
decoder_kernels  the same in few kernels (Triton)
generation  slots: which token comes next in many conversations that start, stop and read at different times; readings
            of a few tokens as CUDA graphs
gguf        a Llama in GGUF as a transformers model; its tokenizer, and a vocabulary that is cut to a corpus
heads       logits behind the last real token of sequences in padded rows, or packed into one
layer       a decoder layer's parts by name, which models have such layers, and what all readings of one share
load        a model read from a local folder (safetensors, no remote code); a Qwen3-shaped model of random
            initialisation, dense or with experts, seeded by name
lora        adapters (peft): train and transfer only a few per cent of the weights
moe         experts: balance loss, load and entropy of each layer's router
packed      sequences in one row without padding, each of which attends only to itself; common prefixes are read once
packed_layers  decoder layers for training packed rows on a GPU: fewer and larger products, less memory traffic
prefix_decoder  next-token logits of many prompts, with each common prefix read once
prefixes    the common prefixes of prompts
preload     what a fork server imports
smollm2     such a model as files that can be carried to a machine without a network
tokenizer   text to token ids: byte-level BPE of our own, or a pretrained one that has ChatML markers
"""
