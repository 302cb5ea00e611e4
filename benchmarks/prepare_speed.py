"""Pairs per second and peak memory of `prepare`, over all of its processes (Linux)."""

import argparse
import tempfile
import threading
import time
from pathlib import Path

from allyouneed.config import CorpusConfig, DataConfig, ModelConfig, RunConfig
from allyouneed.data.prepare import prepare


class PeakMemory(threading.Thread):
    """Watches the memory of this process and its children."""

    def __init__(self, interval: float = 0.2) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self._interval = interval
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.wait(self._interval):
            self.peak = max(self.peak, sum(map(proportional_memory, family())))

    def stop(self) -> int:
        self._done.set()
        self.join()
        return self.peak


def family() -> list[Path]:
    """/proc folders of this process and its children."""
    me = Path("/proc/self").resolve()
    children = [child for task in me.glob("task/*/children") for child in task.read_text().split()]
    return [me, *(Path("/proc") / child for child in children)]


def proportional_memory(process: Path) -> int:
    """Bytes in memory; pages that several processes share are split among them."""
    try:
        lines = (process / "smaps_rollup").read_text().splitlines()
    except OSError:  # it has just ended
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


class Stages:
    """When each stage of `prepare` began, and how many pairs it has seen."""

    def __init__(self) -> None:
        self.begun: dict[str, float] = {}
        self.n_pairs: dict[str, int] = {}

    def __call__(self, stage: str, share: float, n_pairs: int) -> None:
        self.begun.setdefault(stage, time.perf_counter())
        self.n_pairs[stage] = n_pairs

    def report(self, end: float) -> None:
        ends = [*list(self.begun.values())[1:], end]
        for (stage, start), stop in zip(self.begun.items(), ends, strict=True):
            rate = self.n_pairs[stage] / (stop - start)
            print(f"{stage}: {stop - start:.1f} s, {rate:,.0f} pairs/s")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", help="source target source target …")
    parser.add_argument("--workers", type=int, help="processes; every core by default")
    parser.add_argument("--vocab-size", type=int, default=37_000)
    parser.add_argument("--vocab-sample", type=int, default=2_000_000)
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    pairs = zip(arguments.files[::2], arguments.files[1::2], strict=True)
    corpora = tuple(CorpusConfig(source=source, target=target) for source, target in pairs)
    run = RunConfig(
        model=ModelConfig(vocab_size=arguments.vocab_size),
        data=DataConfig(
            corpora=corpora, workers=arguments.workers, vocab_sample=arguments.vocab_sample
        ),
    )
    stages, memory = Stages(), PeakMemory()
    memory.start()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        report = prepare(run, Path(folder) / "data", progress=stages)
    end = time.perf_counter()
    stages.report(end)
    print(
        f"all: {report.n_read:,} pairs read, {report.n_kept:,} kept, {end - start:.1f} s, "
        f"{report.n_read / (end - start):,.0f} pairs/s, "
        f"at most {memory.stop() / 2**20:,.0f} MiB in all processes"
    )


if __name__ == "__main__":
    main()
