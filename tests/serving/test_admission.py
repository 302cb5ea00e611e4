import pytest

from allyouneed.serving.admission import Admission
from allyouneed.serving.refusals import Refusal
from allyouneed.serving.settings import Settings


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def status(admission: Admission, key: str | None, address: str = "10.0.0.1") -> int:
    try:
        admission.admit(key, address)
    except Refusal as refusal:
        return refusal.status
    return 200


def test_without_keys_everybody_may_ask_whatever_they_send() -> None:
    admission = Admission(Settings())

    assert [status(admission, key) for key in (None, "", "x")] == [200] * 3
    assert not admission.key_required


def test_with_keys_only_they_may() -> None:
    admission = Admission(Settings(keys=frozenset({"one", "two"})))

    assert [status(admission, key) for key in ("one", "two")] == [200, 200]
    assert [status(admission, key) for key in (None, "", "three", "on", "one ")] == [403] * 5
    assert admission.key_required


def test_keys_are_not_kept_as_they_are() -> None:
    admission = Admission(Settings(keys=frozenset({"secret-key"})))

    assert "secret-key" not in repr(vars(admission))


def test_a_minute_holds_so_many_requests_and_fills_again_steadily() -> None:
    clock = Clock()
    admission = Admission(Settings(requests_per_minute=3), clock)

    assert [status(admission, None) for _ in range(4)] == [200, 200, 200, 429]
    clock.now += 20
    assert [status(admission, None) for _ in range(2)] == [200, 429]
    clock.now += 600
    assert [status(admission, None) for _ in range(4)] == [200, 200, 200, 429]


def test_a_refusal_says_when_to_come_back_and_that_is_true() -> None:
    clock = Clock()
    admission = Admission(Settings(requests_per_minute=2), clock)
    for _ in range(2):
        admission.admit(None, "a")

    with pytest.raises(Refusal) as refusal:
        admission.admit(None, "a")

    assert refusal.value.retry_after == 30
    clock.now += refusal.value.retry_after
    admission.admit(None, "a")


def test_addresses_and_keys_are_counted_apart() -> None:
    by_address = Admission(Settings(requests_per_minute=1), Clock())
    assert [status(by_address, None, address) for address in "aab"] == [200, 429, 200]
    assert status(by_address, "a new key is no way round", "a") == 429

    by_key = Admission(Settings(requests_per_minute=1, keys=frozenset("xy")), Clock())
    assert [status(by_key, key, "a") for key in "xxy"] == [200, 429, 200]
    assert status(by_key, "x", "b") == 429


def test_those_who_stay_away_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allyouneed.serving.admission._MOST_CALLERS", 3)
    clock = Clock()
    admission = Admission(Settings(requests_per_minute=1), clock)
    for address in "abc":
        admission.admit(None, address)
    clock.now += 61
    admission.admit(None, "d")

    assert len(admission._allowances) == 1
