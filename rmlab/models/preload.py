"""Imported by a fork server before any model exists: what transformers imports at the first tokenizer of a process, and the
thousand regular expressions that it makes at the first save, which each cell of a sweep would pay for anew."""

import transformers.convert_slow_tokenizer
import transformers.tokenization_utils_tokenizers  # noqa: F401
from transformers.conversion_mapping import get_checkpoint_conversion_mapping

get_checkpoint_conversion_mapping("qwen3")  # type: ignore[no-untyped-call]
