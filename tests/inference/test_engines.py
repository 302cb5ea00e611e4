"""Which engine is taken, and what it refuses."""

import dataclasses
import logging
import math
import os
import resource
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch
from native_models import CONFIG, engine_of, needs_compiler, random_model, sources
from tiny_translator import tokenizer

from allyouneed.checkpoint import WEIGHTS, Manifest, save_model
from allyouneed.errors import CheckpointError, ConfigError
from allyouneed.inference import BeamSearch, Greedy, Limits, Sampling, fast_engine
from allyouneed.inference.compilation import NoLibrary
from allyouneed.inference.engines import gpu_engine, load_engine, native_engine
from allyouneed.inference.fast_engine import FastEngine
from allyouneed.inference.fast_search import fast_search
from allyouneed.model import Transformer
from allyouneed.text.tokenizer import Tokenizer
from allyouneed.translator import Translator
from allyouneed.weights import Weights, in_eight_bits

MODEL = dataclasses.replace(CONFIG, vocab_size=330)
MANIFEST = Manifest(source_language="en", target_language="de", max_source_tokens=30, model=MODEL)
TEXTS = ["one man, two.", "three four five", "", "Ten! " * 20]


def saved(folder: Path, model: Transformer, dtype: torch.dtype = torch.float32) -> Path:
    manifest = dataclasses.replace(MANIFEST, model=model.config)
    pieces: Tokenizer = tokenizer()
    save_model(folder, model.state_dict(), pieces, manifest, dtype)
    return folder


@needs_compiler
def test_a_model_in_memory_is_searched_with_its_present_weights() -> None:
    model = random_model(MODEL)
    plain = Translator(model, tokenizer(), MANIFEST)

    for _ in range(2):
        engine = native_engine(model)
        assert engine is not None
        native = Translator(model, tokenizer(), MANIFEST, engine=engine)
        found, expected = ([it.tokens for it in each.translate(TEXTS)] for each in (native, plain))
        assert found == expected
        with torch.no_grad():  # as a training step does
            model.embedding.weight.add_(torch.randn_like(model.embedding.weight))


def test_a_model_whose_widths_do_not_suit_has_no_native_engine() -> None:
    assert native_engine(random_model(dataclasses.replace(MODEL, d_model=24))) is None


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
def test_the_engine_is_free_after_a_progress_that_raises(tmp_path: Path) -> None:
    translator = Translator.load(saved(tmp_path / "model", random_model(MODEL)), "cpu")
    assert translator.engine is not None

    def stop(n_texts: int) -> None:
        if n_texts:
            raise InterruptedError

    with pytest.raises(InterruptedError) as raised:
        translator.translate(["one", "two"], progress=stop)

    assert raised.tb  # which keeps all that was underway alive
    assert not translator.engine.lock.locked()


@needs_compiler
def test_eight_bits_stored_are_the_eight_bits_computed_with(tmp_path: Path) -> None:
    """Quantised on the way in or before: the same numbers."""
    model = random_model(MODEL)
    with torch.no_grad():  # what is no matrix is stored in half precision
        for parameter in model.parameters():
            if parameter.ndim < 2:
                parameter.copy_(parameter.half())
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


@needs_compiler
@pytest.mark.parametrize(
    "name",
    [
        "embedding.weight.scale",
        "positions.weight",
        "encoder.layers.1.self_attention.w_k.weight",
        "encoder.layers.1.feed_forward.w_1.bias",
        "decoder.layers.2.memory_attention_norm.norm.weight",
    ],
)
def test_arrays_of_other_shapes_are_refused(name: str) -> None:
    config = dataclasses.replace(MODEL, positions="learned", max_positions=30)
    arrays = {name: tensor.numpy() for name, tensor in random_model(config).state_dict().items()}
    arrays[name] = np.ones((2, 2), dtype=np.float32)

    for eight_bits in (False, True):
        with pytest.raises(CheckpointError, match=f"disagree: {name} should have the shape"):
            FastEngine(config, Weights(arrays), eight_bits=eight_bits, threads=1)


@needs_compiler
def test_scales_may_be_in_any_precision() -> None:
    arrays = {name: tensor.numpy() for name, tensor in random_model().state_dict().items()}
    rows, scale = in_eight_bits(arrays["embedding.weight"])
    found = []
    for dtype in (np.float16, np.float32, np.float64):
        stored = {"embedding.weight": rows, "embedding.weight.scale": scale.astype(dtype)}
        engine = FastEngine(CONFIG, Weights(arrays | stored), eight_bits=False, threads=1)
        found.append(dict(fast_search(engine, sources(2), Greedy(), Limits(5), 1, [()] * 2, 500)))

    assert found[0] == found[1] == found[2]


def test_without_a_native_engine_the_plain_model_translates_and_the_log_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = saved(tmp_path / "model", random_model(MODEL))
    nothing = NoLibrary("there is no C++ compiler")
    monkeypatch.setattr("allyouneed.inference.fast_engine.native_library", lambda: nothing)

    translator = Translator.load(folder, "cpu")

    assert translator.engine is None
    [said] = caplog.records
    assert said.levelno == logging.WARNING
    assert f"{folder}: the native engine cannot be used" in said.message
    assert nothing.why in said.message
    assert len(translator.translate(["one"])) == 1
    with pytest.raises(ConfigError, match=r"there is no C\+\+ compiler; use plain instead of int8"):
        Translator.load(folder, "cpu", engine="int8")
    with pytest.raises(ConfigError, match="engine 'quick' is not known"):
        Translator.load(folder, "cpu", engine="quick")
    with pytest.raises(ConfigError, match="engine 'float16' is not for a CPU; use auto, float32"):
        Translator.load(folder, "cpu", engine="float16")


@needs_compiler
def test_beams_that_are_too_wide_for_an_engine_are_left_to_the_plain_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = Translator.load(saved(tmp_path / "model", random_model(MODEL)), "cpu")
    found = [translator.translate(["one"], strategy=BeamSearch(3))[0].tokens]
    monkeypatch.setattr(FastEngine, "widest_beam", 2)
    monkeypatch.setattr(FastEngine, "step", lambda *arguments: pytest.fail("it was asked to"))

    found += [translator.translate(["one"], strategy=BeamSearch(3))[0].tokens]

    assert found[0] == found[1]


def test_where_there_is_no_gpu_its_engine_is_refused() -> None:
    model = random_model(MODEL)

    assert gpu_engine(model, "auto") is None
    assert gpu_engine(model, "plain") is None
    with pytest.raises(ConfigError, match="engine for GPUs cannot be used here: it is for NVIDIA"):
        gpu_engine(model, "float16")
    with pytest.raises(ConfigError, match="engine 'int8' is not for a GPU"):
        gpu_engine(model, "int8")


def test_where_no_kernel_runs_the_plain_model_translates_and_the_log_says_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    trial = pytest.importorskip("allyouneed.inference.gpu.trial", reason="it needs Triton")
    model = random_model(dataclasses.replace(MODEL, d_k=16, d_v=16))
    monkeypatch.setattr(Transformer, "device", torch.device("cuda"))

    def fails(*_: object) -> None:
        raise RuntimeError("Failed to find C compiler.\nPlease specify one.")

    monkeypatch.setattr(trial, "try_a_kernel", fails)

    assert gpu_engine(model, "auto") is None
    assert "Triton cannot run on cuda and says: Failed to find C compiler." in caplog.text
    assert "Please" not in caplog.text
    with pytest.raises(ConfigError, match=r"C compiler\.; use plain instead of float16"):
        gpu_engine(model, "float16")


@pytest.mark.parametrize(
    ("dtype", "advice"),
    [("float16", "too large for float16; use --engine bfloat16 or float32"),
     ("float32", "weights are broken")],
)  # fmt: skip
def test_what_overflows_is_told_from_what_is_broken(
    device: torch.device, dtype: str, advice: str
) -> None:
    gpu = pytest.importorskip("allyouneed.inference.gpu.engine", reason="it needs Triton")
    model = random_model(dataclasses.replace(MODEL, n_layers=1, n_decoder_layers=1, d_v=16))
    weight = model.get_parameter("encoder.layers.0.feed_forward.w_1.weight")
    weight.data *= 1e6 if dtype == "float16" else math.nan
    engine = gpu.GpuEngine(model.to(device), getattr(torch, dtype))

    with pytest.raises(CheckpointError, match=advice):
        Translator(model, tokenizer(), MANIFEST, engine=engine).translate(["one"])


@needs_compiler
def test_widths_that_fill_no_vector_are_left_to_the_plain_model(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    odd = dataclasses.replace(MODEL, d_k=8)

    assert Translator.load(saved(tmp_path / "model", random_model(odd)), "cpu").engine is None
    assert "(32, 80, 8, 48) are not all multiples of 16" in caplog.text


@needs_compiler
@pytest.mark.parametrize("options", [(), ("--alignments",)], ids=["text", "alignments"])
def test_translating_needs_no_torch(options: tuple[str, ...]) -> None:
    program = (
        "import sys; from allyouneed.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print('torch' in sys.modules)"
    )
    command = [sys.executable, "-c", program, "translate", "--device", "cpu", *options]

    shown = subprocess.run(
        [*command, "A man rides a bicycle."], capture_output=True, text=True, check=True
    )

    translation, has_torch = shown.stdout.splitlines()
    assert translation.startswith("Ein Mann fährt")
    assert has_torch == "False"


def _stacks_too_large_for_many() -> None:
    for limit, n_gigabytes in ((resource.RLIMIT_STACK, 16), (resource.RLIMIT_AS, 60)):
        resource.setrlimit(limit, (n_gigabytes << 30,) * 2)


@needs_compiler
@pytest.mark.skipif(sys.platform != "linux", reason="stacks are limited as on Linux")
def test_fewer_threads_than_asked_for_do_the_work() -> None:
    command = ("-m", "allyouneed", "translate", "--device", "cpu", "--threads", "8")

    shown = subprocess.run(
        [sys.executable, *command, "A man rides a bicycle."],
        check=False,
        capture_output=True,
        text=True,
        preexec_fn=_stacks_too_large_for_many,
    )

    assert shown.returncode == 0, shown.stderr
    assert shown.stdout == "Ein Mann fährt mit dem Fahrrad.\n"


@needs_compiler
def test_a_thread_that_still_translates_does_not_disturb_the_exit() -> None:
    program = """
import threading
from allyouneed.translator import Translator

translator, began = Translator.load(device="cpu", threads=2), threading.Event()
texts = ["A man in a blue shirt is standing on a ladder."] * 500
threading.Thread(
    target=translator.translate, args=(texts,), kwargs={"progress": lambda n: n and began.set()},
    daemon=True,
).start()
began.wait()
"""
    shown = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )

    assert (shown.returncode, shown.stderr) == (0, "")


@needs_compiler
def test_an_engine_that_nobody_has_any_more_is_freed_at_once() -> None:
    engine = engine_of(random_model())
    list(fast_search(engine, sources(2), Greedy(), Limits(5), 1, [()] * 2, 500))
    assert engine.beams is engine.beams
    left = weakref.ref(engine)

    del engine

    assert left() is None  # although nobody has looked for cycles


@pytest.mark.parametrize(("quota", "n_cores"), [("max", 8), ("250000", 2), ("50000", 1)])
def test_a_containers_quota_bounds_the_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, n_cores: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    (tmp_path / "cpu.max").write_text(f"{quota} 100000\n")

    assert fast_engine._n_cores(tmp_path / "cpu.max") == n_cores
    assert fast_engine._n_cores(tmp_path / "nowhere") == 8
