"""The shipped base is what its record says, and its text holds no function that verifiers are trained or judged on."""

import json
import shlex
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from rmlab.configuration import compose, load_program
from rmlab.errors import DataError
from rmlab.microswe.build.clusters import overlap, renamed, trigrams
from rmlab.microswe.task import read_tasks, tasks_fingerprint
from rmlab.models.load import load_model
from rmlab.models.tokenizer import load_tokenizer
from rmlab.paths import STARTER
from rmlab.pretraining.corpus import Kind, build_corpus
from rmlab.pretraining.near_copies import held_out_functions
from rmlab.pretraining.sources import versions
from rmlab.trajectories.store import read_trajectories
from rmlab.verifiers.objective import prove_answers
from rmlab.verifiers.prompt import NO, YES, render

BASE = STARTER / "base"
pytestmark = pytest.mark.skipif(not BASE.is_dir(), reason="no base model is shipped")
SEARCHED = 40  # functions that every document is compared with, one by one


@pytest.fixture(scope="module")
def record():
    return json.loads((BASE / "base.json").read_text())


def test_size_and_record(record):
    assert sum(p.stat().st_size for p in BASE.iterdir()) <= 6e6
    model, tokenizer = load_model(BASE), load_tokenizer(BASE)
    assert model.num_parameters() == record["parameters"] <= 3e6
    assert (tokenizer.size, tokenizer.fingerprint) == (record["vocabulary"], record["tokenizer_fingerprint"])
    assert {"command", "seed", "corpus_fingerprint", "tokens", "steps", "held_out_loss", "device"} <= set(record)
    assert record["corpus_fingerprint"] in (STARTER / "README.md").read_text()


def test_it_was_kept_from_the_tasks_that_are_shipped(record):
    assert record["tasks_fingerprint"] == tasks_fingerprint(read_tasks(STARTER / "tasks.parquet")[0])


def test_both_answers_are_one_token_behind_prompts():
    pool = read_trajectories(STARTER / "trajectories.parquet", parts=["supervised"])
    tokenizer = load_tokenizer(BASE)
    prompts = [render(t) for t in pool.trajectories]
    answer = prove_answers(tokenizer, prompts)
    (before, yes, no) = tokenizer.encode([prompts[0], prompts[0] + YES, prompts[0] + NO])
    assert (yes, no) == ([*before, answer.target(True)], [*before, answer.target(False)])


def test_the_starter_choice_says_the_shape_of_the_folder():
    config, model = compose("train_verifier", ["model=starter"]).model, load_model(BASE)
    assert Path(config.pretrained) == BASE
    assert (
        config.hidden_size,
        config.layers,
        config.heads,
        config.kv_heads,
        config.head_dim,
        config.intermediate_size,
    ) == (
        model.config.hidden_size,
        model.config.num_hidden_layers,
        model.config.num_attention_heads,
        model.config.num_key_value_heads,
        model.config.head_dim,
        model.config.intermediate_size,
    )
    assert config.tokenizer.vocab_size == load_tokenizer(BASE).size


@pytest.mark.slow
def test_its_text_is_built_again_and_holds_no_held_out_function(record, tmp_path):
    made_from = record["corpus"]
    try:
        here = versions([name for name in made_from["versions"] if name != "python"])
    except DataError as reason:
        pytest.skip(str(reason))
    if other := {name: version for name, version in here.items() if made_from["versions"].get(name) != version}:
        pytest.skip(f"the text was built from other versions: here are {other}")
    (episodes,) = made_from["episodes"]
    _, _, *overrides = shlex.split(episodes["command"])
    kept = [o for o in overrides if not o.startswith(("output=", "progress="))]
    load_program("collect").main([*kept, f"output={tmp_path / 'episodes.parquet'}", "progress=false"])
    config = compose("pretrain", [f"text.episodes=[{tmp_path / 'episodes.parquet'}]"])
    corpus = build_corpus(OmegaConf.to_object(config).text, STARTER)
    assert corpus.fingerprint == record["corpus_fingerprint"]

    held_out = held_out_functions(read_tasks(STARTER / "tasks.parquet")[0])
    codes = [d.text for d in corpus.of(Kind.code)]
    everything = "\n".join(d.text for d in corpus.documents)
    assert not [code for code in held_out if code in everything]
    trees = {renamed(code) for code in held_out}
    assert not [code for code in codes if renamed(code) in trees]
    known = [trigrams(code) for code in sorted(held_out)[:: len(held_out) // SEARCHED]]
    for code in codes:
        own = trigrams(code)
        assert not [
            grams for grams in known if len(own) <= 2 * len(grams) <= 4 * len(own) and overlap(own, grams) >= 0.6
        ]
