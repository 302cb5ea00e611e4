import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_translator import MAX_SOURCE_TOKENS, copying_search, tiny_translator, tokenizer

from allyouneed.checkpoint import save_model
from allyouneed.errors import CheckpointError, DataError
from allyouneed.inference import (
    BeamSearch,
    Greedy,
    Hypothesis,
    Limits,
    Sampling,
    Strategy,
    penalty,
)
from allyouneed.inference.teacher_forcing import token_log_probs
from allyouneed.models import find_model
from allyouneed.translator import Translator

TEXTS = ["one two three", "", "four", "  \t", "five six", "seven"]
LONG = "One two three, four five six. Seven eight man! Nine ten, one two three four five."


@pytest.fixture
def copying(monkeypatch: pytest.MonkeyPatch) -> Translator:
    """A translator whose translations are their sources."""
    monkeypatch.setattr("allyouneed.inference.plain_search.search", copying_search)
    return tiny_translator()


def test_order_is_kept_and_blank_stays_blank(copying: Translator) -> None:
    translations = copying.translate(TEXTS)

    assert [it.source for it in translations] == TEXTS
    assert [it.text for it in translations] == [
        "one two three",
        "",
        "four",
        "",
        "five six",
        "seven",
    ]


def test_blank_texts_are_not_shown_to_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("allyouneed.inference.plain_search.search", fail)

    assert [it.text for it in tiny_translator().translate(["", " ", "\u200b"])] == [""] * 3


def test_one_text_that_is_no_list_is_not_taken_for_a_list_of_letters() -> None:
    with pytest.raises(TypeError, match="list of texts"):
        tiny_translator().translate("one two")


def test_batch_size_changes_nothing() -> None:
    one_by_one = tiny_translator(batch_tokens=1).translate(TEXTS)
    together = tiny_translator(batch_tokens=1000).translate(TEXTS)

    assert [it.text for it in one_by_one] == [it.text for it in together]
    torch.testing.assert_close(
        torch.tensor([it.score for it in one_by_one]), torch.tensor([it.score for it in together])
    )


def test_too_long_a_text_is_translated_in_parts_that_the_model_takes(
    copying: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def noting_search(
        model: object, sources: Sequence[Sequence[int]], *others: object
    ) -> list[list[Hypothesis]]:
        seen.extend(len(source) + 1 for source in sources)
        return copying_search(model, sources, *others)  # type: ignore[arg-type]

    monkeypatch.setattr("allyouneed.inference.plain_search.search", noting_search)

    [translation, digits] = copying.translate([LONG, "1" * 50])

    assert translation.text == LONG
    assert digits.text.replace(" ", "") == "1" * 50
    assert max(seen) == MAX_SOURCE_TOKENS  # digits fill their parts


def test_parts_are_scored_as_one_text(copying: Translator) -> None:
    [translation] = copying.translate([LONG])
    n_parts = round(-translation.hypotheses[0].log_probability)  # the copying search gives -1 each

    length = len(translation.tokens) + n_parts
    assert n_parts > 1
    assert math.isclose(translation.score, -n_parts / penalty(float(length), 0.6))


def test_alignments_of_parts_point_into_the_whole() -> None:
    [translation] = tiny_translator().translate([LONG], alignments=True)

    assert translation.alignment is not None
    sources, targets = zip(*translation.alignment, strict=True)
    assert list(targets) == list(range(len(translation.tokens)))
    assert MAX_SOURCE_TOKENS < max(sources) < len(translation.source_tokens)


@pytest.mark.parametrize("strategy", [BeamSearch(2), Sampling()])
def test_the_best_of_parts_is_the_best_however_many_are_asked_for(
    strategy: Strategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer others, though worse each, would be better together: length is rewarded."""
    one, two = (tuple(tokenizer().encode(text)) for text in ("one", "two"))

    def search(*arguments: Any) -> list[list[Hypothesis]]:
        found = [Hypothesis(one, -1.0, -1.0), Hypothesis(two * 30, -1.1, -1.1)]
        return [found[: arguments[4]] for _ in arguments[1]]

    monkeypatch.setattr("allyouneed.inference.plain_search.search", search)
    translator = tiny_translator()
    [alone] = translator.translate([LONG], strategy=strategy, alignments=True)
    [among] = translator.translate([LONG], strategy=strategy, n_best=2, alignments=True)

    best, other = among.hypotheses
    assert other.score > best.score
    assert alone.hypotheses == (best,)
    assert among.alignment == alone.alignment
    assert among.alignment is not None
    assert len(among.alignment) == len(best.tokens)


def test_alignments_cost_nothing_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allyouneed.inference.teacher_forcing.alignment_weights", None)

    assert tiny_translator().translate(["one"])[0].alignment is None


def test_only_the_first_part_begins_with_the_prefix(copying: Translator) -> None:
    short, long, blank = copying.translate(["one", LONG, ""], prefixes=["two", "two", "two"])

    assert short.text == "two one"
    assert long.text == f"two {LONG}"
    assert blank.text == ""


def test_a_real_search_honours_the_prefix() -> None:
    [translation] = tiny_translator().translate(["one two"], prefixes=["nine ten"])

    assert translation.text.startswith("nine ten")


def test_the_models_own_settings_hold_unless_others_are_given() -> None:
    translator = tiny_translator()
    n_source = len(tokenizer().encode("one"))

    [own] = translator.translate(["one"], n_best=2)
    [given] = translator.translate(["one"], strategy=Greedy(), limits=Limits(max_length=1))

    assert len(own.hypotheses) == 2  # of a beam of two
    assert own.hypotheses[0].score >= own.hypotheses[1].score
    assert len(own.tokens) <= n_source + 3
    assert len(given.tokens) <= 1


def test_the_n_best_are_different_texts_from_the_whole_beam(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = tokenizer().encode("one")
    spelled = tokenizer().encode("o n e")  # pieces that come out as another text only if joined
    texts = [whole, whole, spelled]
    found = [[Hypothesis(tuple(ids), -rank, -rank) for rank, ids in enumerate(texts, start=1)]]
    asked: list[int] = []

    def search(*arguments: object) -> list[list[Hypothesis]]:
        asked.append(arguments[4])  # type: ignore[arg-type]
        return found

    monkeypatch.setattr("allyouneed.inference.plain_search.search", search)
    [translation] = tiny_translator().translate(["one"], strategy=BeamSearch(3), n_best=2)

    assert asked == [3]
    assert [candidate.text for candidate in translation.hypotheses] == ["one", "o n e"]


def test_a_beam_full_of_one_text_is_widened_until_there_are_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, in_letters, two, three = (
        tuple(tokenizer().encode(text)) for text in ("one", "o n e", "two", "three")
    )
    narrow = [Hypothesis(one, -2.0, -2.0), Hypothesis((*one, 0), -3.0, -3.0)]
    wide = [Hypothesis(three, -1.0, -1.0), *narrow, Hypothesis((*one, 0, 0), -4.0, -4.0)]
    wider = [*wide, Hypothesis(two, -5.0, -5.0), Hypothesis(in_letters, -6.0, -6.0)]
    beams = {2: narrow, 4: wide, 8: wider}
    asked: list[tuple[int, int]] = []

    def search(*arguments: Any) -> list[list[Hypothesis]]:
        _, sources, strategy, *_ = arguments
        asked.append((len(sources), strategy.size))
        return [beams[strategy.size] if len(it) == 1 else wider for it in sources]

    monkeypatch.setattr("allyouneed.inference.plain_search.search", search)
    short, whole = tiny_translator().translate(["one", "one two"], n_best=2)

    assert asked == [(2, 2), (1, 4), (1, 8)]
    # What is better than the best of the beam that was asked for is not what was asked for.
    assert [candidate.text for candidate in short.hypotheses] == ["one", "two"]
    assert [candidate.text for candidate in whole.hypotheses] == ["three", "one"]


def test_the_search_for_others_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def search(*arguments: Any) -> list[list[Hypothesis]]:
        asked.append(arguments[2].size)
        return [[Hypothesis(tuple(tokenizer().encode("one")), -1.0, -1.0)]]

    monkeypatch.setattr("allyouneed.inference.plain_search.search", search)
    [translation] = tiny_translator().translate(["one"], strategy=BeamSearch(5), n_best=2)

    assert asked == [5, 10, 20, 40, 64]
    assert [candidate.text for candidate in translation.hypotheses] == ["one"]


def test_bytes_that_spell_line_ends_cannot_break_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    newline = tokenizer().pieces(range(330)).index("<0x0A>")
    found = [[Hypothesis((*tokenizer().encode("one"), newline), -1.0, -1.0)]]
    monkeypatch.setattr("allyouneed.inference.plain_search.search", lambda *_: found)

    assert tiny_translator().translate(["two"])[0].text == "one"


def test_a_model_in_training_is_used_without_dropout_and_left_in_training() -> None:
    translator = tiny_translator(dropout=0.5)
    expected = translator.translate(TEXTS), translator.score(["one"], ["two"])
    translator.model.train()

    assert (translator.translate(TEXTS), translator.score(["one"], ["two"])) == expected
    assert translator.model.training


def test_progress_counts_every_text_once() -> None:
    heard: list[int] = []

    tiny_translator(batch_tokens=10).translate([*TEXTS, LONG], progress=heard.append)

    assert len(heard) > 1
    assert sum(heard) == len(TEXTS) + 1


def test_a_stream_is_read_no_further_than_a_window_ahead(copying: Translator) -> None:
    endless = (f"{number}" for number in itertools.count())

    first = itertools.islice(copying.stream(endless, window=2), 3)

    assert [it.text for it in first] == ["0", "1", "2"]
    assert next(endless) == "4"


def test_a_document_keeps_its_layout(copying: Translator) -> None:
    text = "\n  * One two. Three four!\r\n\n\tFive.\f"

    assert copying.translate_document(text) == text


def test_scores_are_the_log_probabilities_of_teacher_forcing() -> None:
    translator = tiny_translator()
    sources, targets = ["one two", "three", ""], ["four", "five six seven", "eight"]

    for source, target, score in zip(
        sources, targets, translator.score(sources, targets), strict=True
    ):
        ids = tokenizer().encode(source), tokenizer().encode(target)
        [expected] = token_log_probs(translator.model, [ids[0]], [ids[1]])
        torch.testing.assert_close(
            torch.tensor(score.token_log_probabilities), torch.tensor(expected)
        )
        assert score.n_tokens == len(ids[1]) + 1
        mean = sum(expected) / len(expected)
        assert math.isclose(score.log_probability, sum(expected), rel_tol=1e-5)
        assert math.isclose(score.perplexity, math.exp(-mean), rel_tol=1e-4)
        assert math.isclose(
            score.score, sum(expected) / penalty(float(len(expected)), 0.6), rel_tol=1e-5
        )


def test_unequal_numbers_of_sources_and_targets_are_refused() -> None:
    with pytest.raises(DataError, match="2 sources and 1 targets"):
        tiny_translator().score(["one", "two"], ["one"])


def test_a_folder_or_a_shipped_name_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tiny_translator()
    save_model(tmp_path / "b-model", made.model.state_dict(), made.tokenizer, made.manifest)
    monkeypatch.setattr("allyouneed.models.PRETRAINED", tmp_path)
    expected = made.translate(TEXTS)

    for name in (None, "b-model", tmp_path / "b-model", str(tmp_path / "b-model")):
        assert Translator.load(name, device="cpu").translate(TEXTS) == expected


def test_an_unknown_model_is_refused_with_the_names_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "en-de").mkdir()
    (tmp_path / "en-de" / "config.json").touch()
    monkeypatch.setattr("allyouneed.models.PRETRAINED", tmp_path)

    with pytest.raises(CheckpointError, match=r"de-en: .* shipped models are en-de"):
        find_model("de-en")


def test_no_model_at_all_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allyouneed.models.PRETRAINED", tmp_path)

    with pytest.raises(CheckpointError, match="no model is shipped"):
        find_model(None)


def test_details_are_of_the_search_that_was() -> None:
    translator = tiny_translator()
    translations = translator.translate(TEXTS, n_best=2, alignments=True)

    for translation, details in zip(translations, translator.details(translations), strict=True):
        for hypothesis, detail in zip(translation.hypotheses, details, strict=True):
            shape = len(hypothesis.tokens), len(translation.source_tokens) + 1
            assert detail.attention.shape == shape
            assert detail.attention.sum(1) == pytest.approx(1, abs=1e-5)
            if hypothesis.tokens and hypothesis.finished:
                log_probability = math.fsum(detail.token_log_probabilities)
                assert log_probability == pytest.approx(hypothesis.log_probability, abs=1e-4)
        best = details[0].attention[:, :-1]
        if translation.source_tokens:
            sources = best.argmax(1).tolist()
            assert translation.alignment == list(zip(sources, range(len(sources)), strict=True))


def test_details_of_more_than_the_model_knows_are_refused() -> None:
    translator = tiny_translator()
    [whole] = translator.translate([LONG])
    translations = translator.translate(translator.sentences(LONG).sentences)
    config = replace(
        translator.manifest.model, positions="learned", max_positions=MAX_SOURCE_TOKENS + 3
    )
    translator.manifest = replace(translator.manifest, model=config)

    assert len(translator.details(translations)) == len(translations)
    with pytest.raises(DataError, match="knows 15 positions; split the text with `sentences`"):
        translator.details([whole])


def test_attention_can_be_asked_of_given_tokens() -> None:
    attention = tiny_translator().attention("one two", ["▁", "o", "n", "e"])

    assert attention.target_tokens == ("▁", "o", "n", "e")
    with pytest.raises(DataError, match="not a token"):
        tiny_translator().attention("one two", ["▁nowhere"])
