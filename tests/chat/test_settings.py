"""`/set`: values, their limits and their origin."""

from dataclasses import replace

import pytest

from llmcli.chat.settings import NAMES, Settings
from llmcli.errors import UsageError
from llmcli.inference import SamplingOptions

START = Settings(SamplingOptions(temperature=0.3), SamplingOptions(top_k=5, temperature=0.9))


def test_a_setting_wins_over_the_flag_and_default_takes_it_back():
    changed = START.changed("temperature", "1.5")
    assert changed.sampling(SamplingOptions()).temperature == 1.5
    assert changed.sampling(SamplingOptions()).origins["temperature"] == "/set"
    back = changed.changed("temperature", "default").sampling(SamplingOptions())
    assert (back.temperature, back.origins["temperature"]) == (0.3, "flag")
    assert (back.top_k, back.origins["top_k"]) == (5, "models.toml")


def test_an_explicit_zero_is_a_value():
    assert START.changed("top-k", "0").sampling(SamplingOptions()).top_k == 0


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("temperature", "nan", "is not allowed"),
        ("temperature", "-1", "is not allowed"),
        ("temperature", "hot", "is no number"),
        ("top_k", "1.5", "is no whole number"),
        ("repetition_penalty", "0", "is not allowed"),
        ("max_new_tokens", "0", "is not allowed"),
        ("stats", "loud", "is not allowed"),
        ("stop", '"open', "No closing quotation"),
        ("stop", '""', "empty stop text"),
        ("seed", "", "needs a value"),
        ("tempratur", "1", "the nearest is temperature"),
    ],
)
def test_what_is_not_allowed_is_refused_in_words(name, value, says):
    with pytest.raises(UsageError, match=says) as refused:
        START.changed(name, value)
    assert refused.value.hint


def test_stops_are_read_as_a_shell_would():
    assert START.changed("stop", "END '# #'").stop == ("END", "# #")
    flagged = replace(START, flag_stop=("xyzzy",), flag_stats="full")
    assert flagged.changed("stop", "END").changed("stop", "default").stop == ("xyzzy",)
    assert flagged.changed("stats", "off").changed("stats", "default").stats == "full"


def test_what_is_in_force_is_shown_with_its_origin():
    assert START.changed("temperature", "0").shown("temperature", SamplingOptions()) == "temperature 0.0 (/set)"
    assert START.shown("top-k", SamplingOptions()) == "top_k 5 (models.toml)"
    assert START.shown("seed", SamplingOptions()) == "seed drawn for every answer"


def test_every_name_can_be_set():
    values = {"stats": "full", "stop": "END", "seed": "1", "top_k": "1", "max_new_tokens": "1"}
    for name in NAMES:
        assert START.changed(name, values.get(name, "0.5")) != START
