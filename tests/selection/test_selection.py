import re
from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import DictConfig, OmegaConf

from rmlab.errors import DataError, UsageError
from rmlab.selection.select import DataConfig, check_fill, select


@dataclass(frozen=True)
class Row:
    trajectory_id: str
    policy: str
    source: str
    resolved: bool | None
    split: str = "verifier"
    length: int = 10


def pool_of(counts):
    """counts: {(resolved, policy, source): n}"""
    return [
        Row(f"{resolved}-{policy}-{source}-{i}", policy, source, resolved)
        for (resolved, policy, source), n in counts.items()
        for i in range(n)
    ]


keys = st.tuples(st.booleans(), st.sampled_from(["careful", "hasty", "lost"]), st.sampled_from(["sympy", "toolz"]))
pools = (
    st.dictionaries(keys, st.integers(1, 25), min_size=2)
    .map(pool_of)
    .filter(lambda rows: len({row.resolved for row in rows}) == 2)
)
stated = st.sampled_from(["1:1", "2:1", "1:4", "3:2"])
ratios = stated | st.just("pool")


def largest(pool, **changes):
    """The largest total, as the error names it."""
    with pytest.raises(DataError) as caught:
        select(pool, DataConfig(path="", scale=10**6, **changes), 0)
    return int(re.search(r"allows? ([\d,]+)", str(caught.value))[1].replace(",", ""))


def chosen(pool, scale, seed=0, **changes):
    return {row.trajectory_id for row in select(pool, DataConfig(path="", scale=scale, **changes), seed).chosen}


@settings(deadline=None, max_examples=40)
@given(pools, ratios, st.integers(0, 3))
def test_sets_are_nested_within_a_seed_up_to_the_largest_that_the_error_names(pool, ratio, seed):
    most = largest(pool, label_ratio=ratio)
    before = set()
    for scale in range(1, most + 1):
        now = chosen(pool, scale, seed, label_ratio=ratio)
        assert len(now) == scale
        assert before < now
        before = now
    with pytest.raises(DataError, match=rf"^data\.scale={most + 1} cannot be filled: .* ratio allows {most:,}\."):
        chosen(pool, most + 1, seed, label_ratio=ratio)


@settings(deadline=None, max_examples=40)
@given(pools, ratios, ratios)
def test_two_ratios_share_all_they_can(pool, first, second):
    scale = min(largest(pool, label_ratio=first), largest(pool, label_ratio=second))
    if scale:
        one, other = (select(pool, DataConfig(path="", scale=scale, label_ratio=r), 1).chosen for r in (first, second))
        both = {row.trajectory_id for row in one} & {row.trajectory_id for row in other}
        labels, others = Counter(row.resolved for row in one), Counter(row.resolved for row in other)
        assert len(both) == sum(min(labels[label], others[label]) for label in (True, False))


@settings(deadline=None, max_examples=40)
@given(pools, ratios, st.randoms(use_true_random=False))
def test_the_order_of_the_pool_does_not_matter_and_everything_is_realised_within_a_row(pool, ratio, rng):
    scale = largest(pool, label_ratio=ratio)
    if not scale:
        return
    config = DataConfig(path="", scale=scale, label_ratio=ratio)
    one = select(pool, config, 0)
    shuffled = list(pool)
    rng.shuffle(shuffled)
    other = select(shuffled, config, 0)
    assert one.chosen == other.chosen
    assert one.table == other.table
    of_pool = Counter(row.resolved for row in pool)
    resolved, unresolved = map(int, ratio.split(":")) if ":" in ratio else (of_pool[True], of_pool[False])
    realised = sum(row.resolved for row in one.chosen)
    assert abs(realised - scale * resolved / (resolved + unresolved)) < 1
    assert sum(row.taken for row in one.table) == scale
    assert sum(row.asked for row in one.table) == pytest.approx(scale)
    counted = Counter((row.resolved, row.policy, row.source) for row in one.chosen)
    assert all(row.taken == counted[(row.label == "resolved", row.policy, row.source)] for row in one.table)


def test_the_ratio_of_the_pool_is_a_value_too():
    pool = pool_of({(True, "careful", "toolz"): 10, (False, "careful", "toolz"): 20, (False, "hasty", "toolz"): 10})
    config = DataConfig(path="", scale=8, label_ratio="pool")
    taken = {(row.label, row.policy): row.taken for row in select(pool, config, 0).table}
    assert taken == {("resolved", "careful"): 2, ("unresolved", "careful"): 4, ("unresolved", "hasty"): 2}
    of_what_fits = select(pool, config, 0, fits=lambda row: row.policy == "careful").record()
    assert (of_what_fits["resolved"], of_what_fits["unresolved"]) == (3, 5), "1:2 of what can be learned from"
    assert len(select(pool, DataConfig(path="", scale=40, label_ratio="pool"), 0).chosen) == 40, "all of it"
    with pytest.raises(DataError) as refused:
        select(pool, DataConfig(path="", scale=41, label_ratio="pool"), 0)
    assert str(refused.value) == (
        "data.scale=41 cannot be filled: 10 resolved and 30 unresolved trajectories are available, the pool's ratio allows 40. "
        "Lower data.scale."
    )
    with pytest.raises(
        DataError, match=r"data\.label_ratio=pool: of the attempts to learn from 30 are unresolved and none is resolved"
    ):
        select(pool[10:], config, 0)


def test_another_seed_is_another_draw_of_the_same_proportions():
    pool = pool_of({(True, "careful", "toolz"): 60, (False, "careful", "toolz"): 40, (False, "hasty", "toolz"): 20})
    one, other = (select(pool, DataConfig(path="", scale=40), seed) for seed in (0, 1))
    assert one.table == other.table
    assert set(one.chosen) != set(other.chosen)
    taken = {(row.label, row.policy): row.taken for row in one.table}
    # 20 unresolved by 40:20 are 13.3 and 6.7; Jefferson's divisors favour the larger.
    assert taken == {("resolved", "careful"): 20, ("unresolved", "careful"): 14, ("unresolved", "hasty"): 6}


def test_weights_by_policy_and_source_hold_within_each_label():
    pool = pool_of({(r, p, s): 100 for r in (True, False) for p in ("careful", "hasty") for s in ("sympy", "toolz")})
    config = DataConfig(
        path="", scale=120, label_ratio="2:1", policies={"careful": 3, "hasty": 1}, sources={"toolz": 1}
    )
    taken = {(row.label, row.policy, row.source): row.taken for row in select(pool, config, 0).table}
    assert taken[("resolved", "careful", "toolz")] == 60
    assert taken[("resolved", "hasty", "toolz")] == 20
    assert taken[("unresolved", "careful", "toolz")] == 30
    assert taken[("unresolved", "hasty", "toolz")] == 10
    assert all(n == 0 for (_, _, source), n in taken.items() if source == "sympy")


def test_what_does_not_fit_is_dropped_before_the_choice_and_counted():
    pool = pool_of({(True, "careful", "toolz"): 10, (False, "careful", "toolz"): 10})
    pool += [
        Row("long", "careful", "toolz", False, length=999),
        Row("unknown", "careful", "toolz", None),
        Row("other part", "careful", "toolz", True, split="validation"),
    ]
    selection = select(pool, DataConfig(path="", scale=20), 0, fits=lambda row: row.length < 100)
    assert "long" not in {row.trajectory_id for row in selection.chosen}
    record = selection.record()
    assert (record["dropped"], record["unlabelled"], record["taken"], record["resolved"]) == (1, 1, 20, 10)
    with pytest.raises(
        DataError, match=r"10 resolved and 10 unresolved .*\(1 more do not fit the context\).*prompt\.over_length"
    ):
        select(pool, DataConfig(path="", scale=21), 0, fits=lambda row: row.length < 100)
    with pytest.raises(DataError, match=r"Lower data\.scale or raise prompt\.max_tokens \(and data\.fits\)\.$"):
        select(pool, DataConfig(path="", scale=21), 0, fits=lambda row: row.length < 100, is_cut=True)


def test_the_words_when_a_ratio_cannot_be_filled():
    pool = pool_of({(True, "careful", "toolz"): 3120, (False, "careful", "toolz"): 911})
    with pytest.raises(DataError) as caught:
        select(pool, DataConfig(path="", scale=4000, label_ratio="2:1"), 0)
    assert str(caught.value) == (
        "data.scale=4000 cannot be filled: 3,120 resolved and 911 unresolved trajectories are available, "
        "a 2:1 ratio allows 2,733. Lower data.scale or change data.label_ratio."
    )


def test_the_words_when_a_policy_is_short():
    pool = pool_of({(r, p, "toolz"): n for r in (True, False) for p, n in (("careful", 500), ("hasty", 30))})
    with pytest.raises(DataError) as caught:
        select(pool, DataConfig(path="", scale=400, policies={"careful": 1, "hasty": 1}), 0)
    assert str(caught.value) == (
        "data.scale=400 cannot be filled: 30 resolved trajectories of policy hasty are available, the weights careful:1 hasty:1 "
        "at a 1:1 ratio allow 120 in all. Lower data.scale or change data.policies."
    )


def test_of_held_out_policies_nothing_is_taken_and_how_much_is_left_out_is_counted():
    pool = pool_of({(label, policy, "toolz"): 6 for label in (True, False) for policy in ("careful", "hasty", "lost")})
    found = select(pool, DataConfig(path="", scale=12, held_out_policies=["lost"]), 0)
    assert Counter(row.policy for row in found.chosen) == {"careful": 6, "hasty": 6}
    assert (found.held_out, found.record()["held_out"]) == (12, 12)
    assert largest(pool, held_out_policies=["lost"]) == 24
    for held, policies, words in [
        (
            ["lots"],
            {},
            r"data\.held_out_policies names 'lots', which the pool does not have; it has careful, hasty, lost",
        ),
        (["lost"], {"lost": 1.0}, r"data\.policies names 'lost', which data\.held_out_policies excludes"),
    ]:
        config = DataConfig(path="", scale=2, held_out_policies=held, policies=policies)
        with pytest.raises(UsageError, match=words):
            check_fill(pool, config)
        with pytest.raises(UsageError, match=words):
            select(pool, config, 0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"label_ratio": "2"}, "resolved:unresolved"),
        ({"label_ratio": "1:0"}, "resolved:unresolved"),
        ({"policies": {"nobody": 1.0}}, "names 'nobody', which the pool does not have; it has careful"),
        ({"sources": {"toolz": -1.0}}, "weights must be at least 0"),
        ({"scale": 0}, "data.scale=0: must be at least 1"),
    ],
)
def test_settings_that_make_no_sense(changes, words):
    pool = pool_of({(True, "careful", "toolz"): 3, (False, "careful", "toolz"): 3})
    with pytest.raises(UsageError, match=words):
        select(pool, DataConfig(**{"path": "", "scale": 2, **changes}), 0)


mixtures = st.dictionaries(
    st.sampled_from(["careful", "hasty", "lost"]), st.sampled_from([0.5, 1.0, 2.0, 3.0]), min_size=1
)
compositions = st.dictionaries(st.sampled_from(["sympy", "toolz"]), st.sampled_from([0.25, 1.0, 3.0]), min_size=1)
FULL = pool_of({(r, p, s): 12 for r in (True, False) for p in ("careful", "hasty", "lost") for s in ("sympy", "toolz")})


def by(rows, *names):
    return Counter(tuple(getattr(row, name) for name in names) for row in rows)


@settings(deadline=None, max_examples=25)
@given(ratios, mixtures, compositions)
def test_weighted_sets_are_nested_up_to_the_largest_total_that_the_error_names(ratio, policies, sources):
    most = largest(FULL, label_ratio=ratio, policies=policies, sources=sources)
    before: set[str] = set()
    for scale in range(1, most + 1):
        now = chosen(FULL, scale, label_ratio=ratio, policies=policies, sources=sources)
        assert len(now) == scale
        assert before < now, "a larger total takes no example away"
        before = now


@settings(deadline=None, max_examples=25)
@given(mixtures, mixtures, compositions)
def test_two_mixtures_share_all_they_can(first, second, sources):
    scale = min(largest(FULL, policies=one, sources=sources) for one in (first, second))
    if scale:
        one, other = (
            select(FULL, DataConfig(path="", scale=scale, policies=m, sources=sources), 3).chosen
            for m in (first, second)
        )
        both = {row.trajectory_id for row in one} & {row.trajectory_id for row in other}
        a, b = (by(rows, "resolved", "policy", "source") for rows in (one, other))
        assert len(both) == sum(min(a[key], b[key]) for key in a)


@settings(deadline=None, max_examples=40)
@given(stated, mixtures, compositions, st.integers(1, 72))
def test_every_step_is_realised_within_one_row_of_what_it_was_given(ratio, policies, sources, scale):
    scale = min(scale, largest(FULL, label_ratio=ratio, policies=policies, sources=sources))
    if not scale:
        return
    rows = select(
        FULL, DataConfig(path="", scale=scale, label_ratio=ratio, policies=policies, sources=sources), 0
    ).chosen
    labels, of_policy, of_source = (
        by(rows, "resolved"),
        by(rows, "resolved", "policy"),
        by(rows, "resolved", "policy", "source"),
    )
    first, second = map(int, ratio.split(":"))
    assert abs(labels[(True,)] - scale * first / (first + second)) < 1
    for label in (True, False):
        for policy, weight in policies.items():
            given_to = of_policy[label, policy]
            assert abs(given_to - labels[(label,)] * weight / sum(policies.values())) < 1
            for source, share in sources.items():
                assert abs(of_source[label, policy, source] - given_to * share / sum(sources.values())) < 1


def test_a_training_prompt_may_be_held_to_fewer_tokens_than_the_context():
    assert DataConfig(path="").room is None
    assert DataConfig(path="", fits=320).room == 320
    assert DataConfig(path="", fits=320, refilter=True).room is None


def test_a_configuration_is_not_asked_again_for_every_row(monkeypatch):
    """A look into a configuration of Hydra costs as much as a hundred rows: of 30,000 rows it made a plan wait for seconds."""
    looks = Counter()
    look = DictConfig.__getattr__

    def counted(config, key):
        looks[len(pool)] += 1
        return look(config, key)

    monkeypatch.setattr(DictConfig, "__getattr__", counted)
    config = OmegaConf.structured(DataConfig(path="", scale=4, held_out_policies=["lost"]))
    for each in (4, 400):
        pool = pool_of(
            dict.fromkeys([(True, "careful", "sympy"), (False, "careful", "sympy"), (True, "lost", "sympy")], each)
        )
        check_fill(pool, config)
        assert select(pool, config, 0).held_out == each
    few, many = looks.values()
    assert few == many
