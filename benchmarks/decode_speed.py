"""Ours, CTranslate2 and Hugging Face: same weights, same beam, same limits of length.

All are loaded, each in its own process, and take turns, so that a busy machine is unfair to none;
figures are medians over the rounds, before which those on a GPU have one that does not count, as
they compile and record. Without --model, a model with random weights is made up. --tokens makes
every translation that long, as it must be with random weights.
"""

import argparse
import json
import multiprocessing
import random
import statistics
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from decoding_systems import (
    ON_CPU,
    ON_GPU,
    WITH_SHORTLIST,
    Ids,
    Job,
    Result,
    bytes_of_importing_torch,
    serve,
)

MEBIBYTE = 2**20


@dataclass
class Measured:
    """What one system did in one setting."""

    seconds: list[float] = field(default_factory=list)  # a round
    latencies: list[float] = field(default_factory=list)  # a sentence, in batches of one
    outputs: list[Ids] = field(default_factory=list)

    @property
    def tokens_a_second(self) -> float:
        return sum(len(output) + 1 for output in self.outputs) / statistics.median(self.seconds)

    def latency(self, share: float) -> float | None:
        if not self.latencies:
            return None
        return sorted(self.latencies)[round(share * (len(self.latencies) - 1))]


class Process:
    """A system in a process of its own."""

    def __init__(self, name: str, folders: dict[str, Path], threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        arguments = (name, folders, threads, other)
        self._process = context.Process(target=serve, args=arguments, daemon=True)
        self._process.start()
        self.load_seconds: float = self._pipe.recv()
        self.peak_bytes = 0

    def do(self, job: Job) -> Result:
        self._pipe.send(job)
        result: Result = self._pipe.recv()
        self.peak_bytes = result.peak_bytes
        return result

    def stop(self) -> None:
        self._pipe.send(None)
        self._process.join()


def measure(process: Process, job: Job, measured: Measured) -> None:
    """One round; sentences one by one where the batch holds one."""
    if job.batch_size > 1:
        result = process.do(job)
        measured.seconds.append(result.seconds)
        measured.outputs = result.outputs
        return
    results = [process.do(Job([source], job.beam_size, 1, job.n_tokens)) for source in job.sources]
    measured.latencies += [result.seconds for result in results]
    measured.seconds.append(sum(result.seconds for result in results))
    measured.outputs = [result.outputs[0] for result in results]


def in_turns(processes: dict[str, Process], job: Job, n_rounds: int) -> dict[str, Measured]:
    for name in processes.keys() & set(ON_GPU):
        measure(processes[name], job, Measured())
    measured = {name: Measured() for name in processes}
    for _ in range(n_rounds):
        for name, process in processes.items():
            measure(process, job, measured[name])
    return measured


def made_up_model(folder: Path, preset: str, vocab_size: int) -> None:
    """Random weights, and a vocabulary of random words."""
    from allyouneed.checkpoint import Manifest, save_model
    from allyouneed.config import PRESETS, ModelConfig
    from allyouneed.model import Transformer
    from allyouneed.text.tokenizer import Tokenizer

    rng = random.Random(0)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(rng.choices(letters, k=rng.randint(3, 9))) for _ in range(3 * vocab_size)]
    tokenizer = Tokenizer.learn(words, vocab_size)
    config = ModelConfig(**{**vars(PRESETS[preset]), "vocab_size": vocab_size})
    manifest = Manifest(
        source_language="en", target_language="de", max_source_tokens=256, model=config
    )
    save_model(folder, Transformer(config).state_dict(), tokenizer, manifest)


def made_up_sources(n_sentences: int, vocab_size: int) -> list[Ids]:
    """As long as sentences of newspapers are in pieces: 28 on average."""
    rng = random.Random(0)
    lengths = [min(100, 3 + round(rng.gammavariate(2.5, 10))) for _ in range(n_sentences)]
    return [[rng.randrange(4, vocab_size) for _ in range(length)] for length in lengths]


def exported(folder: Path, into: Path, systems: list[str]) -> dict[str, Path]:
    """The folder that each kind of system loads."""
    import torch

    from allyouneed.checkpoint import load_model, save_model
    from allyouneed.interop import CTranslate2, Format, HuggingFace, export
    from allyouneed.manifest import load_shortlist

    forms: dict[str, Format] = {
        "ctranslate2-int8": CTranslate2("int8"),
        "ctranslate2-float32": CTranslate2("float32"),
        "huggingface": HuggingFace(),
    }
    loaded = load_model(folder)
    wanted = [name for name in forms if {name, f"gpu-{name}"} & set(systems)]
    for name in wanted:
        export(loaded, forms[name], into / name)
    weights, shortlist = loaded.model.state_dict(), load_shortlist(folder, loaded.manifest)
    save_model(into / "int8", weights, loaded.tokenizer, loaded.manifest, torch.int8, shortlist)
    return {"float32": folder} | {name: into / name for name in ["int8", *wanted]}


def torch_bytes() -> int:
    context = multiprocessing.get_context("spawn")
    pipe, other = context.Pipe()
    process = context.Process(target=bytes_of_importing_torch, args=(other,))
    process.start()
    size: int = pipe.recv()
    process.join()
    return size


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, help="a model folder; by default one is made up")
    parser.add_argument("--text", type=Path, help="what to translate, with --model")
    parser.add_argument("--reference", type=Path, help="for BLEU and chrF")
    parser.add_argument("--preset", default="base", help="of the model that is made up")
    parser.add_argument("--vocab-size", type=int, default=37_000)
    parser.add_argument("--tokens", type=int, help="of every translation; made up: 28")
    parser.add_argument("--sentences", type=int, default=64, help="in batches")
    parser.add_argument("--single-sentences", type=int, help="one by one; by default a quarter")
    parser.add_argument("--beam-sizes", type=int, nargs="+", default=[4, 1])
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[32, 1])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=multiprocessing.cpu_count())
    parser.add_argument(
        "--systems", nargs="+", choices=ON_CPU + WITH_SHORTLIST + ON_GPU, default=list(ON_CPU),
        metavar="SYSTEM", help=f"on a CPU, all by default: {', '.join(ON_CPU)}; of a --model with "
        f"a shortlist: {', '.join(WITH_SHORTLIST)}; on a GPU: {', '.join(ON_GPU)}",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, help="write the figures here")
    arguments = parser.parse_args()
    if (arguments.model is None) != (arguments.text is None):
        parser.error("--model and --text go together")
    if arguments.model is None and set(arguments.systems) & set(WITH_SHORTLIST):
        parser.error("a model that is made up has no shortlist; give a --model that has one")
    return arguments


def scores(folder: Path, outputs: list[Ids], reference: Path, n_lines: int) -> dict[str, float]:
    import sacrebleu

    from allyouneed.manifest import TOKENIZER
    from allyouneed.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(folder / TOKENIZER)
    texts = [tokenizer.decode(ids) for ids in outputs]
    references = reference.read_text(encoding="utf-8").splitlines()[:n_lines]
    return {
        "bleu": sacrebleu.corpus_bleu(texts, [references]).score,
        "chrf": sacrebleu.corpus_chrf(texts, [references]).score,
    }


def main() -> None:
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory() as temporary:
        run(arguments, Path(temporary))


def run(arguments: argparse.Namespace, temporary: Path) -> None:
    folder, n_tokens = arguments.model, arguments.tokens
    if folder is None:
        folder, n_tokens = temporary / "model", n_tokens or 28
        made_up_model(folder, arguments.preset, arguments.vocab_size)
        sources = made_up_sources(arguments.sentences, arguments.vocab_size)
    else:
        from allyouneed.manifest import TOKENIZER
        from allyouneed.text.tokenizer import Tokenizer

        lines = arguments.text.read_text(encoding="utf-8").splitlines()[: arguments.sentences]
        sources = Tokenizer.load(folder / TOKENIZER).encode_batch(lines)
    folders = exported(folder, temporary, arguments.systems)
    processes = {name: Process(name, folders, arguments.threads) for name in arguments.systems}
    report: list[dict[str, object]] = []
    for beam_size in arguments.beam_sizes:
        for batch_size in arguments.batch_sizes:
            n_single = arguments.single_sentences or max(1, len(sources) // 4)
            some = sources if batch_size > 1 else sources[:n_single]
            job = Job(some, beam_size, batch_size, n_tokens)
            measured = in_turns(processes, job, arguments.rounds)
            for name, it in measured.items():
                row: dict[str, object] = {
                    "system": name,
                    "beam": beam_size,
                    "batch": batch_size,
                    "tokens_a_second": it.tokens_a_second,
                    "latency_p50": it.latency(0.5),
                    "latency_p95": it.latency(0.95),
                    "load_seconds": processes[name].load_seconds,
                    "peak_mebibytes": processes[name].peak_bytes / MEBIBYTE,
                }
                for peer, theirs in measured.items():
                    if (
                        peer.removeprefix("gpu-").startswith(("ctranslate2", "huggingface"))
                        and peer != name
                    ):
                        row[f"times_{peer}"] = it.tokens_a_second / theirs.tokens_a_second
                if arguments.reference and batch_size > 1:
                    row |= scores(folder, it.outputs, arguments.reference, len(sources))
                report.append(row)
                print(line(row), flush=True)
    for process in processes.values():
        process.stop()
    figures = {"import_torch_mebibytes": torch_bytes() / MEBIBYTE, "rows": report}
    print(f"import torch: {figures['import_torch_mebibytes']:.0f} MiB")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def line(row: dict[str, object]) -> str:
    shown = [f"{name} {value:.3g}" for name, value in row.items() if isinstance(value, float)]
    return f"beam {row['beam']} batch {row['batch']} {row['system']}: {', '.join(shown)}"


if __name__ == "__main__":
    main()
