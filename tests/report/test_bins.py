"""Sums by time include all values, however often the bins double."""

from __future__ import annotations

import random

import numpy as np
import pytest

from wiredecode.frames.bins import Bins
from wiredecode.report.gather import LATENCIES, POINTS, Series, bucket_ns, bucket_of, percentile

BEGIN = 1_700_000_000_000_000_000


@pytest.mark.parametrize("seconds", [0.0001, 0.5, 3600.0, 40_000.0])
def test_doubling_bins_hold_every_value_in_its_time(seconds: float) -> None:
    random.seed(7)
    times = [BEGIN, *(BEGIN + int(random.random() * seconds * 1e9) for _ in range(100_000))]
    bins = Bins(3)
    for place, time_ns in enumerate(times):
        bins.add(time_ns, place % 3, place)
    counts, width = bins.counts(100, max(times))
    assert len(counts) <= 100
    expected = np.zeros_like(counts)
    for place, time_ns in enumerate(times):
        expected[(time_ns - BEGIN) // width, place % 3] += place
    assert (counts == expected).all()


def test_no_values_give_one_bin_of_zeros() -> None:
    counts, _ = Bins(2).counts(50, 0)
    assert counts.tolist() == [[0, 0]]


def test_a_time_before_the_first_counts_in_the_first_bin() -> None:
    bins = Bins(1)
    bins.add(BEGIN, 0, 0x0102)
    bins.counts(4, BEGIN)
    bins.add(BEGIN - 10**9, 0, 0x0304)
    assert bins.counts(4, BEGIN)[0].sum() == 0x0102 + 0x0304


def test_bins_reach_to_the_end_of_the_capture() -> None:
    bins = Bins(1)
    bins.add(BEGIN, 0)
    counts, width = bins.counts(64, BEGIN + 10**9)
    assert 10**9 < len(counts) * width <= 2 * 10**9
    assert len(counts) <= 64


@pytest.mark.parametrize("ns", [0, 1, 2, 3, 1_000, 123_456, 999_999_999, 2**44, 2**50])
def test_a_latency_lies_in_its_bucket(ns: int) -> None:
    bucket = bucket_of(ns)
    assert 0 <= bucket < LATENCIES
    if 8 <= ns < 2**45:
        assert bucket_ns(bucket) <= ns < bucket_ns(bucket + 1)


def test_percentiles_are_accurate_within_five_percent() -> None:
    random.seed(3)
    values = sorted(int(random.lognormvariate(13, 1.5)) for _ in range(20_000))
    row = np.zeros(LATENCIES, np.int64)
    for value in values:
        row[bucket_of(value)] += 1
    for percent in (50, 90, 99):
        assert percentile(row, percent) == pytest.approx(values[len(values) * percent // 100], rel=0.07)
    assert percentile(np.zeros(LATENCIES, np.int64), 50) is None


def test_a_long_series_keeps_its_lowest_value() -> None:
    series = Series(lowest=True)
    for place in range(100_000):
        series.add(place, -0x010203 if place == 61_234 else 10)
    assert len(series.shown) <= POINTS
    assert (61_234, -0x010203) in series.shown
    assert series.changes == 100_000


def test_a_series_keeps_its_newest_value() -> None:
    series = Series(lowest=False)
    series.add(1, 5)
    assert series.shown == [(1, 5)]
