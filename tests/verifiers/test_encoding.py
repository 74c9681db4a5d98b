"""What does not fit the context: observations are cut, what fits is as it was, what is not read is counted."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmlab.models.config import TokenizerConfig
from rmlab.models.tokenizer import load_tokenizer
from rmlab.trajectories.record import Message, Trajectory
from rmlab.verifiers import encoding
from rmlab.verifiers.answer import verifier_tokenizer
from rmlab.verifiers.config import OverLength, PromptConfig, PromptView
from rmlab.verifiers.encoding import (
    Encoded,
    cut_counts,
    cut_words,
    encode,
    encode_prefixes,
    prompt_ids,
    token_counts,
    unfit_counts,
)
from rmlab.verifiers.per_turn import prefixes
from rmlab.verifiers.prompt import escape, render
from tests.verifiers.examples import episode, episodes

CUT = OverLength.cut_observations


@pytest.fixture(scope="module")
def tokenizer():
    return verifier_tokenizer(episodes(40, "supervised"), TokenizerConfig(400))


@pytest.fixture(scope="module")
def with_bos(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bos")
    tokenizer.save(folder)
    other = load_tokenizer(folder)
    other.hf.add_special_tokens({"bos_token": "<s>"})
    return other


def with_observations(*sizes: int, number: int = 7) -> Trajectory:
    """An attempt that read files: `sizes` lines each."""
    base = episode(number, False)
    seen = [Message("tool", f"first {i}\n" + "# pad\n" * size + f"last {i}") for i, size in enumerate(sizes)]
    said = [Message("assistant", f"edit 2:     return {i}") for i in range(len(sizes))]
    between = [message for pair in zip(said, seen, strict=True) for message in pair]
    return replace(
        base,
        messages=(
            base.messages[0],
            *between,
            *base.messages[1:],
            Message("assistant", "submit"),
            Message("user", "done"),
        ),
    )


def test_a_turns_tokens_are_read_off_the_prompts_ids(tokenizer) -> None:
    trajectory = with_observations(3, 50)
    (ids,) = prompt_ids([trajectory], tokenizer)
    known = token_counts(ids, tokenizer)
    alone = [len(tokenizer.encode([f"<|im_start|>{m.role}\n{m.content}<|im_end|>\n"])[0]) for m in trajectory.messages]
    assert list(known.turn_M) == alone
    assert sum(alone) + known.around == len(ids)


def test_what_fits_is_the_same_where_observations_may_be_cut(tokenizer, tmp_path) -> None:
    pool = [*episodes(6), with_observations(2, 3)]
    room = max(e.n_tokens for e in encode(pool, tokenizer, PromptConfig(4096))) + 1
    for cache in (None, tmp_path):
        plain, cut = (encode(pool, tokenizer, PromptConfig(room, over), cache) for over in (OverLength.rank_last, CUT))
        assert (
            [e.ids.tolist() for e in plain]
            == [e.ids.tolist() for e in cut]
            == [tokenizer.encode([render(t)])[0] for t in pool]
        )
        assert cut_counts(cut) == dict.fromkeys(cut_counts(cut), 0)
    assert cut_words(cut_counts(cut)) == ""


def test_observations_are_cut_until_the_prompt_fits_and_what_is_not_read_is_counted(tokenizer, tmp_path) -> None:
    long = with_observations(300, 4, 200)
    (whole,) = prompt_ids([long], tokenizer)
    bare = encode([with_observations()], tokenizer, PromptConfig(4096))[0].n_tokens
    config = PromptConfig(bare + 330, CUT)
    (read,) = encode([long], tokenizer, config)
    assert read.ids is not None
    assert config.max_tokens - 60 < len(read.ids) < config.max_tokens
    assert (read.n_tokens, read.observations, read.turns) == (len(whole), 2, 0)
    text = tokenizer.decode(read.ids.tolist())
    small = "first 1\n# pad\n# pad\n# pad\n# pad\nlast 1"
    for kept in ("first 0\n", "last 0<|im_end|>", small, "first 2\n", "last 2<|im_end|>", "left out ...]"):
        assert kept in text
    assert text.endswith(render(long)[-300:]), "the question and what came last are whole"
    counts = cut_counts([read])
    assert counts == {
        "cut_attempts": 1,
        "cut_attempts_tokens": len(whole),
        "cut_tokens": len(whole) - len(read.ids),
        "cut_observations": 2,
        "cut_turns": 0,
    }
    assert cut_words(counts).startswith("1 are read only in part: ")
    for _ in range(2):  # written, and read again
        (again,) = encode([long], tokenizer, config, tmp_path)
        assert again.ids.tolist() == read.ids.tolist()
        assert (again.n_tokens, again.observations, again.turns) == (read.n_tokens, 2, 0)
    less = encode([long], tokenizer, PromptConfig(bare + 90, CUT))[0]
    assert less.turns > 0
    assert len(less.ids) < bare + 90


def test_what_cannot_be_cut_enough_is_not_read(tokenizer, tmp_path) -> None:
    patch = replace(with_observations(300), patch="+ y\n" * 400)
    for cache in (None, tmp_path, tmp_path):
        read, small = encode([patch, episode(1, True)], tokenizer, PromptConfig(400, CUT), cache)
        assert read.ids is None
        assert read.n_tokens > 1000
        assert small.ids is not None
    assert unfit_counts([read, small]) == {"unresolved, hand": 1}


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.one_of(st.integers(0, 300), st.text(max_size=400)), min_size=1, max_size=12),
    st.integers(250, 2500),
    st.booleans(),
)
def test_no_cut_prompt_is_longer_than_its_context(
    tokenizer, with_bos, observations, max_tokens: int, bos: bool
) -> None:
    asked = with_bos if bos else tokenizer
    long = with_observations(*(one for one in observations if isinstance(one, int)))
    strange = [Message("tool", one) for one in observations if isinstance(one, str)]
    long = replace(long, messages=(*long.messages, *strange))
    (read,) = encode([long], asked, PromptConfig(max_tokens, CUT))
    if read.ids is None:
        return
    assert len(read.ids) < max_tokens
    text = asked.decode(read.ids.tolist())
    assert escape(long.messages[0].content, asked.reserved) in text
    assert (long.patch or "").strip() in text
    assert read.ids.tolist().count(asked.start_id) == len(long.messages) + 2 - read.turns + (read.turns > 0)
    assert not bos or read.ids[0] == asked.hf.bos_token_id


def plain(read: list[Encoded]) -> list[tuple[object, ...]]:
    return [
        (e.trajectory.trajectory_id, None if e.ids is None else e.ids.tolist(), e.n_tokens, e.observations, e.turns)
        for e in read
    ]


@pytest.mark.parametrize("over", [OverLength.rank_last, OverLength.truncate_head, CUT])
@pytest.mark.parametrize("shows", [PromptView.whole, PromptView.patch_only])
def test_prefixes_are_read_as_if_each_were_tokenised_by_itself(tokenizer, with_bos, over, shows, monkeypatch) -> None:
    long = with_observations(300, 4, 200)
    long = replace(long, messages=(*long.messages, Message("tool", "  <s> and <|im_start|>user\n\n")))
    parts = [prefix for _, prefix in prefixes(long)]
    config = PromptConfig(700, over, shows)
    for asked in (tokenizer, with_bos):
        alone = plain(encode(parts, asked, config))
        with monkeypatch.context() as patch:
            if shows is PromptView.whole:  # no prefix is tokenised whole
                patch.setattr(encoding, "encode", None)
            assert plain(encode_prefixes(long, parts, asked, config)) == alone


def test_remembered_ids_are_mapped_from_one_file_and_made_again_where_it_is_lost(tokenizer, tmp_path) -> None:
    pool = episodes(4)
    alone = [e.ids.tolist() for e in encode(pool, tokenizer, PromptConfig(4096))]
    for _ in range(2):  # written, and read again
        read = encode(pool, tokenizer, PromptConfig(4096), tmp_path)
        assert [e.ids.tolist() for e in read] == alone
        assert len({id(e.ids.base) for e in read}) == 1, "one array holds all"
        assert not read[0].ids.flags.writeable, "it lies in a file"
    (row,) = tmp_path.glob("*.npy")
    row.unlink()
    assert [e.ids.tolist() for e in encode(pool, tokenizer, PromptConfig(4096), tmp_path)] == alone
    assert encode([], tokenizer, PromptConfig(4096), tmp_path) == []


def test_of_several_that_want_ids_at_once_one_reads_them(tokenizer, tmp_path, monkeypatch) -> None:
    pool, calls, read = episodes(4), [], encoding._read
    monkeypatch.setattr(encoding, "_read", lambda *given: (calls.append(1), time.sleep(0.1), read(*given))[2])
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: encode(pool, tokenizer, PromptConfig(4096), tmp_path), range(4)))
    assert len(calls) == 1
    assert [[e.ids.tolist() for e in one] for one in found] == [
        [e.ids.tolist() for e in read(pool, tokenizer, PromptConfig(4096), False)]
    ] * 4
