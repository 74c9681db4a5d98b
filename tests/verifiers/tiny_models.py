"""Tiny models of random weights in the families of open ones, with a tokenizer that may have a chat template."""

from pathlib import Path
from typing import Any

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA = (
    "{{ bos_token }}{% for m in messages %}[HEAD]{{ m['role'] }}[/HEAD]\n\n{{ m['content'] | trim }}[EOT]{% endfor %}"
    "{% if add_generation_prompt %}[HEAD]assistant[/HEAD]\n\n{% endif %}"
)
WORDS = [" YES", " NO", " good", " bad", "YES", "NO", "good", "bad"]  # in the order of merges: a space first


def write_tokenizer(folder: Path, *, chat: str | None, side: str = "right", bos: bool = False) -> Any:
    """Byte-level, each answer word one token. bos: puts <s> in front where it is used without a chat template."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary, merges = {letter: i for i, letter in enumerate(alphabet)}, []
    for word in WORDS:
        letters = word.replace(" ", "Ġ")
        for end in range(2, len(letters) + 1):
            if letters[:end] not in vocabulary:
                vocabulary[letters[:end]] = len(vocabulary)
                merges.append((letters[: end - 1], letters[end - 1]))
    backend = Tokenizer(models.BPE(vocabulary, merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    marks = ["<|im_start|>", "<|im_end|>"] if chat == CHATML else ["<s>", "[HEAD]", "[/HEAD]", "[EOT]"]
    backend.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in marks])
    if bos:
        backend.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", backend.token_to_id("<s>"))]
        )
    end = marks[1] if chat == CHATML else "[EOT]"
    fast: Any = PreTrainedTokenizerFast
    hf = fast(
        tokenizer_object=backend,
        eos_token=end,
        pad_token=end,  # as many open models have it: a prompt may end in what pads
        bos_token=None if chat == CHATML else "<s>",
        padding_side=side,
        chat_template=chat,
    )
    hf.save_pretrained(str(folder))
    return hf


def write_model(
    folder: Path,
    family: str,
    *,
    chat: str | None = CHATML,
    side: str = "right",
    bos: bool = False,
    labels: int = 0,
    positions: int = 2048,
    seed: int = 0,
) -> Path:
    """A folder as others publish them. family: qwen2, llama, gemma2 or gpt2. labels: of a classification head; 0 = a language model."""
    import torch
    import transformers

    hf = write_tokenizer(folder, chat=chat, side=side, bos=bos)
    shape: dict[str, Any] = {"vocab_size": len(hf)}
    if family == "gpt2":
        shape |= {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": positions}
    else:
        shape |= {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
        shape |= {"intermediate_size": 64, "max_position_embeddings": positions, "tie_word_embeddings": True}
    if family == "gemma2":
        shape |= {"head_dim": 8, "final_logit_softcapping": 2.0}  # which the model does to logits behind its head
    name = {"qwen2": "Qwen2", "llama": "Llama", "gemma2": "Gemma2", "gpt2": "GPT2"}[family]
    config = getattr(transformers, f"{name}Config")(
        **shape, pad_token_id=hf.pad_token_id, bos_token_id=None, eos_token_id=hf.eos_token_id
    )
    if labels:
        config.num_labels = labels
    kind = "ForSequenceClassification" if labels else "LMHeadModel" if family == "gpt2" else "ForCausalLM"
    torch.manual_seed(seed)
    model = getattr(transformers, f"{name}{kind}")(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0.0, 0.3)  # large enough for scores that differ
    model.save_pretrained(str(folder))
    return folder
