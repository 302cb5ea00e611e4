"""Batches by token budget: nothing lost or doubled, reproducible, resumable, well filled."""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from allyouneed.config import TrainingConfig
from allyouneed.data.batches import IGNORE, Batch, Batches, Position, epoch_pairs
from allyouneed.rows import PADDING, Rows
from allyouneed.text.tokenizer import BEGIN, END


class ToyPairs:
    """Pairs of given lengths; ids say which pair, which side and which token they are."""

    def __init__(
        self, lengths: Sequence[tuple[int, int]], weights: Sequence[float] = (1.0,)
    ) -> None:
        self.lengths = np.array(lengths, dtype=np.int32).reshape(-1, 2)
        bounds = np.linspace(0, len(lengths), len(weights) + 1).astype(int).tolist()
        self.spans = tuple(
            (start, stop, weight, 1)
            for start, stop, weight in zip(bounds[:-1], bounds[1:], weights, strict=True)
        )

    def pair(self, index: int) -> tuple[list[int], list[int]]:
        src, tgt = (range(n) for n in self.lengths[index])
        return [1000 * index + 10 + n for n in src], [1000 * index + 500 + n for n in tgt]

    def texts(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        pairs = [self.pair(index) for index in indices.tolist()]
        src = [token for source, _ in pairs for token in source]
        tgt = [token for _, target in pairs for token in target]
        return np.array(src, np.int64), np.array(tgt, np.int64)


def lengths(n: int) -> list[tuple[int, int]]:
    rng = np.random.default_rng(0)
    src = np.clip(np.exp(rng.normal(2.5, 0.6, n)), 1, 200).astype(int)
    tgt = np.clip(src * np.exp(rng.normal(0, 0.2, n)), 1, 200).astype(int)
    return list(zip(src.tolist(), tgt.tolist(), strict=True))


def config(batching: str = "packed", batch_tokens: int = 300, **values: int) -> TrainingConfig:
    return TrainingConfig(
        batching=batching,  # type: ignore[arg-type]
        batch_tokens=batch_tokens,
        row_width=32,
        **values,  # type: ignore[arg-type]
    )


def packed_in_rows_of(width: int) -> TrainingConfig:
    return TrainingConfig(batch_tokens=4096, row_width=width)


def two_epochs(batches: Batches) -> Iterator[Batch]:
    for batch, position in batches.starting_at(Position()):
        if position.epoch == 2:
            return
        yield batch


def sentences(rows: Rows, values: NDArray[np.int64]) -> list[list[int]]:
    """What stands in the rows, sentence by sentence; checks positions on the way."""
    found = []
    for row in range(len(values)):
        for sentence in range(int(rows.sentence[row].max()) + 1):
            members = (rows.sentence[row] == sentence).numpy()
            assert rows.position[row][members].tolist() == list(range(members.sum()))
            found.append(values[row][members].tolist())
    return found


length_lists = st.lists(st.tuples(st.integers(1, 70), st.integers(1, 70)), min_size=1, max_size=80)


@settings(deadline=None)
@given(
    length_lists,
    st.sampled_from(["packed", "padded"]),
    st.integers(40, 2000),
    st.lists(st.integers(1, 3), min_size=1, max_size=3),
    st.integers(0, 3),
)
def test_an_epoch_shows_every_pair_as_often_as_it_weighs(
    pair_lengths: list[tuple[int, int]],
    batching: str,
    batch_tokens: int,
    weights: list[int],
    epoch: int,
) -> None:
    pairs = ToyPairs(pair_lengths, [float(weight) for weight in weights])

    plans = Batches(pairs, config(batching, batch_tokens)).plan_epoch(epoch)

    seen = Counter(index for plan in plans for index in plan.pairs.tolist())
    wanted = {i: weight for start, stop, weight, _ in pairs.spans for i in range(start, stop)}
    assert seen == wanted


@pytest.mark.parametrize("batching", ["packed", "padded"])
def test_what_a_pool_leaves_over_comes_with_the_next(batching: str) -> None:
    pairs = ToyPairs(lengths(5000))  # four pools, some pairs too long for a row

    plans = Batches(pairs, config(batching)).plan_epoch(0)

    assert sorted(index for plan in plans for index in plan.pairs.tolist()) == list(range(5000))


@settings(deadline=None)
@given(length_lists, st.sampled_from(["packed", "padded"]), st.integers(40, 2000))
def test_a_batch_stays_within_its_budget_and_its_rows_hold_what_they_name(
    pair_lengths: list[tuple[int, int]], batching: str, batch_tokens: int
) -> None:
    pairs = ToyPairs(pair_lengths)

    for plan in Batches(pairs, config(batching, batch_tokens)).plan_epoch(0):
        assert plan.rows.tolist() == sorted(plan.rows)
        assert plan.rows[-1] < plan.n_rows
        widest = max(plan.src_width, plan.tgt_width)
        assert plan.n_rows == 1 or plan.n_rows * widest <= batch_tokens
        for row in range(plan.n_rows):
            src, tgt = (pairs.lengths[plan.pairs[plan.rows == row]] + 1).sum(axis=0)
            assert src <= plan.src_width
            assert tgt <= plan.tgt_width


@pytest.mark.parametrize("batching", ["packed", "padded"])
def test_a_batch_holds_both_sides_with_their_marks(batching: str) -> None:
    pairs = ToyPairs(lengths(50))

    for batch, _ in itertools.islice(Batches(pairs, config(batching)).starting_at(Position()), 5):
        wanted = [pairs.pair(index) for index in batch.pairs]
        assert sentences(batch.src, batch.src.ids.numpy()) == [[*s, END] for s, _ in wanted]
        assert sentences(batch.tgt, batch.tgt.ids.numpy()) == [[BEGIN, *t] for _, t in wanted]
        assert sentences(batch.tgt, batch.labels.numpy()) == [[*t, END] for _, t in wanted]
        assert (batch.labels == IGNORE).equal(batch.tgt.sentence == PADDING)
        assert batch.n_src_tokens == sum(len(s) + 1 for s, _ in wanted)
        assert batch.n_tgt_tokens == sum(len(t) + 1 for _, t in wanted)


def test_epochs_differ_and_are_reproducible() -> None:
    first, again = (Batches(ToyPairs(lengths(200)), config()) for _ in range(2))
    other_seed = Batches(ToyPairs(lengths(200)), config(seed=2))

    def rows(batches: Batches, epoch: int) -> list[tuple[list[int], list[int]]]:
        return [(plan.pairs.tolist(), plan.rows.tolist()) for plan in batches.plan_epoch(epoch)]

    assert rows(first, 1) == rows(again, 1)
    assert rows(first, 1) != rows(first, 2)
    assert rows(first, 1) != rows(other_seed, 1)


@pytest.mark.parametrize("batching", ["packed", "padded"])
def test_going_on_from_any_position_gives_the_rest(batching: str) -> None:
    batches = Batches(ToyPairs(lengths(120)), config(batching))

    def members(position: Position, n: int) -> list[list[int]]:
        return [batch.pairs for batch, _ in itertools.islice(batches.starting_at(position), n)]

    whole = members(Position(), 25)  # more than one epoch
    positions = [p for _, p in itertools.islice(batches.starting_at(Position()), 25)]
    assert positions[-1].epoch > 0
    for made in (1, 7, 15, 24):
        assert members(positions[made - 1], 25 - made) == whole[made:]


def test_half_a_weight_shows_each_pair_in_every_other_epoch() -> None:
    epochs = [epoch_pairs([(10, 20, 0.5, 1)], seed=1, epoch=epoch) for epoch in range(4)]

    assert [len(set(pairs)) for pairs in epochs] == [5] * 4
    assert sorted(np.concatenate(epochs[:2])) == list(range(10, 20))
    assert Counter(np.concatenate(epochs).tolist()) == Counter(list(range(10, 20)) * 2)


def test_an_epoch_shows_each_pair_once_in_one_of_its_segmentations() -> None:
    epochs = [epoch_pairs([(6, 306, 1.0, 3)], seed=1, epoch=epoch) for epoch in range(30)]

    for places in epochs:
        assert sorted((places - 6) // 3) == list(range(100))
    assert set(np.concatenate(epochs).tolist()) == set(range(6, 306))


def test_however_little_a_corpus_weighs_it_is_shown() -> None:
    assert len(epoch_pairs([(0, 195, 0.001, 1)], seed=1, epoch=0)) == 1


def test_a_corpus_of_which_nothing_is_left_is_passed_over() -> None:
    assert epoch_pairs([(0, 0, 1.5, 1), (0, 2, 1.0, 1)], seed=1, epoch=0).tolist() == [0, 1]


def test_packed_batches_waste_little() -> None:
    pairs = ToyPairs(lengths(30_000))
    plans = list(Batches(pairs, packed_in_rows_of(128)).plan_epoch(0))

    room = sum(plan.n_rows * (plan.src_width + plan.tgt_width) for plan in plans)
    assert (pairs.lengths + 1).sum() / room > 0.96


def test_packed_batches_of_pairs_that_fit_a_row_have_one_shape() -> None:
    batches = Batches(ToyPairs(lengths(5000)), packed_in_rows_of(256))

    shapes = {batch.src.ids.shape for batch in two_epochs(batches)}
    assert shapes == {batch.tgt.ids.shape for batch in two_epochs(batches)} == {(16, 256)}
    assert batches.packed_shapes() == [(16, 256)]


def test_longer_pairs_add_a_shape_for_each_doubling() -> None:
    batches = Batches(ToyPairs([*lengths(5000), (130, 20)]), packed_in_rows_of(64))

    shapes = {tuple(batch.src.ids.shape) for batch in two_epochs(batches)}
    assert sorted(shapes, reverse=True) == batches.packed_shapes()
    assert batches.packed_shapes() == [(64, 64), (32, 128), (16, 256)]


def test_every_packed_batch_mixes_long_and_short_pairs() -> None:
    pairs = ToyPairs(lengths(30_000))
    plans = itertools.islice(Batches(pairs, packed_in_rows_of(256)).plan_epoch(0), 60)

    n_pairs = [len(plan.pairs) for plan in plans]
    assert np.std(n_pairs) < 0.2 * np.mean(n_pairs)


def test_padded_batches_hold_similar_lengths() -> None:
    pairs = ToyPairs(lengths(3000))
    plans = Batches(pairs, config("padded", batch_tokens=1024)).plan_epoch(0)

    longer_side = pairs.lengths.max(axis=1)
    spreads = [np.ptp(longer_side[plan.pairs]) for plan in plans]
    assert np.mean(spreads) < np.ptp(longer_side) / 10


@pytest.mark.parametrize("batching", ["packed", "padded"])
def test_no_batch_needs_more_memory_than_the_largest(batching: str) -> None:
    batches = Batches(ToyPairs(lengths(500)), config(batching))

    def cost(batch: Batch) -> int:
        n_rows, width = batch.src.ids.shape
        return n_rows * width * width

    largest = cost(batches.largest())
    stream = batches.starting_at(Position())
    epoch = itertools.takewhile(lambda item: item[1].epoch == 0, stream)
    assert max(cost(batch) for batch, _ in epoch) <= largest


@settings(deadline=None)
@given(length_lists, st.sampled_from(["packed", "padded"]), st.integers(2, 5))
def test_ranks_split_a_batch_with_nothing_lost_or_doubled(
    pair_lengths: list[tuple[int, int]], batching: str, n_ranks: int
) -> None:
    pairs = ToyPairs(pair_lengths)

    def first_batches(rank: int, n_ranks: int) -> list[Batch]:
        stream = Batches(pairs, config(batching), rank, n_ranks).starting_at(Position())
        return [batch for batch, _ in itertools.islice(stream, 3)]

    alone = first_batches(0, 1)
    ranks = [first_batches(rank, n_ranks) for rank in range(n_ranks)]
    for batch, *parts in zip(alone, *ranks, strict=True):
        assert len({part.src.ids.shape for part in parts}) == 1
        found = [row for part in parts for row in sentences(part.tgt, part.labels.numpy())]
        assert sorted(found) == sorted(sentences(batch.tgt, batch.labels.numpy()))
        for part in parts:
            assert part.pairs == batch.pairs
            assert part.n_src_tokens == batch.n_src_tokens
            assert part.n_tgt_tokens == batch.n_tgt_tokens


def test_every_rank_probes_its_own_share_of_the_largest_batch() -> None:
    pairs = ToyPairs(lengths(500))

    alone, shared = (Batches(pairs, config(), 0, n_ranks).largest() for n_ranks in (1, 2))

    assert len(shared.src.ids) == -(-len(alone.src.ids) // 2)


@pytest.mark.parametrize("batching", ["packed", "padded"])
def test_the_largest_batch_has_no_position_that_no_pair_reaches(batching: str) -> None:
    pairs = ToyPairs(lengths(50))
    longest = int(pairs.lengths.max()) + 1

    largest = Batches(pairs, config(batching)).largest()

    assert largest.src.position.max() == longest - 1
