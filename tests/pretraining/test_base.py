"""The shipped base is what its record says, and its text holds no function that verifiers are trained or judged on."""

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from rmlab.configuration import compose
from rmlab.errors import DataError
from rmlab.fingerprint import fingerprint_lines
from rmlab.microswe.build.clusters import overlap, renamed, trigrams
from rmlab.microswe.task import read_tasks, tasks_fingerprint
from rmlab.models.load import load_model
from rmlab.models.tokenizer import load_tokenizer
from rmlab.paths import STARTER
from rmlab.pretraining.corpus import package_code
from rmlab.pretraining.sources import STDLIB, NearCopies, held_out_functions, versions
from rmlab.trajectories.store import read_trajectories
from rmlab.verifiers.answer import prove_answers
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


PACKAGES = Path(__file__).parent / "packages.json"  # name to the fingerprint of the functions that it gave to the base
SAMPLED = 3  # packages that are read again


@pytest.mark.slow
def test_its_packages_give_the_recorded_text_without_a_held_out_function(record):
    made_from = record["corpus"]
    gave = json.loads(PACKAGES.read_text())
    assert set(gave) == (set(made_from["versions"]) - {"python"}) | {STDLIB}
    sampled = random.Random(record["corpus_fingerprint"]).sample(sorted(gave), SAMPLED)
    try:
        here = versions(sampled)
    except DataError as reason:
        pytest.skip(str(reason))
    if other := {name: version for name, version in here.items() if made_from["versions"].get(name) != version}:
        pytest.skip(f"the text was built from other versions: here are {other}")
    held_out = held_out_functions(read_tasks(STARTER / "tasks.parquet")[0])
    forbidden = NearCopies(held_out)
    codes = {package: [code.text for code in package_code(package, forbidden, Counter())] for package in sampled}
    assert {name: fingerprint_lines(own) for name, own in codes.items()} == {name: gave[name] for name in sampled}
    everything = [code for own in codes.values() for code in own]
    joined = "\n".join(everything)
    assert not [code for code in held_out if code in joined]
    trees = {renamed(code) for code in held_out}
    assert not [code for code in everything if renamed(code) in trees]
    known = [trigrams(code) for code in sorted(held_out)[:: len(held_out) // SEARCHED]]
    for code in everything:
        own = trigrams(code)
        assert not [
            grams for grams in known if len(own) <= 2 * len(grams) <= 4 * len(own) and overlap(own, grams) >= 0.6
        ]


def test_its_episodes_are_of_the_shipped_supervised_tasks(record):
    (episodes,) = record["corpus"]["episodes"]
    assert episodes["tasks_fingerprint"] == record["tasks_fingerprint"]
    assert "parts.verifier.tasks=0 parts.validation.tasks=0 parts.evaluation.tasks=0" in episodes["command"]
