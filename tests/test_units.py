"""Numbers to text and text to numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmcli.errors import UsageError
from llmcli.units import (
    GIB,
    bytes_text,
    count_text,
    file_text,
    parse_bytes,
    parse_tokens,
    percent_text,
    rate_text,
    seconds_figure,
    seconds_text,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [("24GiB", 24 * 2**30), ("24GB", 24 * 10**9), ("1.5 gib", 3 * 2**29), ("512MB", 512 * 10**6), ("1,024B", 1024)],
)
def test_sizes(text, size):
    assert parse_bytes(text, "--vram") == size


@pytest.mark.parametrize(
    "text", ["", "24", "24G", "-1GB", "0GB", "1,5GB", "nanGB", "1e3GB", "9" * 400 + "GB", "GB", "\uff19GB"]
)
def test_what_is_no_size_is_refused_by_flag_and_value(text):
    with pytest.raises(UsageError, match=r"^--vram '"):
        parse_bytes(text, "--vram")


@pytest.mark.parametrize(
    ("text", "count"), [("4096", 4096), ("4k", 4096), ("1.5k", 1536), ("1m", 2**20), ("8,192", 8192)]
)
def test_tokens(text, count):
    assert parse_tokens(text, "--context") == count


@pytest.mark.parametrize("text", ["", "0", "x", "1.5", "-4", "4kb", "1" * 500])
def test_what_is_no_number_of_tokens_is_refused(text):
    with pytest.raises(UsageError, match=r"^--context '"):
        parse_tokens(text, "--context")


@given(st.integers(1, 2**40))
def test_a_number_of_tokens_comes_back(count):
    assert parse_tokens(str(count), "x") == parse_tokens(f"{count:,}", "x") == count


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.00123, "1.2 ms"), (0.0499, "50 ms"), (0.0996, "0.10 s"), (0.994, "0.99 s"), (0.996, "1.0 s"), (99.94, "99.9 s"),
     (131.2, "131 s")],
)  # fmt: skip
def test_durations(seconds, text):
    assert seconds_text(seconds) == text


@given(st.floats(0, 0.2) | st.floats(0, 9999))
def test_durations_in_a_column_take_five_characters_and_say_what_they_can(seconds):
    figure = seconds_figure(seconds)
    assert len(figure) <= 5
    assert float(figure) == pytest.approx(seconds, rel=0.052, abs=0.00051)


def test_rates_shares_sizes_and_counts():
    assert [rate_text(x) for x in (1624.4, 82.0, 9.96, 8.2)] == ["1624 tok/s", "82 tok/s", "10 tok/s", "8.2 tok/s"]
    assert [percent_text(x) for x in (0.935, 0.0, 1.0)] == ["94 %", "0 %", "100 %"]
    assert [bytes_text(x) for x in (23040 * 8192, 50 * 2**20, 24 * GIB)] == ["0.176 GiB", "0.049 GiB", "24.00 GiB"]
    assert [bytes_text(x) for x in (2**20, 10**7)] == ["1.0 MiB", "9.5 MiB"]
    assert [file_text(x) for x in (98_362_432, 4_920_000_000)] == ["98 MB", "4.9 GB"]
    assert [count_text(x) for x in (134_515_008, 8_030_261_248, 999)] == ["134.5 M", "8.03 B", "999"]
