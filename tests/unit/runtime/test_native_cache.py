"""The twin of the key store's rules: cases by hand, as the store's own tests have them."""

from __future__ import annotations

import pytest

from penstock.runtime.native.cache import Cache, KeyUses, Moving

SIZES = (0, 10, 20, 30)


def cache(*uses: tuple[str, int], budget: int = 60) -> Cache:
    return Cache(KeyUses(operations=tuple(range(len(uses))), uses=uses, bytes_at=SIZES), budget)


def hold(some: Cache, key: str, limbs: int) -> None:
    """Rows that are there."""
    load = some.claim(key, limbs, 0.0)
    some.residents[load.key].limbs, some.residents[load.key].loading = limbs, False


def test_a_read_that_can_wait_leaves_what_is_used_before_it_and_what_belady_would_keep() -> None:
    uses = (("a", 3), ("c", 3), ("a", 3), ("b", 3))
    urgent, patient = cache(*uses), cache(*uses)
    for each in (urgent, patient):
        hold(each, "a", 3)
        hold(each, "b", 3)
        # c is needed in one use. b is used after it, last of all: it may leave for either.
        assert each.next_use("b", 3) == 3
    assert urgent.make_room("c", 30, 1)
    assert patient.make_room("c", 30, 1, waits=True)
    assert "b" not in urgent.residents
    assert "b" not in patient.residents


def test_a_read_that_can_wait_takes_nothing_but_what_belady_gives_up_at_its_use() -> None:
    # After its next use a is never used again: it is to leave for c, and cannot yet.
    uses = (("a", 3), ("c", 3), ("b", 3))
    urgent, patient = cache(*uses), cache(*uses)
    for each in (urgent, patient):
        hold(each, "a", 3)
        hold(each, "b", 3)
    assert urgent.make_room("c", 30, 1)
    assert "b" not in urgent.residents
    assert not patient.make_room("c", 30, 1, waits=True)
    assert patient.residents["b"].limbs == 3


def test_only_the_top_limbs_leave() -> None:
    some = cache(("a", 1), ("b", 1), budget=50)
    hold(some, "a", 3)
    hold(some, "b", 2)
    assert some.make_room("c", 20)
    # The second and third limbs are never used again; those of the key not used for the longest time go.
    assert {key: each.limbs for key, each in some.residents.items()} == {"a": 1, "b": 2}
    assert some.used_bytes == 30


def test_what_is_in_use_or_being_read_stays() -> None:
    some = cache(("a", 3), budget=60)
    hold(some, "a", 3)
    some.claim("b", 3, 0.0)
    some.pinned = "a", 2
    assert not some.make_room("c", 20)
    assert some.make_room("c", 10)
    assert some.residents["a"].limbs == 2


def test_reads_are_urgent_until_something_is_known_and_where_they_would_come_too_late() -> None:
    some = cache(("a", 1), ("a", 3), ("b", 3))
    assert some.is_urgent(64)
    some.use_s.take(1.0)
    some.byte_s.take(0.01)
    hold(some, "a", 1)
    # 20 bytes of a in one use, then 30 of b in two: 0.2 s of 1 s, and 0.5 s of 2 s.
    assert not some.is_urgent(64)
    some.byte_s = Moving()
    some.byte_s.take(0.06)
    assert some.is_urgent(64)  # 1.2 s of 1 s
    assert not some.is_urgent(1)  # not looking that far


def test_a_moving_mean_is_the_stores() -> None:
    moving = Moving()
    for value in (4.0, 12.0):
        moving.take(value)
    assert (moving.mean, moving.variance) == pytest.approx((5.0, 8.0))


def test_a_key_of_its_own_moduli_counts_its_own_bytes() -> None:
    uses = (("a", 1), ("to-sparse", 1), ("a", 3))
    some = Cache(KeyUses(operations=(0, 1, 2), uses=uses, bytes_at=SIZES, own_bytes={"to-sparse": 7}), 60)
    hold(some, "to-sparse", 1)
    hold(some, "a", 2)
    assert some.used_bytes == 27
    assert [some.size(key, limbs) for key, limbs in (("to-sparse", 0), ("to-sparse", 1), ("a", 1))] == [0, 7, 10]
