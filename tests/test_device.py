"""Where to compute."""

import pytest
import torch

from allyouneed.device import as_current, is_cpu, pick_device
from allyouneed.errors import ConfigError


@pytest.mark.parametrize("name", ["cuda:99", "abacus"])
def test_a_device_that_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        pick_device(name)


def test_a_device_is_what_it_is_called() -> None:
    assert pick_device("cpu") == torch.device("cpu")


def test_auto_takes_a_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for there, device in ((True, "cuda"), (False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        assert pick_device("auto").type == device


def test_where_it_is_clear_torch_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def pick(name: str) -> torch.device:
        asked.append(name)
        return torch.device("cuda" if name == "auto" else name)

    monkeypatch.setattr("allyouneed.device.pick_device", pick)
    monkeypatch.setattr("sys.platform", "linux")
    for drivers, answers in (((), [True, True, False]), (("/",), [True, False, False])):
        monkeypatch.setattr("allyouneed.device._GPU_DRIVERS", drivers)
        assert [is_cpu(name) for name in ("cpu", "auto", "cuda:1")] == answers

    assert asked == ["cuda:1", "auto", "cuda:1"]


def test_only_a_gpu_is_made_the_current_one(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "device", made.append)

    for name in ("cpu", "cuda:1"):
        as_current(torch.device(name))

    assert made == [torch.device("cuda:1")]
