"""Which engine is taken, what it refuses, and that every processor's path computes the same."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from native_models import CONFIG, engine_of, needs_compiler, random_model, sources
from tiny_translator import tokenizer

from allyouneed.checkpoint import WEIGHTS, Manifest, save_model
from allyouneed.errors import CheckpointError, ConfigError
from allyouneed.inference import BeamSearch, Greedy, Limits, Sampling, compilation, search
from allyouneed.inference.compilation import native_library
from allyouneed.inference.engines import gpu_engine, load_engine
from allyouneed.inference.fast_engine import FastEngine
from allyouneed.inference.fast_search import fast_search
from allyouneed.model import Transformer
from allyouneed.text.tokenizer import Tokenizer
from allyouneed.translator import Translator

MODEL = dataclasses.replace(CONFIG, vocab_size=330)
MANIFEST = Manifest(source_language="en", target_language="de", max_source_tokens=30, model=MODEL)
TEXTS = ["one man, two.", "three four five", "", "Ten! " * 20]


def saved(folder: Path, model: Transformer, dtype: torch.dtype = torch.float32) -> Path:
    manifest = dataclasses.replace(MANIFEST, model=model.config)
    pieces: Tokenizer = tokenizer()
    save_model(folder, model.state_dict(), pieces, manifest, dtype)
    return folder


@needs_compiler
@pytest.mark.parametrize(
    ("dtype", "engine", "eight_bits"),
    [
        (torch.float32, "auto", False),
        (torch.float16, "auto", False),
        (torch.bfloat16, "auto", False),
        (torch.int8, "auto", True),
        (torch.float32, "int8", True),
        (torch.int8, "float32", False),
    ],
)
def test_the_stored_bits_choose_the_engine_unless_the_user_does(
    tmp_path: Path, dtype: torch.dtype, engine: str, eight_bits: bool
) -> None:
    folder = saved(tmp_path / "model", random_model(MODEL), dtype)

    translator = Translator.load(folder, "cpu", engine=engine)

    assert isinstance(translator.engine, FastEngine)
    assert translator.engine.eight_bits == eight_bits


@needs_compiler
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
def test_all_of_a_translation_is_the_same_as_with_the_plain_model(
    tmp_path: Path, dtype: torch.dtype
) -> None:
    folder = saved(tmp_path / "model", random_model(MODEL), dtype)
    fast = Translator.load(folder, "cpu", engine="float32")
    plain = Translator.load(folder, "cpu", engine="plain")

    for strategy in (BeamSearch(3), Greedy(), Sampling(seed=1)):
        for ours, theirs in zip(
            fast.translate(TEXTS, strategy=strategy, alignments=True),
            plain.translate(TEXTS, strategy=strategy, alignments=True),
            strict=True,
        ):
            assert ours.tokens == theirs.tokens
            assert ours.alignment == theirs.alignment
            assert ours.score == pytest.approx(theirs.score, abs=1e-4)


@needs_compiler
def test_progress_counts_every_text_once(tmp_path: Path) -> None:
    folder = saved(tmp_path / "model", random_model(MODEL))
    heard: list[int] = []

    Translator.load(folder, "cpu").translate(TEXTS, progress=heard.append)

    assert sum(heard) == len(TEXTS)


@needs_compiler
def test_eight_bits_stored_are_the_eight_bits_computed_with(tmp_path: Path) -> None:
    """Quantised on the way in or before: the same numbers."""
    model = random_model(MODEL)
    stored = Translator.load(saved(tmp_path / "stored", model, torch.int8), "cpu")
    quantised = Translator.load(saved(tmp_path / "whole", model), "cpu", engine="int8")

    first, second = (
        [(it.tokens, it.score) for it in translator.translate(TEXTS)]
        for translator in (stored, quantised)
    )

    assert first == second


@needs_compiler
def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path / "model", random_model(MODEL))
    deeper = dataclasses.replace(MANIFEST, model=dataclasses.replace(MODEL, n_layers=3))
    wider = dataclasses.replace(MANIFEST, model=dataclasses.replace(MODEL, d_ff=96))

    for manifest in (deeper, wider):
        with pytest.raises(CheckpointError, match="disagree"):
            load_engine(folder, manifest, 330, "auto")
    with pytest.raises(CheckpointError, match="embed 330 pieces but the tokenizer has 331"):
        load_engine(folder, MANIFEST, 331, "auto")
    (folder / WEIGHTS).write_bytes(b"nonsense")
    with pytest.raises(CheckpointError, match="damaged"):
        load_engine(folder, MANIFEST, 330, "auto")


def test_without_a_native_engine_the_plain_model_translates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = saved(tmp_path / "model", random_model(MODEL))
    monkeypatch.setattr("allyouneed.inference.fast_engine.native_library", lambda: None)

    translator = Translator.load(folder, "cpu")

    assert translator.engine is None
    assert len(translator.translate(["one"])) == 1
    with pytest.raises(ConfigError, match=r"needs a C\+\+ compiler"):
        Translator.load(folder, "cpu", engine="int8")
    with pytest.raises(ConfigError, match="engine 'quick' is not known"):
        Translator.load(folder, "cpu", engine="quick")
    with pytest.raises(ConfigError, match="engine 'float16' is not for a CPU; use auto, float32"):
        Translator.load(folder, "cpu", engine="float16")


def test_where_there_is_no_gpu_its_engine_is_refused() -> None:
    model = random_model(MODEL)

    assert gpu_engine(model, "auto") is None
    assert gpu_engine(model, "plain") is None
    with pytest.raises(ConfigError, match="engine 'float16' cannot be used here: it needs"):
        gpu_engine(model, "float16")
    with pytest.raises(ConfigError, match="engine 'int8' is not for a GPU"):
        gpu_engine(model, "int8")


@needs_compiler
def test_widths_that_fill_no_vector_are_left_to_the_plain_model(tmp_path: Path) -> None:
    odd = dataclasses.replace(MODEL, d_k=8)

    assert Translator.load(saved(tmp_path / "model", random_model(odd)), "cpu").engine is None


@pytest.mark.parametrize("compiler", ["false", "no-such-compiler"])
def test_a_compiler_that_fails_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: str
) -> None:
    monkeypatch.setattr(compilation, "COMPILERS", (compiler,))

    assert native_library(tmp_path / "cache") is None
    assert not list((tmp_path / "cache").glob("*"))


def _runs_here(flag: str) -> bool:
    features = Path("/proc/cpuinfo")
    return "v3" not in flag or (features.exists() and " avx2 " in features.read_text())


@needs_compiler
@pytest.mark.parametrize("flag", ["-march=x86-64-v3", "-march=x86-64"])
def test_older_processors_compute_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: str
) -> None:
    flags = [it for it in compilation.FLAGS if it not in ("-O3", "-march=native")]
    monkeypatch.setattr(compilation, "FLAGS", (*flags, "-O1", flag))
    if not _runs_here(flag) or (library := native_library(tmp_path)) is None:
        pytest.skip(f"{flag} is for other processors")
    monkeypatch.setattr("allyouneed.inference.fast_engine.native_library", lambda: library)
    model, texts, limits = random_model(), sources(6), Limits(10)

    for eight_bits, tolerance in ((False, 1e-4), (True, 2.0)):
        found = fast_search(
            engine_of(model, eight_bits=eight_bits), texts, Greedy(), limits, 1, [()] * 6, 500
        )
        plain = search(model, texts, Greedy(), limits)
        for place, [best] in found:
            assert best.score == pytest.approx(plain[place][0].score, abs=tolerance)


@needs_compiler
def test_translating_needs_no_torch() -> None:
    program = (
        "import sys; from allyouneed.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print('torch' in sys.modules)"
    )
    command = [
        sys.executable,
        "-c",
        program,
        "translate",
        "--device",
        "cpu",
        "A man rides a bicycle.",
    ]

    shown = subprocess.run(command, capture_output=True, text=True, check=True)

    assert shown.stdout.splitlines() == ["Ein Mann fährt Fahrrad.", "False"]
