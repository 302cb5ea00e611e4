"""Comparing an exported model with ours."""

from collections.abc import Sequence

from tiny_translator import tiny_translator

from allyouneed.checkpoint import LoadedModel
from allyouneed.inference import BeamSearch, Limits, search
from allyouneed.inference.engine import Ids
from allyouneed.interop import compare

TRANSLATOR = tiny_translator()
MODEL = LoadedModel(TRANSLATOR.model, TRANSLATOR.tokenizer, TRANSLATOR.manifest)
TOO_LONG = "one two three four five six seven eight nine ten one two three four five six seven"
TEXTS = ["one two", "", "three, four.", "five", TOO_LONG, "six", "nine ten"]


class Twin:
    """Our own model as the other program, but for the sources it gets wrong."""

    def __init__(self, wrong: Sequence[Ids] = ()) -> None:
        self.wrong = wrong
        self.calls: list[tuple[set[int], int, int]] = []

    def translate(self, sources: Sequence[Ids], beam_size: int, max_length: int) -> list[list[int]]:
        self.calls.append(({len(source) for source in sources}, beam_size, max_length))
        limits = Limits(max_length=max_length)
        found = search(MODEL.model, sources, BeamSearch(beam_size, 0.0), limits)
        return [
            [] if source in self.wrong else list(best.ids)
            for source, [best] in zip(sources, found, strict=True)
        ]


def test_a_twin_agrees_on_all_but_blank_and_overlong_texts() -> None:
    for beam_size in (1, 2):
        agreement = compare(MODEL, Twin(), TEXTS, beam_size)

        assert agreement.compared == (0, 2, 3, 5, 6)
        assert agreement.different == ()
        assert agreement.n_same == 5


def test_texts_that_differ_are_found_by_their_places() -> None:
    wrong = MODEL.tokenizer.encode_batch([TEXTS[6], TEXTS[2]])

    agreement = compare(MODEL, Twin(wrong), TEXTS, beam_size=1)

    assert agreement.different == (2, 6)
    assert agreement.n_same == 3


def test_sources_come_in_batches_of_one_length_with_the_limit_of_the_model() -> None:
    twin = Twin()

    compare(MODEL, twin, TEXTS * 20, beam_size=2)

    assert len(twin.calls) > len({length for [length], _, _ in twin.calls})  # none is too large
    for [length], beam_size, max_length in twin.calls:
        assert beam_size == 2
        assert max_length == length + MODEL.manifest.decoding.max_extra_tokens
