"""Load a running server from another process: many clients, mixed lengths, every answer checked.

Ours with and without batching, and a plain HTTP server around CTranslate2 with the same weights
and beam, as a user would write it. All speak LibreTranslate's /translate.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import torch

from allyouneed.checkpoint import load_model
from allyouneed.device import pick_device
from allyouneed.interop.ctranslate2 import CTranslate2
from allyouneed.interop.formats import export
from allyouneed.models import find_model
from allyouneed.text.sentences import Document
from allyouneed.text.tokenizer import Tokenizer
from allyouneed.translator import Translator

SUBJECTS = ["A man", "Two women", "A young boy", "Three dogs", "An old lady", "The children"]
LOOKS = ["", " in a red shirt", " with a hat", " wearing a blue jacket and jeans", " in the snow"]
VERBS = ["is running", "are standing", "is sitting on a bench", "are playing with a ball", "sleeps"]
PLACES = [
    "",
    " in the park",
    " on a busy street",
    " in front of a large brown building",
    " outside",
]
SENTENCES_AND_SHARES = {1: 0.6, 3: 0.3, 20: 0.1}  # of a request's lengths


def make_texts(number: int) -> list[str]:
    """Different texts, most of them short, some long."""
    rng = random.Random(1)

    def sentence(mark: int) -> str:
        return "".join(map(rng.choice, [SUBJECTS, LOOKS, [" "], VERBS, PLACES])) + f" near {mark}."

    lengths = rng.choices(*zip(*SENTENCES_AND_SHARES.items(), strict=True), k=number)
    return [" ".join(sentence(n) for _ in range(length)) for n, length in enumerate(lengths)]


class CTranslate2Texts:
    """Texts through CTranslate2: sentences are split as ours are, a text is a batch."""

    def __init__(self, folder: Path, beam_size: int, alpha: float, n_threads: int) -> None:
        import ctranslate2

        self._translator = ctranslate2.Translator(str(folder), intra_threads=n_threads)
        self._tokenizer = Tokenizer.load(folder / "tokenizer.model")
        # Its length penalty that comes nearest to ours: docs/exporting.md.
        self._options = {"beam_size": beam_size, "length_penalty": 0.8 * alpha}

    def translate(self, text: str) -> str:
        document = Document.parse(text, "en")
        tokens = [
            self._tokenizer.pieces(ids) for ids in map(self._tokenizer.encode, document.sentences)
        ]
        results = self._translator.translate_batch(tokens, **self._options)
        pieces = [self._tokenizer.ids(result.hypotheses[0]) for result in results]
        return document.rebuild([self._tokenizer.decode(ids) for ids in pieces])


def serve_plainly(translate: Callable[[str], str], port: int) -> None:
    """The HTTP server of Python's own library around a function."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one packet an answer

        def do_GET(self) -> None:
            self._answer({"status": "ready"})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._answer({"translatedText": translate(body["q"])})

        def _answer(self, answer: object) -> None:
            content = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 128  # its 5 are too few for many clients at once

    Server(("127.0.0.1", port), Handler).serve_forever()


@dataclass(frozen=True)
class System:
    """A server, and what it should answer."""

    name: str
    command: list[str]  # and then the port
    expected: list[str]


@dataclass
class Load:
    """What clients saw."""

    name: str
    n_clients: int
    seconds: float = 0.0
    sentences_per_second: float = 0.0
    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    p95_of_single_sentences: float = 0.0
    answers: int = 0
    lost: int = 0
    different: int = 0  # from what the same model says of the text alone: rounding, in a batch
    swapped: int = 0  # what belongs to another request
    hung_up: int = 0
    latencies: list[tuple[int, float]] = field(default_factory=list, repr=False)

    def summarise(self, seconds: float) -> None:
        times = [latency for _, latency in self.latencies]
        self.seconds, self.answers = seconds, len(times)
        self.sentences_per_second = sum(length for length, _ in self.latencies) / seconds
        cuts = statistics.quantiles(times, n=100, method="inclusive")
        self.p50, self.p95, self.p99 = cuts[49], cuts[94], cuts[98]
        single = [latency for length, latency in self.latencies if length == 1]
        self.p95_of_single_sentences = statistics.quantiles(single, n=20, method="inclusive")[18]


async def load(
    system: System, url: str, texts: Sequence[str], n_clients: int, n_leaving: int = 0
) -> Load:
    """Clients that each ask as soon as they are answered; of others nobody reads the answer."""
    found = Load(system.name, n_clients)
    remaining = iter(range(len(texts)))
    all_expected = set(system.expected)
    done = asyncio.Event()

    async def ask(client: httpx.AsyncClient, text: str) -> str:
        answer = await client.post("/translate", json={"q": text, "source": "en", "target": "de"})
        return str(answer.raise_for_status().json()["translatedText"])

    async def stay() -> None:
        async with httpx.AsyncClient(base_url=url, timeout=300) as client:
            for place in remaining:
                begin = time.perf_counter()
                try:
                    answer = await ask(client, texts[place])
                except httpx.HTTPError as error:
                    print(f"{system.name}: {error!r}", file=sys.stderr)
                    found.lost += 1
                    continue
                found.latencies.append((texts[place].count("."), time.perf_counter() - begin))
                if answer != system.expected[place]:
                    found.swapped += answer in all_expected
                    found.different += answer not in all_expected

    async def leave(seed: int) -> None:
        rng = random.Random(seed)
        while not done.is_set():
            async with httpx.AsyncClient(base_url=url) as client:
                with contextlib.suppress(TimeoutError, httpx.TransportError):
                    async with asyncio.timeout(rng.uniform(0.01, 0.2)):
                        await ask(client, rng.choice(texts))
                        continue
            found.hung_up += 1

    begin = time.perf_counter()
    leaving = [asyncio.create_task(leave(seed)) for seed in range(n_leaving)]
    await asyncio.gather(*(stay() for _ in range(n_clients - n_leaving)))
    found.summarise(time.perf_counter() - begin)
    if n_leaving:
        found.name += f", half of the clients hang up ({found.hung_up} times)"
    done.set()
    await asyncio.gather(*leaving)
    return found


@contextlib.contextmanager
def running(command: Sequence[str]) -> Iterator[str]:
    """A server in a process of its own, once it is ready; its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    process = subprocess.Popen(
        [*command, port], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}"
    try:
        while True:
            if process.poll() is not None:
                raise RuntimeError(f"the server ended: {' '.join(command)}")
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{url}/ready").is_success:
                    break
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait()


def our_systems(folder: Path, texts: Sequence[str], n_threads: int) -> Iterator[System]:
    torch.set_num_threads(n_threads)
    translator = Translator.load(folder, "cpu")
    expected = [translator.translate_document(text) for text in texts]
    command = [sys.executable, "-m", "allyouneed", "serve", "--device", "cpu"]
    command += ["--model", str(folder), "--threads", str(n_threads)]
    yield System("allyouneed", [*command, "--port"], expected)
    alone = ["--batch-sentences", "1", "--batch-wait", "0"]
    yield System("allyouneed, a sentence at a time", [*command, *alone, "--port"], expected)


def their_systems(
    model: Path, folder: Path, texts: Sequence[str], n_threads: int, quantizations: Sequence[str]
) -> Iterator[System]:
    loaded = load_model(model, pick_device("cpu"))
    decoding = loaded.manifest.decoding
    for quantization in quantizations:
        exported = folder / quantization
        export(loaded, CTranslate2(quantization), exported)
        options = (str(exported), decoding.beam_size, decoding.length_penalty, n_threads)
        peer = CTranslate2Texts(exported, *options[1:])
        expected = [peer.translate(text) for text in texts]
        command = [sys.executable, __file__, "--be-peer", json.dumps(options), "--port"]
        yield System(f"CTranslate2 {quantization}, plain server", command, expected)


def print_table(loads: Sequence[Load]) -> None:
    first = loads[0].sentences_per_second
    columns = ["sentences/s", "ratio", "p50", "p95", "p99", "p95 of one sentence"]
    print(" | ".join(["| ", *columns, "different", "swapped", "lost |"]))
    print("|---" * (len(columns) + 4) + "|")
    for it in loads:
        times = (it.p50, it.p95, it.p99, it.p95_of_single_sentences)
        shown = " | ".join(f"{seconds:.2f} s" for seconds in times)
        ratio = it.sentences_per_second / first
        print(
            f"| {it.name} | {it.sentences_per_second:.0f} | {ratio:.2f} | {shown} "
            f"| {it.different} of {it.answers} | {it.swapped} | {it.lost} |"
        )


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", help="a folder or a shipped model's name")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--peers", nargs="*", default=["float32", "int8"], help="of CTranslate2")
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    parser.add_argument("--be-peer", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    if arguments.be_peer:
        folder, *options = json.loads(arguments.be_peer)
        serve_plainly(CTranslate2Texts(Path(folder), *options).translate, arguments.port)
    texts = make_texts(arguments.requests)
    model = find_model(arguments.model)
    loads = []
    with tempfile.TemporaryDirectory() as folder:
        ours = list(our_systems(model, texts, arguments.threads))
        theirs = list(their_systems(model, Path(folder), texts, arguments.threads, arguments.peers))
        for system in (*ours, *theirs):
            with running(system.command) as url:
                asyncio.run(load(system, url, texts[:8], 4))  # to be warm
                loads.append(asyncio.run(load(system, url, texts, arguments.clients)))
                if system is ours[0]:
                    half = load(system, url, texts, arguments.clients, arguments.clients // 2)
                    loads.append(asyncio.run(half))
    print_table(loads)
    if arguments.json:
        figures = [asdict(it) for it in loads]
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    if any(it.swapped or it.lost for it in loads):
        raise SystemExit("answers were lost or swapped")


if __name__ == "__main__":
    main()
