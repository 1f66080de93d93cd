import os
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmcli.errors import ConfigError
from llmcli.inference import SamplingOptions
from llmcli.models.registry import load_registry, shipped_file
from llmcli.sampling_rules import RULES

REPO = Path(__file__).parents[2]
SHA = "ab" * 32


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LLMCLI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("LLMCLI_MODELS", raising=False)


@pytest.fixture
def write(tmp_path):
    def write(text):
        file = tmp_path / "models.toml"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    return write


def refusal(file, alias="x"):
    """The message with which the alias of a file is refused: one line that names the file."""
    with pytest.raises(ConfigError) as caught:
        load_registry(file).entry(alias)
    assert caught.value.exit_code == 2
    assert "\n" not in caught.value.message
    assert str(file) in caught.value.message
    return caught.value.message


def test_the_shipped_registry_is_found_and_its_default_is_valid():
    registry = load_registry()
    entry = registry.entry(registry.default)
    assert registry.files == (shipped_file(),)
    assert (entry.name, entry.size, entry.context) == ("smollm2-135m", 98362432, 8192)
    assert entry.languages == ("en",)
    assert entry.sampling == SamplingOptions(temperature=0.0)


def test_the_shipped_registry_goes_into_the_wheel():
    project = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert included["models.toml"] == "llmcli/models.toml"
    assert shipped_file().read_bytes() == (REPO / "models.toml").read_bytes()


def test_every_key_of_an_entry_is_read(write):
    file = write(f'''
        [models.x]
        source = "weights"
        description = "한국어 설명"
        size = 5
        sha256 = "{SHA.upper()}"
        license = "MIT"
        languages = ["ko", "zh-Hans"]
        context = 4096
        [models.x.sampling]
        temperature = 1
        top_p = 1
        top_k = 0
        min_p = 0.05
        repetition_penalty = 1.1
        seed = 0
        max_new_tokens = 64
    ''')
    entry = load_registry(file).entry("x")
    assert entry.source == "weights"
    assert entry.parsed_source().path == file.parent / "weights"
    assert (entry.description, entry.size, entry.sha256, entry.license) == ("한국어 설명", 5, SHA, "MIT")
    assert (entry.languages, entry.context, entry.origin) == (("ko", "zh-Hans"), 4096, file)
    assert entry.sampling == SamplingOptions(1.0, 1.0, 0, 0.05, 1.1, 0, 64)
    assert isinstance(entry.sampling.temperature, float)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("licence = 'MIT'", "[models.x] licence is no known key; the nearest is license"),
        ("sampling = {temprature = 0.1}", "[models.x.sampling] temprature is no known key; the nearest is temperature"),
        ("temprature = 0.1", "[models.x] temprature is no known key; did you mean temperature in [models.x.sampling]?"),
        ("context = true", "[models.x] context = true: it must be a whole number of tokens"),
        ("context = 4096.0", "[models.x] context = 4096.0"),
        ("context = 0", "[models.x] context = 0"),
        ("context = 99999999999999999999", "[models.x] context"),
        ("size = '98 MB'", "[models.x] size = '98 MB': it must be a whole number of bytes"),
        ("size = -1", "[models.x] size = -1"),
        ("sha256 = 'abc'", "[models.x] sha256 = 'abc': it must be 64 hexadecimal digits"),
        ("license = ''", "[models.x] license"),
        ("languages = 'en'", "[models.x] languages = 'en': it must be a list"),
        ("languages = ['en', 1]", "[models.x] languages"),
        ("description = 3", "[models.x] description = 3: it must be one line of text"),
        (r'description = "\u001b[2Jclear"', "[models.x] description"),
        ("sampling = 1", "[models.x] sampling must be a table"),
        ("sampling = {temperature = true}", "[models.x.sampling] temperature = true"),
        (
            "sampling = {temperature = 'hot'}",
            "[models.x.sampling] temperature = 'hot': it must be 0 (takes the most likely token) or a number",
        ),
        ("sampling = {temperature = nan}", "[models.x.sampling] temperature = nan"),
        ("sampling = {temperature = inf}", "[models.x.sampling] temperature = inf"),
        ("sampling = {temperature = -0.1}", "[models.x.sampling] temperature = -0.1"),
        ("sampling = {top_p = 0}", "[models.x.sampling] top_p = 0"),
        ("sampling = {top_k = 1e400}", "[models.x.sampling] top_k = inf: it must be a whole number"),
        (f"sampling = {{top_k = {10**400}}}", "[models.x.sampling] top_k"),
        (f"sampling = {{temperature = {10**400}}}", "[models.x.sampling] temperature"),
        ("sampling = {top_k = true}", "[models.x.sampling] top_k = true"),
        ("sampling = {min_p = 1.5}", "[models.x.sampling] min_p = 1.5"),
        ("sampling = {repetition_penalty = 0}", "[models.x.sampling] repetition_penalty = 0"),
        ("sampling = {max_new_tokens = 0}", "[models.x.sampling] max_new_tokens = 0"),
    ],
)
def test_a_bad_key_is_named_with_what_is_allowed(write, table, words):
    assert words in refusal(write(f"[models.x]\nsource = 'dir'\n{table}\n"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[models.x]\ndescription = 'no source'", "[models.x] lacks the key source"),
        ("[models.x]\nsource = ['a']", "[models.x] source = ['a']: it must be a directory"),
        ("[models.x]\nsource = ''", "[models.x] source"),
        ('[models.x]\nsource = "a\\u0000b"', "[models.x] source is empty or holds control characters"),
        ("[models.x]\nsource = 'hf:org/name'", "there is no source 'hf:'"),
        ("[models.x]\nsource = 'hub:name'", "must read hub:ORG/NAME or hub:ORG/NAME@REVISION"),
        ("[models.x]\nsource = 'hub:org/../name'", "must read hub:ORG/NAME"),
        ("[models.x]\nsource = 'wheel:pkg==1/x.gguf'", "[models.x] lacks the key sha256"),
        (f"[models.x]\nsource = 'wheel:pkg/x.gguf'\nsha256 = '{SHA}'", "must read wheel:PACKAGE==VERSION/"),
        (f"[models.x]\nsource = 'wheel:--pre==1/x.gguf'\nsha256 = '{SHA}'", "must read wheel:PACKAGE==VERSION/"),
        (f"[models.x]\nsource = 'wheel:p==1/../x.gguf'\nsha256 = '{SHA}'", "must name a .gguf file inside"),
        ("models.x = 'dir'", "[models] x must be a table"),
    ],
)
def test_a_bad_source_is_named(write, text, words):
    assert words in refusal(write(text))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("defualt = 'x'", "defualt is no known key; the nearest is default"),
        ("[model.x]\nsource = 'a'", "[model] is no known table; did you mean [models.ALIAS]?"),
        ("temperature = 0", "temperature is no known key"),
        ("models = []", "models must hold tables"),
        ("default = 3", "default = 3"),
        ("[models.x]\nsource = 'a'\n[models.x]\nsource = 'b'", "line 3"),
        ("[models.x]\nsource =\n", "line 2"),
        (b"[models.x]\nsource = '\xff'", "byte 21 is no UTF-8"),
        ("x = " + "[" * 100_000, "no valid TOML"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_as_a_whole(write, text, words):
    assert words in refusal(write(text))


@pytest.mark.parametrize("alias", ['""', '"a b"', '"a/b"', '"-p"', '"."', r'"a\u001b"'])
def test_a_name_that_could_not_be_typed_is_refused(write, alias):
    file = write(f"[models.{alias}]\nsource = 'a'\n[models.good]\nsource = 'b'")
    registry = load_registry(file)
    bad = next(name for name in registry.names() if name in registry.sources[-1].tables and name != "good")
    message = refusal(file, bad)
    assert "is no usable name" in message
    assert message.isprintable()
    assert registry.entry("good").source == "b"


def test_a_name_with_a_dot_that_was_not_quoted_says_how_to_quote_it(write):
    file = write("[models.qwen2.5]\nsource = 'a'")
    with pytest.raises(ConfigError) as caught:
        load_registry(file).entry("qwen2")
    assert '[models."qwen2.5"]' in (caught.value.hint or "")


def test_names_that_differ_only_in_case_are_the_same_name_twice(write):
    file = write("[models.Smol]\nsource = 'a'\n[models.smol]\nsource = 'b'\n[models.other]\nsource = 'c'")
    assert "[models.smol]" in refusal(file, "Smol")
    assert "[models.Smol]" in refusal(file, "smol")
    assert load_registry(file).entry("other").source == "c"


def test_composed_and_decomposed_hangul_name_the_same_model(write):
    registry = load_registry(write('[models."\u1112\u1161\u11ab"]\nsource = "a"'))
    assert "\ud55c" in registry
    assert registry.entry("\ud55c").source == registry.entry("\u1112\u1161\u11ab").source == "a"


def test_one_broken_entry_hurts_no_other(write):
    registry = load_registry(write("[models.bad]\nsource = 3\n[models.good]\nsource = 'a'"))
    assert registry.entry("good").source == "a"
    assert registry.entry(registry.default).name == "smollm2-135m"
    assert "bad" in registry.names()


def test_byte_order_mark_and_windows_line_ends_are_fine(write):
    registry = load_registry(write(b"\xef\xbb\xbfdefault = 'x'\r\n[models.x]\r\nsource = 'a'\r\n"))
    assert registry.default == "x"
    assert registry.entry("x").source == "a"


def test_the_users_entry_replaces_the_shipped_one_whole(write):
    registry = load_registry(
        write("default = 'mine'\n[models.mine]\nsource = 'm'\n[models.smollm2-135m]\nsource = 'a'")
    )
    entry = registry.entry("smollm2-135m")
    assert (registry.default, entry.source, entry.size, entry.sampling.temperature) == ("mine", "a", None, None)


def test_a_default_that_names_no_model_is_refused_only_when_it_is_used(write):
    registry = load_registry(write("default = 'smolm2-135m'"))
    assert registry.entry("smollm2-135m").name == "smollm2-135m"
    with pytest.raises(ConfigError, match="did you mean smollm2-135m"):
        _ = registry.default


def test_the_flag_wins_over_the_environment_and_that_over_the_config_directory(tmp_path, monkeypatch):
    files = [tmp_path / name for name in ("flag.toml", "environment.toml", "home/config/models.toml")]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"[models.{file.stem}]\nsource = 'a'")
    assert load_registry().files[-1] == load_registry().user_file == files[2]
    monkeypatch.setenv("LLMCLI_MODELS", str(files[1]))
    assert load_registry().files[-1] == files[1]
    assert load_registry(files[0]).files[-1] == files[0]


def test_only_the_file_in_the_config_directory_may_be_absent(tmp_path, monkeypatch):
    assert load_registry().user_file == tmp_path / "home/config/models.toml"
    assert "no such file" in refusal(tmp_path / "absent.toml")
    monkeypatch.setenv("LLMCLI_MODELS", str(tmp_path / "absent.toml"))
    with pytest.raises(ConfigError, match="no such file"):
        load_registry()


def test_a_file_that_cannot_be_read_is_refused(tmp_path, write):
    assert "cannot be read" in refusal(tmp_path)
    file = write("")
    file.chmod(0)
    if os.access(file, os.R_OK):
        pytest.skip("this user may read every file")
    assert "Permission denied" in refusal(file)


@given(st.sampled_from(sorted(RULES)), st.floats() | st.integers())
def test_a_sampling_value_is_taken_exactly_when_its_rule_allows_it(tmp_path_factory, field, value):
    from llmcli.models.entry import decode_entry

    whole = field in {"top_k", "seed", "max_new_tokens"}
    allowed = abs(value) < 2**63 and RULES[field][0](value) and not (whole and isinstance(value, float))
    table = {"source": "a", "sampling": {field: value}}
    try:
        entry = decode_entry("x", table, Path("models.toml"))
    except ConfigError:
        assert not allowed
    else:
        assert allowed
        assert getattr(entry.sampling, field) == value
