"""The shipped model in every format, made and used as the guide shows.

Other programs change; here is where it shows when they no longer say what they should.
"""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from exportable import SENTENCES, shipped_model

from allyouneed.cli.main import cli
from allyouneed.interop import CTranslate2, Format, HuggingFace, Onnx, compare

GUIDE = Path(__file__).parents[2] / "docs" / "exporting.md"
COMMANDS = re.findall(r"\$ allyouneed (export en-de .*)", GUIDE.read_text("utf-8"))
SNIPPETS = re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands of the guide have been run."""
    folder = tmp_path_factory.mktemp("exports")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(folder)
        for command in COMMANDS:
            CliRunner().invoke(cli, command.split(), catch_exceptions=False)
    return folder


def test_the_guide_has_a_command_and_a_snippet_for_every_format() -> None:
    assert len(COMMANDS) == len(SNIPPETS) == 3


@pytest.mark.parametrize("snippet", SNIPPETS, ids=["transformers", "ctranslate2", "onnx"])
def test_the_snippet_translates(
    snippet: str, exports: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(exports)
    names: dict[str, object] = {}

    exec(compile(snippet, str(GUIDE), "exec"), names)

    assert names["texts"] == ["Ein Mann fährt mit dem Fahrrad.", "Zwei Hunde spielen."]


@pytest.mark.parametrize(
    ("form", "name", "beam_size"),
    [
        (HuggingFace(), "for-transformers", 1),
        (HuggingFace(), "for-transformers", 4),
        (CTranslate2(), "for-ctranslate2", 1),
        (CTranslate2(), "for-ctranslate2", 4),
        (Onnx(), "for-onnx", 1),
    ],
)
def test_every_token_is_ours(form: Format, name: str, beam_size: int, exports: Path) -> None:
    agreement = compare(shipped_model(), form.load(exports / name), SENTENCES, beam_size)

    assert len(agreement.compared) == len(SENTENCES)
    assert not agreement.different
