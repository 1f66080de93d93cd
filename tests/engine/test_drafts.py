"""Where drafts come from: what is looked up, and which model may draft for which."""

import dataclasses
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import byte_fallback_tokenizer, byte_tokenizer, load_request, saved_model, tiny_config, tiny_model

from llmcli.engine.decode.drafts import DraftLength
from llmcli.engine.decode.ngram import LONGEST, SHORTEST, NgramDrafter
from llmcli.engine.drafting import require_draft
from llmcli.engine.load import load
from llmcli.errors import UsageError

ids = st.lists(st.integers(0, 3), max_size=30)


def scanned(known, count):
    """The draft, found by looking at every place: the longest end that stood before, where it stood last."""
    for length in range(LONGEST, SHORTEST - 1, -1):
        places = [at for at in range(length, len(known)) if known[at - length : at] == known[len(known) - length :]]
        if places:
            grown = list(known)
            for i in range(count):
                grown.append(grown[places[-1] + i])
            return grown[len(known) :]
    return []


@given(ids, st.lists(ids, max_size=6), st.integers(0, 12), st.integers(1, 7))
def test_a_draft_is_what_a_scan_of_the_whole_conversation_finds(prompt, answers, count, chunk):
    drafter = NgramDrafter()
    for start in range(0, len(prompt), chunk):
        drafter.read(prompt[start : start + chunk])
    known = list(prompt)
    for new in answers:
        known += new
        assert list(drafter.draft(new, count)) == scanned(known, count)


def test_a_repetition_is_drafted_beyond_its_end():
    drafter = NgramDrafter()
    drafter.read([1, 2, 3, 1, 2])
    assert list(drafter.draft([3], 7)) == [1, 2, 3, 1, 2, 3, 1]


@given(st.lists(st.tuples(st.integers(0, 16), st.integers(0, 16)), max_size=40), st.integers(1, 16))
def test_the_number_of_drafts_stays_within_its_bounds(steps, most):
    length = DraftLength(most)
    for drafted, held in steps:
        before = length.count
        length.learn(drafted, min(held, drafted))
        assert 1 <= length.count <= most
        assert length.count >= before or held < drafted


# Which model may draft


def saved(folder, model_type="llama", tokenizer=None, **more):
    config = tiny_config(model_type, **more)
    config.save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
    return folder


def refusal(main, draft):
    request = dataclasses.replace(load_request(), path=main, name="main")
    with pytest.raises(UsageError) as caught:
        require_draft(request, dataclasses.replace(request, path=draft, name="small"), tiny_config("llama"))
    assert "\n" not in caught.value.message
    return caught.value.message


def allowed(main, draft, **more):
    request = dataclasses.replace(load_request(), path=main, name="main")
    config = tiny_config("llama", **more)
    require_draft(request, dataclasses.replace(request, path=draft, name="small"), config)


def test_another_tokenizer_is_refused_with_the_first_id_that_differs(tmp_path):
    main = saved(tmp_path / "main", tokenizer=byte_tokenizer())
    other = saved(tmp_path / "other", tokenizer=byte_fallback_tokenizer())
    assert refusal(main, other) == ("--draft small has another vocabulary: id 0 is '<unk>' there, '<|bos|>' in main")


def test_embeddings_may_be_padded_and_tokens_added_where_the_tokenizers_agree(tmp_path):
    more = byte_tokenizer()
    more.add_tokens(["<|tool|>"])
    main = saved(tmp_path / "main", tokenizer=byte_tokenizer())
    allowed(main, saved(tmp_path / "padded", tokenizer=byte_tokenizer(), vocab_size=320))
    allowed(main, saved(tmp_path / "more", tokenizer=more, vocab_size=320))


def test_without_a_tokenizer_the_numbers_of_ids_have_to_agree(tmp_path):
    main = saved(tmp_path / "main")
    allowed(main, saved(tmp_path / "same"))
    found = refusal(main, saved(tmp_path / "other", vocab_size=320, tokenizer=byte_tokenizer()))
    assert found == "--draft small has another vocabulary: it knows 320 ids, main 300"


def test_a_draft_model_that_cannot_take_tokens_back_is_refused(tmp_path):
    assert "'mamba'" in refusal(saved(tmp_path / "main"), saved(tmp_path / "state", "mamba", state_size=4))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return saved_model(tmp_path_factory.mktemp("drafts") / "tiny")


def request_for(folder, draft):
    request = dataclasses.replace(load_request(), path=folder, name="main", quant="none")
    return dataclasses.replace(request, draft=dataclasses.replace(request, path=draft, name="small", weights_only=True))


def test_a_draft_model_is_loaded_beside_the_model(folder):
    loaded = load(request_for(folder, folder), iter(range(9)).__next__)
    assert loaded.info.speculation == "drafts by small"
    assert loaded.draft.model is not loaded.model
    assert (loaded.draft.tokenizer, loaded.draft.draft, loaded.lookup) == (None, None, False)


def test_a_draft_model_that_does_not_fit_is_refused_before_any_weights_are_read(folder, tmp_path):
    other = saved(tmp_path / "other", tokenizer=byte_fallback_tokenizer())
    bare = tmp_path / "bare"
    shutil.copytree(folder, bare)
    (bare / "model.safetensors").unlink()
    with pytest.raises(UsageError, match="another vocabulary"):
        load(request_for(bare, other), lambda: 0.0)


def test_a_model_that_cannot_speculate_loads_without_its_draft_model(tmp_path):
    path = tmp_path / "mamba"
    tiny_model("mamba", state_size=4).save_pretrained(path)
    request = dataclasses.replace(request_for(path, path / "nowhere"), weights_only=True)
    loaded = load(request, lambda: 0.0)
    assert (loaded.draft, loaded.info.speculation) == (None, None)
    assert any("no speculation" in notice for notice in loaded.info.notices)
