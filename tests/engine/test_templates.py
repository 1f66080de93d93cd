"""Where chat templates come from, what they make of a conversation, and which ids end an answer."""

import dataclasses
import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import Scripted, byte_tokenizer, engine_of, greedy
from tokenizers import AddedToken, processors

from llmcli.engine.checkpoint import load_tokenizer
from llmcli.engine.prompt import encode, render
from llmcli.engine.template import chat_format, fold_system
from llmcli.errors import ModelError, UsageError
from llmcli.inference import GenerateRequest, Message

SYSTEM = Message("system", "be brief")
USER = Message("user", "hi")
ANSWER = Message("assistant", "yes")

TURNS = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}"
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
REFUSES_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('System role\nnot supported') }}{% endif %}"
DROPS_SYSTEM = (
    "{% for m in messages if m.role != 'system' %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}<assistant>"
)
ALTERNATES = (
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Roles must alternate user/assistant/...') }}{% endif %}{% endfor %}"
)


def with_tokens(template, *texts, special=True):
    """The byte tokenizer with more added tokens, from id 258 on."""
    tokenizer = byte_tokenizer(template)
    tokenizer.add_tokens(
        [AddedToken(text, special=special, normalized=False) for text in texts], special_tokens=special
    )
    return tokenizer


def saved(folder, key=None, jinja=None, **more):
    """A directory with a tokenizer whose templates lie where they are told to."""
    byte_tokenizer(None).save_pretrained(folder)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    if key is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(config | {"chat_template": key}))
    if jinja is not None:
        (folder / "chat_template.jinja").write_text(jinja)
    for name, template in more.items():
        (folder / "additional_chat_templates").mkdir(exist_ok=True)
        (folder / "additional_chat_templates" / f"{name}.jinja").write_text(template)
    return load_tokenizer(folder)


@pytest.mark.parametrize(
    ("sources", "text", "notice"),
    [
        ({"jinja": "file"}, "file", None),
        ({"key": "key"}, "key", None),
        ({"key": "key", "jinja": "file"}, "file", None),
        ({"key": [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "list"}]}, "list", None),
        ({"jinja": "file", "tool_use": "tools", "rag": "documents"}, "file", None),
        ({"key": [{"name": "rag", "template": "no"}, {"name": "plain", "template": "yes"}]}, "yes", "'plain'"),
        ({"tool_use": "tools", "short": "yes"}, "yes", "'short' is used, of short, tool_use"),
        ({"key": [{"name": "tool_use", "template": "tools"}]}, "tools", "'tool_use'"),
    ],
)
def test_a_template_is_found_wherever_models_keep_it(tmp_path, sources, text, notice):
    tokenizer = saved(tmp_path, **sources)
    assert render(tokenizer, [USER]).text == text
    notices = engine_of(Scripted([1], 1), tokenizer).info.notices
    if notice is None:
        assert not notices
    else:
        assert notice in " ".join(notices)


def test_a_model_without_a_template_says_so_once_and_takes_the_bare_texts(tmp_path):
    tokenizer = saved(tmp_path)
    assert render(tokenizer, [SYSTEM, USER]).text == "be brief\n\nhi"
    notices = engine_of(Scripted([1], 1), tokenizer).info.notices
    assert [notice for notice in notices if "no chat template" in notice] == list(notices)


@pytest.mark.parametrize("template", [REFUSES_SYSTEM + TURNS, DROPS_SYSTEM])
def test_a_system_text_goes_into_the_first_user_message_where_the_template_has_no_system_role(template):
    tokenizer = byte_tokenizer(template)
    assert not engine_of(Scripted([1], 1), tokenizer).info.system_role
    folded = (Message("user", "be brief\n\nhi"), ANSWER, USER)
    assert render(tokenizer, (SYSTEM, USER, ANSWER, USER)) == render(tokenizer, folded)
    assert "<user>be brief\n\nhi</user>" in render(tokenizer, folded).text


def test_a_template_that_takes_a_system_message_gets_one():
    tokenizer = byte_tokenizer(TURNS)
    assert engine_of(Scripted([1], 1), tokenizer).info.system_role
    assert render(tokenizer, (SYSTEM, USER)).text == "<system>be brief</system><user>hi</user>"


@given(st.lists(st.builds(Message, st.sampled_from(("system", "user", "assistant")), st.text(max_size=3)), max_size=8))
def test_folding_loses_no_text_and_leaves_no_system_message(messages):
    folded = fold_system(messages)
    assert all(m.role != "system" for m in folded)
    assert [m for m in folded if m.role == "assistant"] == [m for m in messages if m.role == "assistant"]
    for message in messages:
        assert any(message.content in m.content for m in folded)
    if all(m.role != "system" for m in messages):
        assert folded == messages


def test_a_template_that_reads_typed_parts_gets_them():
    parts = "{% for m in messages %}{% for c in m.content if c.type == 'text' %}[{{ c.text }}]{% endfor %}{% endfor %}"
    tokenizer = byte_tokenizer(parts)
    assert render(tokenizer, (SYSTEM, USER)).text == "[be brief][hi]"
    assert engine_of(Scripted([1], 1), tokenizer).info.system_role


def test_what_a_template_refuses_is_said_in_one_line():
    with pytest.raises(UsageError, match="Roles must alternate") as refused:
        render(byte_tokenizer(ALTERNATES + TURNS), (USER, USER))
    assert "\n" not in refused.value.message
    render(byte_tokenizer(ALTERNATES + TURNS), (USER, ANSWER, USER))


@pytest.mark.parametrize(
    ("template", "words"),
    [("{% for %}", "no valid template"), ("{{ 1 / 0 }}", "division by zero"), ("{{ '' }}", "empty prompt")],
)
def test_a_template_that_cannot_be_used_does_not_hinder_loading_and_is_refused_in_one_line(template, words):
    tokenizer = byte_tokenizer(template)
    assert engine_of(Scripted([1], 1), tokenizer).info.notices == ()
    with pytest.raises(ModelError, match=words) as refused:
        render(tokenizer, (SYSTEM, USER))
    assert "\n" not in refused.value.message


def test_a_template_that_is_no_text_is_refused_when_loading():
    tokenizer = byte_tokenizer(None)
    tokenizer.chat_template = 5
    with pytest.raises(ModelError, match="no text but 5"):
        engine_of(Scripted([1], 1), tokenizer)


def adds_bos_and_eos(template):
    """A tokenizer that by itself puts BOS (0) before and EOS (1) behind every text."""
    tokenizer = byte_tokenizer(template)
    special = [("<|bos|>", 0), ("<|end|>", 1)]
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<|bos|> $A <|end|>", special_tokens=special
    )
    assert tokenizer("a").input_ids[::2] == [0, 1]
    return tokenizer


@pytest.mark.parametrize(
    ("template", "count"), [("{{ bos_token }}" + TURNS, 1), ("<|bos|>" + TURNS, 1), (TURNS, 0), (None, 1)]
)
def test_there_is_one_bos_where_the_template_writes_it_or_there_is_no_template(template, count):
    tokenizer = adds_bos_and_eos(template)
    messages = (USER, ANSWER, USER)
    for turns in (messages[:1], messages, (*messages, ANSWER, USER)):
        ids = encode(tokenizer, render(tokenizer, turns), 258)
        assert (ids.count(0), ids.count(1)) == (count, 0)
        assert ids[:count] == (0,) * count


def test_what_was_said_stays_the_beginning_of_every_later_prompt():
    tokenizer = adds_bos_and_eos("{{ bos_token }}" + CHATML)
    messages = []
    before = ()
    for turn in ("하나", "둘\n", "three"):
        messages.append(Message("user", turn))
        ids = encode(tokenizer, render(tokenizer, messages), 300)
        assert ids[: len(before)] == before
        before = ids + tuple(tokenizer("answer", add_special_tokens=False).input_ids)
        messages.append(Message("assistant", "answer"))


HARMONY = (
    "{% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}"
    "{% if loop.last and m.role == 'assistant' %}<|return|>{% else %}<|end_part|>{% endif %}{% endfor %}"
)
NO_END = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
SPACED = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }} <|im_end|>{% endfor %}"


@pytest.mark.parametrize(
    ("template", "tokens", "end"),
    [
        (CHATML, ("<|im_start|>", "<|im_end|>"), "<|im_end|>"),
        (SPACED, ("<|user|>", "<|assistant|>", "<|im_end|>"), "<|im_end|>"),
        (TURNS.replace("</{{ m.role }}>", "<|end|>"), (), "<|end|>"),
        (HARMONY, ("<|start|>", "<|message|>", "<|return|>", "<|end_part|>"), None),
        (NO_END, ("<|user|>", "<|assistant|>"), None),
        (CHATML, (), None),
        (TURNS, (), None),
    ],
)
def test_the_token_that_a_template_writes_after_every_answer_ends_one(template, tokens, end):
    tokenizer = with_tokens(template, *tokens)
    found = chat_format(tokenizer).end_of_turn
    assert (None if found is None else tokenizer.convert_ids_to_tokens(found)) == end


def test_an_end_of_turn_that_no_file_names_is_said_and_ends_the_answer():
    tokenizer = with_tokens(CHATML, "<|im_start|>", "<|im_end|>")
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    model = Scripted([*tokenizer("ok", add_special_tokens=False).input_ids, end, 5, 5], 2, vocab_size=300)
    engine = engine_of(model, tokenizer)
    (notice,) = engine.info.notices
    assert f"ends at '<|im_end|>' (token {end}) as well" in notice
    assert notice.endswith("the model's files name only 1")
    finished = list(engine.generate(GenerateRequest((7, 8), greedy(9)), threading.Event()))[-1]
    assert (finished.trace.finish_reason, finished.trace.generated) == ("eos", 3)


def test_an_ordinary_word_that_the_files_name_as_the_end_is_said():
    model = Scripted([1], 1)
    model.config.eos_token_id = [70, 1]
    tokenizer = byte_tokenizer()
    notices = engine_of(model, tokenizer).info.notices
    word = tokenizer.decode([70])
    assert notices == (f"the model's files name token 70, the text {word!r}, as an end: an answer ends there",)


def test_ids_of_the_end_come_in_every_form():
    model = Scripted([1], 1)
    model.generation_config = dataclasses.make_dataclass("Config", ["eos_token_id"])([5.0, 9999, "no", None])
    engine = engine_of(model, byte_tokenizer())
    assert engine._loaded.eos_ids == {1, 5, 9999}


def test_tokens_without_embeddings_are_said_before_a_message_holds_one():
    tokenizer = with_tokens(CHATML, "<extra>", special=False)
    assert "<extra>" in engine_of(Scripted([1], 1, vocab_size=258), tokenizer).info.notices[-1]
    with pytest.raises(ModelError, match="id 258"):
        encode(tokenizer, render(tokenizer, [Message("user", "an <extra>")]), 258)
    assert not engine_of(Scripted([1], 1, vocab_size=258), with_tokens(TURNS, "<|extra|>")).info.notices


@pytest.mark.parametrize("template", [TURNS, None])
def test_half_a_character_is_refused_in_words(template):
    tokenizer = byte_tokenizer(template)
    with pytest.raises(UsageError, match=r"U\+D83D, which is no character"):
        encode(tokenizer, render(tokenizer, [Message("user", "a \ud83d b")]), 258)
