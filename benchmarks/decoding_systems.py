"""The systems that `decode_speed` compares, each in a process of its own.

Nothing here loads torch for a system that does without, so that memory is what a user would see.
"""

import gc
import importlib
import itertools
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from allyouneed.manifest import load_manifest
from allyouneed.text.tokenizer import BEGIN, END, PAD

if TYPE_CHECKING:
    from allyouneed.inference.fast_engine import FastEngine
    from allyouneed.inference.gpu.engine import GpuEngine

Ids = list[int]
ON_CPU = ("int8", "float32", "plain", "ctranslate2-int8", "ctranslate2-float32", "huggingface")
WITH_SHORTLIST = ("int8-shortlist", "float32-shortlist")  # on a CPU, of models that have one
ON_GPU = ("gpu-float16", "gpu-bfloat16", "gpu-plain", "gpu-huggingface")


@dataclass(frozen=True)
class Job:
    """Sentences to translate without a length penalty; `n_tokens` forces a length."""

    sources: list[Ids]
    beam_size: int
    batch_size: int
    n_tokens: int | None

    @property
    def longest(self) -> int:
        return self.n_tokens or max(map(len, self.sources)) + 50

    def batches(self) -> Iterator[list[int]]:
        """Places of sentences of like lengths."""
        order = sorted(range(len(self.sources)), key=lambda place: -len(self.sources[place]))
        for start in range(0, len(order), self.batch_size):
            yield order[start : start + self.batch_size]


@dataclass(frozen=True)
class Result:
    seconds: float
    outputs: list[Ids]
    peak_bytes: int  # of the process so far


class System(Protocol):
    def translate(self, job: Job) -> list[Ids]: ...


class Ours:
    """`fast_search`, with as many slots as the others have sentences in a batch."""

    def __init__(
        self, folder: Path, engine: str, threads: int, *, on_gpu: bool, shortlist: bool
    ) -> None:
        from allyouneed.inference.engines import gpu_engine, load_engine, wanted_shortlist

        self._engine: FastEngine | GpuEngine | None
        if on_gpu:
            from allyouneed.checkpoint import load_model

            self._engine = gpu_engine(load_model(folder, "cuda").model, engine)
        else:
            manifest = load_manifest(folder)
            n_pieces = manifest.model.vocab_size
            pieces = wanted_shortlist(folder, manifest, shortlist)
            self._engine = load_engine(folder, manifest, n_pieces, engine, threads, pieces)

    def translate(self, job: Job) -> list[Ids]:
        from allyouneed.inference.beams import Beam, Task
        from allyouneed.inference.fast_search import refilling

        assert self._engine is not None
        beam = Beam(job.beam_size, 0.0, min_length=job.n_tokens - 1 if job.n_tokens else 0)
        order = list(itertools.chain.from_iterable(job.batches()))
        sources = [job.sources[place] for place in order]
        tasks = [Task(source, (), job.n_tokens or len(source) + 50) for source in sources]
        outputs: list[Ids] = [[]] * len(order)
        for number, [best] in refilling(self._engine.beams, tasks, beam, job.batch_size):
            outputs[order[number]] = list(best.ids)
        return outputs


class Plain:
    """The model in PyTorch."""

    def __init__(self, folder: Path, threads: int, device: str) -> None:
        import torch

        from allyouneed.checkpoint import load_model

        torch.set_num_threads(threads)
        self._model = load_model(folder, device).model

    def translate(self, job: Job) -> list[Ids]:
        from allyouneed.inference import BeamSearch, Limits, search

        limits = Limits(50, job.n_tokens, job.n_tokens - 1 if job.n_tokens else 0)
        outputs: list[Ids] = [[]] * len(job.sources)
        for places in job.batches():
            sources = [job.sources[place] for place in places]
            found = search(self._model, sources, BeamSearch(job.beam_size, 0.0), limits)
            for place, [best] in zip(places, found, strict=True):
                outputs[place] = list(best.ids)
        return outputs


class CTranslate2:
    def __init__(self, folder: Path, threads: int) -> None:
        import ctranslate2

        self._translator = ctranslate2.Translator(str(folder), device="cpu", intra_threads=threads)
        vocabulary = (folder / "shared_vocabulary.json").read_text(encoding="utf-8")
        self._pieces: list[str] = json.loads(vocabulary)
        self._ids = {piece: id_ for id_, piece in enumerate(self._pieces)}

    def translate(self, job: Job) -> list[Ids]:
        results = self._translator.translate_batch(
            [[self._pieces[id_] for id_ in source] for source in job.sources],
            beam_size=job.beam_size,
            max_batch_size=job.batch_size,
            length_penalty=0,
            min_decoding_length=job.n_tokens or 0,
            max_decoding_length=job.longest,
            max_input_length=0,
        )
        return [[self._ids[piece] for piece in result.hypotheses[0]] for result in results]


class HuggingFace:
    """In float32 on a CPU, in float16 on a GPU."""

    def __init__(self, folder: Path, threads: int, device: str) -> None:
        import torch

        transformers: Any = importlib.import_module("transformers")
        torch.set_num_threads(threads)
        transformers.utils.logging.set_verbosity_error()
        self._model = transformers.MarianMTModel.from_pretrained(folder, local_files_only=True)
        self._model.to(device, torch.float16 if device == "cuda" else torch.float32)
        self._model.generation_config.max_length = None  # which `max_new_tokens` replaces

    def translate(self, job: Job) -> list[Ids]:
        from allyouneed.rows import one_sentence_a_row

        outputs: list[Ids] = [[]] * len(job.sources)
        for places in job.batches():
            rows = one_sentence_a_row([[*job.sources[place], END] for place in places], PAD)
            rows = rows.to(self._model.device)
            found = self._model.generate(
                input_ids=rows.ids,
                attention_mask=(rows.sentence == 0).long(),
                num_beams=job.beam_size,
                length_penalty=0.0 if job.beam_size > 1 else 1.0,
                min_new_tokens=job.n_tokens,
                max_new_tokens=job.longest,
            )
            for place, row in zip(places, found.tolist(), strict=True):
                outputs[place] = [id_ for id_ in row if id_ not in (PAD, BEGIN, END)]
        return outputs


def load(name: str, folders: dict[str, Path], threads: int) -> System:
    kind = name.removeprefix("gpu-")
    device = "cpu" if kind == name else "cuda"
    if kind == "plain":
        return Plain(folders["float32"], threads, device)
    if kind == "huggingface":
        return HuggingFace(folders[kind], threads, device)
    if kind.startswith("ctranslate2"):
        return CTranslate2(folders[kind], threads)
    engine = kind.removesuffix("-shortlist")
    folder = folders["int8" if engine == "int8" else "float32"]
    return Ours(folder, engine, threads, on_gpu=device == "cuda", shortlist=engine != kind)


def serve(name: str, folders: dict[str, Path], threads: int, pipe: Connection) -> None:
    """Do the jobs that come through the pipe, until none comes."""
    start = time.perf_counter()
    system = load(name, folders, threads)
    pipe.send(time.perf_counter() - start)
    while (job := pipe.recv()) is not None:
        gc.collect()
        start = time.perf_counter()
        outputs = system.translate(job)
        seconds = time.perf_counter() - start
        pipe.send(Result(seconds, outputs, peak_bytes()))


def peak_bytes() -> int:
    """The most memory that this process has had (Linux)."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def bytes_of_importing_torch(pipe: Connection) -> None:
    """What `import torch` adds to the memory of a process."""
    before = peak_bytes()
    importlib.import_module("torch")
    pipe.send(peak_bytes() - before)
