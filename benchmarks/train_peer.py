"""Hugging Face Marian on the text of a prepared run, for as many minutes as ours had.

The same pairs, vocabulary, sizes and numbers of tokens a batch, compiled, in bfloat16, with the
paper's rate and warm-up, and a fall to zero over the last part of its time: post-norm does not
learn without its high rate. Its clock starts when it has been compiled and stops while it is
judged. What it writes is a log like those of `allyouneed train`, so that curves can be compared.
"""

import argparse
import dataclasses
import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from sacrebleu import corpus_bleu
from train_throughput import Marian, peer_adam, peer_step, wider

from allyouneed.data.batches import Batches, Position
from allyouneed.data.corpus import LineFile
from allyouneed.data.prepare import TOKENIZER_FILE
from allyouneed.data.shards import PreparedData
from allyouneed.inference.batches import by_length
from allyouneed.run_file import load_run
from allyouneed.text.tokenizer import BEGIN, END, PAD, Tokenizer
from allyouneed.training.feeding import ahead
from allyouneed.training.optimizer import rate, set_rate

COOLDOWN = 0.35  # of the time
UNTIL_TIME_IS_OVER = 10**9
BATCH_TOKENS = 16_000  # source tokens that are translated at once
EXTRA_TOKENS = 50
LENGTH_PENALTY = 0.48  # grows like the paper's α = 0.6 at 20 tokens


@torch.no_grad()
def translate(model: Marian, tokenizer: Tokenizer, texts: Sequence[str], beams: int) -> list[str]:
    """By Hugging Face's own search."""
    device, marian = next(model.parameters()).device, cast(Any, model.marian)
    sources = [[*ids, END] for ids in tokenizer.encode_batch(texts)]
    translations = [""] * len(texts)
    model.eval()
    for places in by_length([len(source) for source in sources], BATCH_TOKENS):
        width = max(len(sources[place]) for place in places)
        ids = torch.tensor([sources[p] + [PAD] * (width - len(sources[p])) for p in places])
        found = marian.generate(
            input_ids=ids.to(device), attention_mask=(ids != PAD).long().to(device),
            num_beams=beams, length_penalty=LENGTH_PENALTY, max_length=width + EXTRA_TOKENS,
            bad_words_ids=[[PAD], [BEGIN]],
        )  # fmt: skip
        for place, row in zip(places, found.tolist(), strict=True):
            translations[place] = tokenizer.decode([i for i in row if i not in (PAD, BEGIN, END)])
    model.train()
    return translations


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="a run file; its data must have been prepared")
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--judge-every", type=float, default=1.0, help="minutes")
    parser.add_argument("--beam-size", type=int, default=4)
    parser.add_argument("--source", required=True, help="a test set")
    parser.add_argument("--reference", required=True)
    parser.add_argument("--output", type=Path, required=True, help="the log, a line an event")
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    options = parser.parse_args()

    run = load_run(options.run)
    prepared = Path(run.folder) / "data"
    tokenizer = Tokenizer.load(prepared / TOKENIZER_FILE)
    training = dataclasses.replace(
        run.training, batching="padded", steps=UNTIL_TIME_IS_OVER, cooldown_steps=0
    )
    stream = Batches(PreparedData.open(prepared), training).starting_at(Position())
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Marian(dataclasses.replace(run.model, vocab_size=len(tokenizer))).to(device).train()
    optimizer = peer_adam(model)
    step = peer_step(model, optimizer, training.label_smoothing, compiled=not options.eager)
    sources, references = list(LineFile(options.source)), list(LineFile(options.reference))

    next_judged, n_tokens, started = 60 * options.judge_every, 0, math.inf
    with options.output.open("w", encoding="utf-8") as log:
        for number, (batch, _) in enumerate(ahead(stream), 1):
            seconds = max(0.0, time.perf_counter() - started)
            cooled = min(1.0, (1 - seconds / (60 * options.minutes)) / COOLDOWN)
            set_rate(optimizer, max(0.0, cooled) * rate(number, run.model.d_model, training))
            loss = step(wider(batch))
            figures = {"step": number, "time": seconds}
            n_tokens += batch.n_src_tokens + batch.n_tgt_tokens
            if number == 1:  # compiled by now
                loss.item()
                started = time.perf_counter()
            if number % training.log_every == 0:
                figures |= {"loss": loss.item(), "tokens": n_tokens}
                log.write(json.dumps({"event": "step", **figures}) + "\n")
            if seconds > min(next_judged, 60 * options.minutes):
                next_judged += 60 * options.judge_every
                judging = time.perf_counter()
                texts = translate(model, tokenizer, sources, options.beam_size)
                bleu = corpus_bleu(texts, [references]).score
                log.write(json.dumps({"event": "validation", **figures, "bleu": bleu}) + "\n")
                print(f"{seconds:.0f} s, step {number}: BLEU {bleu:.2f}", flush=True)
                started += time.perf_counter() - judging
            if seconds > 60 * options.minutes:
                break


if __name__ == "__main__":
    main()
