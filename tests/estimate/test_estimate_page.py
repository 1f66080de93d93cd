"""The page that people read: what it says about a model, at every width, and that it never runs past the edge."""

import pytest
from answers import GIB, LLAMA, estimate, model, row

from llmcli.estimate.facts import Attention, Latent, Recurrence
from llmcli.estimate.render.lines import Paper, cells, plain
from llmcli.estimate.render.page import page
from llmcli.estimate.render.several import several
from llmcli.estimate.report import (
    AdvicePart,
    ComparisonPart,
    DecodePart,
    GpuPart,
    LayerPart,
    MixPart,
    PromptPart,
    VerifyPart,
)

WIDE = Paper(200, wraps=False, unicode=True)
HYBRID = (
    LayerPart("full_attention", 10, 8192, None, 0),
    LayerPart("sliding_attention", 52, 8192, 1023, 0),
    LayerPart("linear_attention", 3, 0, None, 4000),
    LayerPart("none", 1, 0, None, 0),
)
EVERYTHING = {
    "max_context": 11234,
    "comparison": (ComparisonPart("llama.cpp", "b1", 4096, 1, 8 * GIB, 8.0),),
    "mix": MixPart((800, 40_000, 180_000), 26 * GIB, 66 * GIB, 40 * GIB, 0.606, 41 * GIB, fits=False),
    "prompt": PromptPart("긴 글.txt", 812, 1400, 1.724),
    "gpus": (GpuPart(0, "NVIDIA H200", 140 * GIB, 139 * GIB), GpuPart(1, "NVIDIA H200", 140 * GIB, 3 * GIB)),
    "advice": (
        AdvicePart("--kv-dtype fp8", 3 * GIB, 30 * GIB, fits=False, max_context=20_000),
        AdvicePart("--quant nf4", 2 * GIB, 20 * GIB, fits=True, max_context=40_000),
    ),
    "decode": (DecodePart(0, 1, 4 * GIB, 0, 0.04, 25.0, 1.0), DecodePart(4096, 1, 4 * GIB, GIB, 0.0678, 14.7, 1.695)),
    "verified": (VerifyPart("meta", 4096, 1, 100, 108, 8, 200, 200, 5, 5),),
}
ROWS = tuple(
    row(context, batch, kv=batch * context * 2**17, peak=batch * context * 2**19, activations=GIB, overhead=GIB // 2,
        vram=24 * GIB)
    for batch in (1, 8)
    for context in (4096, 131072)
)  # fmt: skip


def text(answer, facts=None, paper=WIDE) -> str:
    return plain(page(answer, facts or model(LLAMA), paper))


def test_the_classic_formula_is_shown_where_it_is_true():
    shown = text(estimate())
    assert "2 × 32 layers × 8 KV heads × 128 head_dim × 2 bytes = 131072 bytes per token" in shown
    assert "32 attention heads share 8 KV heads: the MHA formula would say 4 × as much" in shown
    blocks = text(estimate(short=69632))
    assert "× 128 head_dim × 1.0625 bytes = 69632 bytes per token" in blocks


@pytest.mark.parametrize(
    "facts",
    [
        model(Attention(8, 128, 128, window=4096)),
        model(Attention(8, 192, 128)),
        model(Attention(8, 128, 128, cached_heads=32)),
        model(LLAMA, Recurrence(conv_channels=4, conv_width=4)),
        model(),
    ],
)
def test_it_is_not_shown_where_it_is_not(facts):
    shown = text(estimate(), facts)
    assert "head_dim" not in shown
    assert "32 × full_attention: each 4096 bytes per token" in shown


def test_each_kind_of_layer_has_its_sentence():
    shown = text(estimate(parts=HYBRID, short=507904, asymptotic=81920, fixed=12_000))
    assert "10 × full_attention: each 8192 bytes per token\n" in shown
    assert "52 × sliding_attention: each 8192 bytes per token up to 1023 tokens\n" in shown
    assert "3 × linear_attention: each 4000 bytes whatever the length\n" in shown
    assert "1 × none: no cache\n" in shown
    assert "507904 bytes per token while it is short; once windows are full 81920 per token, and 12000 B" in shown


def test_heads_that_transformers_keeps_apart_are_no_saving():
    assert "but transformers keeps them per attention head: 4 × as much" in text(
        estimate(), model(Attention(8, 128, 128, cached_heads=32))
    )
    assert "MHA" not in text(estimate(), model(Attention(32, 128, 128)))


def test_latent_attention_names_what_its_keys_and_values_would_take():
    latent = Latent(512, 64, heads=128, nope_dim=128, value_dim=128)
    shown = text(estimate(), model(latent, heads=128))
    assert (
        "one row of 576 numbers serves 128 heads: a cache of their keys and values would take 71.11 × as much" in shown
    )


def test_what_is_not_exact_comes_before_the_figures():
    shown = text(estimate(inexact=("unknown type x, an upper bound",)))
    assert shown.index("not exact: unknown type x, an upper bound") < shown.index("context")


def test_active_parameters_and_towers_are_told_apart():
    assert "8.03 B parameters, 1.00 B active per token, and 420.0 M in towers" in text(
        estimate(active=10**9, vision=420_000_000)
    )
    assert "towers of unknown size" in text(estimate(vision=None))
    assert "tower" not in text(estimate())


def test_every_answer_that_was_asked_for_is_there():
    shown = text(estimate(rows=ROWS, **EVERYTHING))
    for part in (
        "longest context that fits at batch 8: 11234 tokens",
        "llama.cpp would hold 8.00 GiB of KV at context 4096, batch 1, 8 × as much",
        "긴 글.txt: 812 tokens, 1400 characters, 1.72 characters per token",
        "GPU 1, NVIDIA H200: 3.00 GiB of 140.00 GiB free",
        "Not everything fits. What would help, the most effective first:",
        "1. --kv-dtype fp8: 3.00 GiB less, 30.00 GiB in all, does not fit yet, longest context 20000",
        "2. --quant nf4: 2.00 GiB less, 20.00 GiB in all, fits, longest context 40000",
        "requests of 800, 40000, 180000 tokens at once",
        "in pages as long as each: 26.00 GiB of KV",
        "3 reservations of 180000: 66.00 GiB, 40.00 GiB (61 %) of it wasted",
        "total, in pages: 41.00 GiB, does not fit",
        "measured (meta) at context 4096, batch 1: cache 108 bytes, +8 against the estimate of 100",
        "weights: 4.00 GiB and overhead: 0.500 GiB, part of every total",
        "- weights in bfloat16",
    ):
        assert part in shown, part
    assert "1.70 ×" in shown


@pytest.mark.parametrize(
    ("vram", "longest", "sentence"),
    [
        (8, 9000, "It fits into 8.00 GiB; longest context that fits at batch 2: 9000 tokens"),
        (6, 5000, "Not everything fits into 6.00 GiB; longest context that fits at batch 2: 5000 tokens"),
        (6, 0, "Not everything fits into 6.00 GiB: at batch 2 not even one token of context does"),
        (4, 0, "It does not fit into 4.00 GiB: at batch 2 not even one token of context does"),
        (3, 0, "It does not fit into 3.00 GiB: the weights alone take 4.00 GiB"),
    ],
)
def test_whether_it_fits_comes_right_after_the_name(vram, longest, sentence):
    rows = [row(batch=batch, kv=kv * GIB, vram=vram * GIB) for batch, kv in ((1, 1), (2, 3))]
    shown = text(estimate(rows=rows, max_context=longest)).splitlines()
    assert shown[1] == sentence
    assert ("no setting makes it fit" in "\n".join(shown)) == (vram < 8)
    assert "fit" not in text(estimate())


def test_figures_that_round_to_nothing_are_put_into_words():
    near = ComparisonPart("vllm", "1", 4096, 1, GIB, 1.004)
    one = MixPart((800,), GIB, GIB, 0, 0.0, GIB, fits=None)
    shown = text(estimate(comparison=(near,), mix=one))
    assert "batch 1, about as much" in shown
    assert "1 reservation of 800" in shown


def test_an_engine_that_holds_the_same_is_not_mentioned():
    same = ComparisonPart("vllm", "1", 4096, 1, GIB, 1.0)
    assert "vllm" not in text(estimate(comparison=(same,)))


@pytest.mark.parametrize("unicode", [True, False])
@pytest.mark.parametrize("width", [40, 57, 80, 120])
@pytest.mark.parametrize("count", [1, 3])
def test_no_line_passes_the_edge(width, unicode, count):
    paper = Paper(width, wraps=True, unicode=unicode)
    inexact = ("this type is not known: taken as full attention in every layer, which is an upper bound",)
    names = ("gemma-3-27b-it", "llama-3.1-8b-instruct-with-a-long-name", "긴 이름을 가진 한국어 모델 파일")
    answers = [
        estimate(name, ROWS, HYBRID, short=507904, asymptotic=81920, inexact=inexact, **EVERYTHING) for name in names
    ]
    lines = page(answers[0], model(LLAMA), paper) if count == 1 else several(answers, paper)
    shown = plain(lines).splitlines()
    assert max(map(cells, shown)) <= width
    assert all(line == line.rstrip() for line in shown)


def test_a_narrow_page_loses_columns_but_no_digits():
    shown = plain(page(estimate(rows=ROWS), model(LLAMA), Paper(40, wraps=True, unicode=True)))
    assert "prefill" not in shown
    assert [line.split() for line in shown.splitlines() if line.endswith(("yes", "no"))] == [
        ["4096", "1", "0.500", "GiB", "7.50", "GiB", "yes"],
        ["131072", "1", "16.00", "GiB", "69.50", "GiB", "no"],
        ["4096", "8", "4.00", "GiB", "21.50", "GiB", "yes"],
        ["131072", "8", "128.00", "GiB", "517.50", "GiB", "no"],
    ]


def test_names_reach_the_terminal_without_control_characters():
    shown = text(estimate("evil\x1b[31m\nname"))
    assert "\x1b" not in shown
    assert "evil[31m name: llama, 8.03 B parameters" in shown


def test_models_stand_side_by_side_at_the_same_context():
    small = estimate("small", [row(4096, kv=GIB), row(8192, kv=2 * GIB)], assumptions=("common", "own"))
    large = estimate("large", [row(4096, kv=3 * GIB), row(8192, kv=6 * GIB)], assumptions=("common",))
    shown = plain(several([small, large], WIDE))
    first, second = shown.index("context 4096, batch 1"), shown.index("context 8192, batch 1")
    between = shown[first:second]
    assert [line.split()[:2] for line in between.splitlines() if "GiB" in line][:2] == [
        ["small", "1.00"],
        ["large", "3.00"],
    ]
    assert shown.count("- common") == 1
    assert "- small: own" in shown


def test_a_model_without_a_row_at_that_context_is_left_out_there():
    shown = plain(several([estimate("small", [row(512)]), estimate("large", [row(512), row(4096)])], WIDE))
    assert "small" not in shown[shown.index("context 4096") : shown.index("- weights")]
