"""Language models: their shape, their first weights, their tokenizer, and what they say after the last token.

config          what a model looks like
scratch         a Qwen3-shaped model of random initialisation, dense or with experts, seeded by name
moe             experts: balance loss, load and entropy of each layer's router
pretrained      a model read from a local folder (safetensors, no remote code)
tokenizer       text to token ids: byte-level BPE of our own, or a pretrained one that has ChatML markers
last_position   logits behind the last real token of right-padded sequences
preload         what a fork server imports

generation       slots: which token comes next in many conversations that start, stop and read at different times
generation_cache the static cache of keys and values that slots read
decoder_layers   the layers around it, in few kernels
captured_reads   readings of a few tokens as CUDA graphs
lora, lora_config   adapters (peft): what is trained by a few per cent of the weights, and travels
gguf_llama       a Llama in GGUF as a transformers model
gguf_tokenizer   its tokenizer, and a vocabulary that is cut to a corpus
gguf_parts       such a model as files that travel to a machine without a network
smollm2          SmolLM2-135M-Instruct, from the package index
"""
