import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_translator import tiny_translator

from allyouneed.checkpoint import save_model
from allyouneed.errors import CheckpointError, ConfigError
from allyouneed.models import PRETRAINED, shipped_models
from allyouneed.serving import server
from allyouneed.serving.server import named_models
from allyouneed.serving.settings import Settings
from allyouneed.translator import Translator


def serve(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "allyouneed", "serve", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    translator = tiny_translator()
    folder = tmp_path_factory.mktemp("run") / "model"
    save_model(folder, translator.model.state_dict(), translator.tokenizer, translator.manifest)
    return folder


def test_all_shipped_models_are_served_unless_others_are_named() -> None:
    assert named_models(()) == {name: PRETRAINED / name for name in shipped_models()}


def test_models_are_called_by_name_folder_or_run(model: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(model, other)

    assert named_models((str(other),)) == {"other": other}
    assert named_models((str(model),)) == {model.parent.name: model}
    assert named_models((f"mine={model}", "en-de")) == {
        "mine": model,
        "en-de": PRETRAINED / "en-de",
    }


def test_two_models_of_one_name_or_none_are_refused(model: Path) -> None:
    with pytest.raises(ConfigError, match="two models are called a"):
        named_models((f"a={model}", f"a={model}"))
    with pytest.raises(CheckpointError, match="not a model folder"):
        named_models(("nowhere",))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file or directory; name a file"),
        (b"# nothing\n", "no key in it"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_files_of_keys_that_cannot_be_used(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    keys = tmp_path / "keys"
    if content is not None:
        keys.write_bytes(content)

    ended = serve("--keys", str(keys))

    assert ended.returncode == 2
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_port_that_is_taken_and_a_model_that_is_damaged(model: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = serve("--port", str(port), "--model", str(model))
    assert ended.returncode == 2
    assert f"port {port}" in ended.stderr

    damaged = tmp_path / "damaged"
    shutil.copytree(model, damaged)
    (damaged / "model.safetensors").write_bytes(b"x")
    ended = serve("--port", "0", "--model", str(damaged))
    assert ended.returncode == 2
    assert "damaged" in ended.stderr.splitlines()[-1]
    assert "Traceback" not in ended.stderr


def test_limits_that_contradict_each_other() -> None:
    ended = serve("--max-waiting", "10", "--max-sentences", "20")

    assert ended.returncode == 2
    assert "only 10 may wait" in ended.stderr


def test_threads_are_those_of_the_engine(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[int] = []
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)
    monkeypatch.setattr("torch.set_num_threads", loaded.append)
    monkeypatch.setattr(server, "create_app", lambda load, *_: load())
    monkeypatch.setattr(Translator, "load", lambda *_, threads, **__: loaded.append(threads))

    server.serve({"a": model}, Settings(), host="127.0.0.1", port=0, n_threads=3)

    assert loaded == [3, 3]
