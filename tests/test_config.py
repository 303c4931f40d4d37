"""Settings: precedence, defaults, and one sentence for each bad value that never shows a key."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import traceback
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import config
from config import VARIABLES, ConfigError, Settings, add_options, load_settings
from redaction import redact

ROOT = Path(config.__file__).parent
KEY = "sk-proj-9fX2kLm4TqRz7WvB"


def load(
    environ: dict[str, str] | None = None, *, env: str | bytes = b"", folder: Path, **overrides: Any
) -> Settings:
    file = folder / ".env"
    file.write_bytes(env.encode() if isinstance(env, str) else env)
    return load_settings(overrides, {"MINI_AGENT_HOME": str(folder / "home")} | (environ or {}), file)


def refusal(*args: Any, **kwargs: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        load(*args, **kwargs)
    return str(caught.value)


# -------------------------------------------------------------------- where values come from


def test_the_command_line_beats_the_environment_and_that_beats_the_file(tmp_path: Path) -> None:
    env = "OPENAI_MODEL=of-file\nCONTEXT_TOKEN_BUDGET=1000\nCONTEXT_KEEP_RECENT_TURNS=3\n"
    environ = {"OPENAI_MODEL": "of-environment", "CONTEXT_TOKEN_BUDGET": "2000"}
    settings = load(environ, env=env, folder=tmp_path, model="of-command-line")
    assert settings.model == "of-command-line"
    assert settings.context_token_budget == 2000
    assert settings.context_keep_recent_turns == 3
    assert settings.agent_max_steps == 10
    assert load(folder=tmp_path, context_summary_every_turns=0).context_summary_every_turns == 0


@pytest.mark.parametrize("empty", ["", "  ", "\t", '""', "“”", "\ufeff"])
def test_an_empty_variable_counts_as_unset_and_hides_nothing(tmp_path: Path, empty: str) -> None:
    assert load({"OPENAI_MODEL": empty}, env="OPENAI_MODEL=of-file", folder=tmp_path).model == "of-file"
    assert load({"OPENAI_MODEL": empty}, folder=tmp_path, model=empty).model == "gpt-4o-mini"


def test_nothing_set_is_offline_with_the_documented_defaults(tmp_path: Path) -> None:
    settings = load(folder=tmp_path)
    assert settings.offline
    assert (settings.api_key, settings.base_url, settings.model) == (None, None, "gpt-4o-mini")
    assert (settings.timeout, settings.connect_timeout, settings.summary_timeout) == (60, 10, 30)
    assert (settings.context_token_budget, settings.context_keep_recent_turns) == (8000, 10)
    assert (settings.context_summary, settings.context_summary_every_turns) == (False, 10)
    assert (settings.summary_model, settings.tools_path, settings.compactor_path) == (None, None, None)
    assert settings.agent_max_steps == 10


def test_a_key_alone_means_openai_and_an_address_alone_needs_no_key(tmp_path: Path) -> None:
    with_key = load({"OPENAI_API_KEY": KEY}, folder=tmp_path)
    assert (with_key.base_url, with_key.offline) == ("https://api.openai.com/v1", False)
    without = load({"OPENAI_BASE_URL": "http://localhost:11434/v1"}, folder=tmp_path)
    assert (without.api_key, without.offline) == (None, False)


def test_the_file_changes_no_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = dict(config.os.environ)
    load(env=f"OPENAI_API_KEY={KEY}\nHELLO=1", folder=tmp_path)
    assert dict(config.os.environ) == before


def test_without_a_home_it_is_the_platforms_folder_for_user_data(tmp_path: Path) -> None:
    home = load_settings({}, {}, _empty(tmp_path)).home
    assert home.is_absolute()
    assert home.name == "mini-agent"


def test_relative_paths_start_at_the_file_or_at_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert load(env="MINI_AGENT_TOOLS=my.py", folder=tmp_path).tools_path == tmp_path / "my.py"
    assert load({"MINI_AGENT_TOOLS": "my.py"}, folder=tmp_path).tools_path == elsewhere / "my.py"
    assert load(folder=tmp_path, tools_path="my.py").tools_path == elsewhere / "my.py"


def test_paths_may_begin_with_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    for written in ("~/mine", "$HOME/mine", "${HOME}/mine"):
        assert (
            load(env=f"MINI_AGENT_COMPACTOR={written}", folder=tmp_path).compactor_path == tmp_path / "mine"
        )


def test_another_file_can_stand_in_for_env(tmp_path: Path) -> None:
    other = tmp_path / "work.env"
    other.write_text("OPENAI_MODEL=mine")
    assert load_settings({}, {"MINI_AGENT_ENV_FILE": str(other)}).model == "mine"
    with pytest.raises(ConfigError, match=r"absent\.env.* \(MINI_AGENT_ENV_FILE\) does not exist"):
        load_settings({}, {"MINI_AGENT_ENV_FILE": str(tmp_path / "absent.env")})


# --------------------------------------------------------------------------- the file itself


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param("\ufeffOPENAI_MODEL=Größe\n".encode(), id="utf-8 with a mark"),
        pytest.param("OPENAI_MODEL=Größe\r\nX=1\r\n".encode(), id="crlf"),
        pytest.param("X=1\rOPENAI_MODEL=Größe\r".encode(), id="cr"),
        pytest.param("OPENAI_MODEL=Größe\r\n".encode("utf-16"), id="utf-16 with a mark"),
        pytest.param(b"\xfe\xff" + "OPENAI_MODEL=Größe".encode("utf-16-be"), id="utf-16-be with a mark"),
        pytest.param("OPENAI_MODEL=Größe\r\n".encode("utf-16-le"), id="utf-16-le"),
        pytest.param("OPENAI_MODEL=Größe\r\n".encode("utf-16-be"), id="utf-16-be"),
        pytest.param("OPENAI_MODEL=Größe\r\n".encode("cp1252"), id="cp1252"),
        pytest.param("OPENAI_MODEL=“Größe”\r\n".encode("cp1252"), id="cp1252 with curly quotes"),
        pytest.param("OPENAI_MODEL=‘Größe’ # the best".encode(), id="curly quotes and a note"),
        pytest.param("OPENAI_MODEL=„Größe“".encode(), id="German quotes"),
        pytest.param('OPENAI_MODEL = "Größe"'.encode(), id="blanks around the sign"),
        pytest.param("export OPENAI_MODEL=Größe".encode(), id="export"),
        pytest.param("OPENAI_MODEL=a\nOPENAI_MODEL=Größe\n".encode(), id="twice"),
    ],
)
def test_whatever_editor_wrote_the_file_it_is_read(tmp_path: Path, raw: bytes) -> None:
    assert load(env=raw, folder=tmp_path).model == "Größe"


def test_a_note_behind_nothing_is_no_value(tmp_path: Path) -> None:
    settings = load(
        env="OPENAI_API_KEY=  # get one at ...\nOPENAI_MODEL= # note\nOPENAI_BASE_URL=\n", folder=tmp_path
    )
    assert settings.offline
    assert settings.model == "gpt-4o-mini"


def test_text_of_several_lines_stays_as_it_is(tmp_path: Path) -> None:
    settings = load(env='SYSTEM_PROMPT="Be brief.\nDon’t say ${HOME} # ever"\n', folder=tmp_path)
    assert settings.system_prompt == "Be brief.\nDon’t say ${HOME} # ever"
    assert load({"SYSTEM_PROMPT": "a\r\nb\rc\td"}, folder=tmp_path).system_prompt == "a\nb\nc\td"
    assert load({"SYSTEM_PROMPT": "“Don’t.”"}, folder=tmp_path).system_prompt == "Don’t."
    assert load({"SYSTEM_PROMPT": '"a" and "b"'}, folder=tmp_path).system_prompt == '"a" and "b"'


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        pytest.param(
            b'\n\nX=1\n\nOPENAI_API_KEY="sk-open\n', ".env, line 5, is not NAME=value", id="open quote"
        ),
        pytest.param(b"OPENAI_API_KEY: sk-abc\n", ".env, line 1, is not NAME=value", id="colon"),
        pytest.param(
            b"X=1\nopenai_model=a\n", ".env, line 2: there is no setting 'openai_model'; is it OPENAI_MODEL?"
        ),
        pytest.param(b"CONTEXT_BUDGET=1\nCONTEXT_TOKENBUDGET=1\n", "line 2: there is no setting", id="slip"),
        pytest.param("OPENAI_MODEL=a".encode("utf-32"), ".env is no text, or in an encoding", id="utf-32"),
        pytest.param(b"OPENAI_MODEL=\x81\xff\xfe", ".env is no text, or in an encoding", id="no encoding"),
        pytest.param(b"\xff\xfe\x00", ".env is no text, or in an encoding", id="half a character"),
        pytest.param(
            b"\r\rOPENAI_TIMEOUT=x", "OPENAI_TIMEOUT='x' (.env, line 3) must be", id="line of a value"
        ),
    ],
)
def test_what_is_wrong_with_the_file_is_said_with_its_line(tmp_path: Path, raw: bytes, sentence: str) -> None:
    said = refusal(env=raw, folder=tmp_path)
    assert sentence in said
    assert "sk-" not in said


def test_a_folder_in_place_of_the_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_settings({}, {}, tmp_path)


# -------------------------------------------------------------------------------- bad values


@pytest.mark.parametrize(
    "bad", ["8k", "-1", "abc", "1e9", "0", "255", "10000001", "8,000", "8000.5", "nan", "٣k", "9" * 5000]
)
def test_a_bad_budget_is_one_sentence(tmp_path: Path, bad: str) -> None:
    shown = bad if len(bad) < 60 else "9" * 60 + "…"
    allowed = "must be a whole number of tokens from 256 to 10,000,000, written like 8000."
    for where, said in (
        ("environment", refusal({"CONTEXT_TOKEN_BUDGET": bad}, folder=tmp_path)),
        (".env, line 1", refusal(env=f"CONTEXT_TOKEN_BUDGET={bad}", folder=tmp_path)),
        ("command line, --context-token-budget", refusal(folder=tmp_path, context_token_budget=bad)),
    ):
        assert said == f"CONTEXT_TOKEN_BUDGET={shown!r} ({where}) {allowed}"


@pytest.mark.parametrize("variable", [v for v in VARIABLES if v.low is not None], ids=lambda v: v.name)
def test_numbers_are_taken_up_to_their_bounds_and_not_past_them(
    tmp_path: Path, variable: config.Variable
) -> None:
    step = 1 if isinstance(variable.default, int) else 0.01
    for bound, past in ((variable.low, variable.low - step), (variable.high, variable.high + step)):
        settings = load({variable.name: str(bound), "SYSTEM_PROMPT": "Be brief."}, folder=tmp_path)
        assert getattr(settings, variable.field) == bound
        assert f"{variable.low:,} to {variable.high:,}" in refusal(
            {variable.name: str(past)}, folder=tmp_path
        )
    for bad in ("nan", "inf", "-inf", "30s", "1_", "ten"):
        assert f"{variable.name}={bad!r}" in refusal({variable.name: bad}, folder=tmp_path)


@pytest.mark.parametrize(
    ("text", "value"),
    [("on", True), ("ON", True), ("yes", True), ("1", True), ("off", False), ("No", False), ("0", False)],
)
def test_a_switch_is_on_or_off(tmp_path: Path, text: str, value: bool) -> None:
    assert load({"CONTEXT_SUMMARY": text}, folder=tmp_path).context_summary is value
    assert refusal({"CONTEXT_SUMMARY": "maybe"}, folder=tmp_path).endswith("must be on or off.")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("http://localhost:11434/v1", "http://localhost:11434/v1"),
        ("https://api.example.com/v1///", "https://api.example.com/v1"),
        ("https://api.example.com/v1/chat/completions", "https://api.example.com/v1"),
        ("https://api.example.com/v1//chat/completions//", "https://api.example.com/v1"),
        ("HTTPS://api.example.com/V1/Chat/Completions", "HTTPS://api.example.com/V1"),
        ("https://api.example.com", "https://api.example.com"),
        ("https://api.example.com/chat/completions", "https://api.example.com"),
        ("http://[::1]:8080/v1", "http://[::1]:8080/v1"),
        ("http://llama_box.local.:80/v1", "http://llama_box.local.:80/v1"),
        (" “http://127.0.0.1:1234/v1” ", "http://127.0.0.1:1234/v1"),
        ("https://gateway.example/mychat/completions", "https://gateway.example/mychat/completions"),
    ],
)
def test_base_urls_that_are_meant_well_work(tmp_path: Path, written: str, meant: str) -> None:
    assert load({"OPENAI_BASE_URL": written}, folder=tmp_path).base_url == meant


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("localhost:11434/v1", "must start with http:// or https://"),
        ("api.openai.com", "must start with http:// or https://"),
        ("ftp://example.com", "must start with http:// or https://"),
        ("http:/example.com", "must start with http:// or https://"),
        ("http://", "names no server"),
        ("http:///v1", "names no server"),
        ("http://example.com:99999/v1", "names no server and port"),
        ("http://example.com:port/v1", "names no server and port"),
        ("http://[::1/v1", "names no server"),
        ("http://1.2.3.400/v1", "names no server"),
        ("http://a..b/v1", "names no server"),
        ("http://" + "a" * 64 + ".com", "names no server"),
        ("http://" + "a." * 126 + "com", "names no server"),
        ("https://example.com/" + "a/" * 1000, "names no server"),
        ("https://exa mple.com/v1", "has the character U+0020 in it"),
        ("https://example.com/v1\nX: y", "has the character U+000A in it"),
        ("https://exämple.com/v1", "has the character U+00E4 in it"),
        ("https://example.com/v1?api-version=1", "must not go on with ? or #"),
        ("https://example.com/#v1", "must not go on with ? or #"),
    ],
)
def test_base_urls_that_cannot_work_are_one_sentence(tmp_path: Path, bad: str, reason: str) -> None:
    said = refusal({"OPENAI_BASE_URL": bad}, folder=tmp_path)
    assert said.startswith("OPENAI_BASE_URL=")
    assert reason in said
    assert "\n" not in said


def test_a_password_in_an_address_is_refused_and_not_shown(tmp_path: Path) -> None:
    for bad in (
        "https://ada:hunter2@example.com/v1",
        "ada:hunter2@example.com",
        "https://ada:hun/ter2@example.com",
    ):
        said = refusal({"OPENAI_BASE_URL": bad}, folder=tmp_path)
        assert "***@example.com" in said
        assert "hun" not in said
        assert "ada" not in said


@given(
    st.text(st.characters(codec="ascii"), max_size=30), st.sampled_from(["", "/v1", "/v1/chat/completions"])
)
@example("[::1]:8080", "/v1")
@example("[fe80::1%eth0]", "")
@example("1.2.3.4.5", "")
@example("host:", "")
def test_an_address_that_passes_makes_the_client_raise_nothing(
    tmp_path_factory: pytest.TempPathFactory, host: str, path: str
) -> None:
    import httpx2

    try:
        settings = load({"OPENAI_BASE_URL": f"http://{host}{path}"}, folder=tmp_path_factory.getbasetemp())
    except ConfigError:
        return
    url = httpx2.URL(f"{settings.base_url}/chat/completions")
    assert url.host
    assert url.path.endswith("/chat/completions")
    assert "chat/completions/chat" not in url.path
    url.host.encode("idna")  # what a look-up of the name does first


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("OPENAI_MODEL", "gpt\n4o"),
        ("OPENAI_MODEL", "“gpt-4o"),
        ("OPENAI_MODEL", "gpt\x1b[31m"),
        ("OPENAI_MODEL", "gpt\udcff"),
        ("OPENAI_SUMMARY_MODEL", 'a"b'),
        ("SYSTEM_PROMPT", "Be \x00 brief"),
        ("SYSTEM_PROMPT", "Be \udcff brief"),
        ("MINI_AGENT_HOME", "a\x00b"),
        ("MINI_AGENT_TOOLS", "~nobody-of-that-name/tools.py"),
    ],
)
def test_text_that_would_break_something_later_is_refused_now(tmp_path: Path, field: str, bad: str) -> None:
    said = refusal({field: bad}, folder=tmp_path)
    assert said.startswith(f"{field}=")
    assert said.isprintable()


def test_a_home_that_is_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert refusal({"MINI_AGENT_HOME": str(file)}, folder=tmp_path).endswith(
        "must be a folder, and is a file."
    )


def test_a_budget_below_the_instructions_is_refused(tmp_path: Path) -> None:
    environ = {"CONTEXT_TOKEN_BUDGET": "300", "SYSTEM_PROMPT": "Be brief. " * 200}
    said = refusal(environ, folder=tmp_path)
    assert said.startswith(
        "CONTEXT_TOKEN_BUDGET=300 cannot hold SYSTEM_PROMPT, which takes more than 333 tokens"
    )
    assert load(environ | {"CONTEXT_TOKEN_BUDGET": "400"}, folder=tmp_path).context_token_budget == 400


# -------------------------------------------------------------------------------------- keys


@pytest.mark.parametrize(
    "written", [KEY, f"  {KEY}\r\n", f'"{KEY}"', f"“{KEY}”", f"‘{KEY}’", f"\ufeff{KEY}\u200b"]
)
def test_what_a_paste_brings_along_is_taken_off_a_key(tmp_path: Path, written: str) -> None:
    assert load({"OPENAI_API_KEY": written}, folder=tmp_path).api_key == KEY


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (f"{KEY}\n{KEY}", "has a line break in it"),
        (f"Bearer {KEY}", "has a blank in it: paste the key alone, without 'Bearer'"),
        (f"{KEY}é", "has the character U+00E9 in it"),
        (f"“{KEY}", "has the character U+201C in it"),
        (f"{KEY}\x00", "has the character U+0000 in it"),
        (f"{KEY}\udcff", "has the character U+DCFF in it"),
    ],
)
def test_a_key_that_no_header_can_carry_is_one_sentence_without_it(
    tmp_path: Path, bad: str, reason: str
) -> None:
    said = refusal({"OPENAI_API_KEY": bad}, folder=tmp_path)
    assert said.startswith(f"OPENAI_API_KEY (environment) {reason}")
    assert KEY not in said


@pytest.mark.parametrize("variable", [v for v in VARIABLES if v.option], ids=lambda v: v.name)
@pytest.mark.parametrize(
    "key", [KEY, "gsk_1234567890abcdefgh", "AIzaSyA1234567890abc-defghijklmnopqrs", "0123456789abcdef" * 2]
)
@pytest.mark.parametrize("known", [True, False])
def test_a_key_in_another_variable_is_refused_and_not_shown(
    tmp_path: Path, variable: config.Variable, key: str, known: bool
) -> None:
    environ = {variable.name: key} | ({"OPENAI_API_KEY": key} if known else {})
    said = refusal(environ, folder=tmp_path)
    assert said == f"{variable.name} (environment) seems to hold a key: only OPENAI_API_KEY may."


@pytest.mark.parametrize(
    ("environ", "hidden"),
    [
        ({"OPENAI_BASE_URL": f"https://example.com/{KEY}"}, KEY),
        (
            {"OPENAI_TIMEOUT": "w0rd", "OPENAI_API_KEY": "w0rd"},
            "w0rd",
        ),  # a short key is a word like any other
        ({"OPENAI_TIMEOUT": "abcdefghij0123456789"}, "abcdefghij0"),
    ],
)
def test_a_key_inside_of_another_value_is_not_shown(
    tmp_path: Path, environ: dict[str, str], hidden: str
) -> None:
    assert hidden not in refusal(environ, folder=tmp_path)


def test_of_two_keys_the_longer_is_hidden_whole() -> None:
    assert redact("my w0rdly", ["w0rd", "w0rdly"]) == "my ***"


@pytest.mark.parametrize(
    "model",
    [
        "gpt-4o-mini-2024-07-18",
        "meta-llama/Llama-3.3-70B-Instruct-Turbo-Free",
        "hf.co/bartowski/Qwen2.5-Coder-32B-Instruct-GGUF:Q4_K_M",
        "ft:gpt-4o-mini-2024-07-18:my-org:custom:7p4lURel",
        "claude-3-5-sonnet-20241022",
        "accounts/fireworks/models/deepseek-v3p1",
        "sk-internationalization-2",
        "ollama",
    ],
)
def test_no_models_name_is_taken_for_a_key(tmp_path: Path, model: str) -> None:
    assert load({"OPENAI_MODEL": model, "OPENAI_API_KEY": "ollama"}, folder=tmp_path).model == model


def test_the_key_is_in_no_text_of_the_settings(tmp_path: Path) -> None:
    settings = load({"OPENAI_API_KEY": KEY}, folder=tmp_path)
    assert KEY not in f"{settings}{settings!r}"
    assert "gpt-4o-mini" in repr(settings)


shaped_keys = st.from_regex(r"\A(sk-proj-|gsk_|hf_)[a-z]{2}[0-9][A-Za-z0-9]{17,40}\Z")
any_keys = st.from_regex(r"\A[!-~]{12,40}\Z").filter(lambda key: not set(key) & set("\"'`\\/#$~@"))


@st.composite
def env_files(draw: st.DrawFn) -> tuple[str, bool, bytes]:
    """A key, whether it is set as such, and a file where it stands anywhere, whole or in two lines."""
    key, known = draw(st.tuples(shaped_keys, st.booleans()) | st.tuples(any_keys, st.just(True)))
    names = st.sampled_from([*(v.name for v in VARIABLES), "OPENAI_API_KEY", "OPENAI_BASE_URL", "OTHER", ""])
    signs = st.sampled_from(["=", " = ", "= ", "", ": "])
    junk = st.text(st.sampled_from(" \t\"'“”‘’#=\\$:/@.\n\r\0é€😀"), max_size=6)
    values = st.tuples(junk, st.sampled_from([key, "", "http://", "8000", f"{key[:8]}\n{key[8:]}"]), junk)
    lines = draw(st.lists(st.tuples(names, signs, values), max_size=6))
    text = "\n".join(name + sign + "".join(value) for name, sign, value in lines)
    encoding = draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252"]))
    return key, known, text.encode(encoding, "replace")


def outcome(environ: dict[str, str], env: bytes, folder: Path) -> Settings | ConfigError:
    try:
        return load(environ, env=env, folder=folder)
    except ConfigError as error:
        return error


@given(env_files() | st.tuples(shaped_keys, st.booleans(), st.binary(max_size=200)))
def test_any_file_gives_settings_or_one_sentence_and_never_shows_the_key(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[str, bool, bytes]
) -> None:
    key, known, raw = case
    got = outcome({"OPENAI_API_KEY": key} if known else {}, raw, tmp_path_factory.getbasetemp())
    assert key not in f"{got}{got!r}"
    if isinstance(got, ConfigError):
        assert str(got).isprintable()
        assert str(got).endswith((".", "?"))
        assert len(str(got)) < 400
        assert key not in "".join(traceback.format_exception(got))


# -------------------------------------------------------------------- derived from the table


def test_the_table_and_the_settings_name_the_same_fields() -> None:
    assert sorted(v.field for v in VARIABLES) == sorted(f.name for f in fields(Settings))


def test_every_setting_but_the_key_is_an_option(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    add_options(parser)
    assert "api_key" not in vars(parser.parse_args([]))
    samples = {
        "on|off": "on",
        "URL": "http://example.com/v1",
        "path": str(tmp_path / "x"),
        "text": "50 % off",
        "model name": "m",
    }
    for variable in VARIABLES:
        if variable.option:
            value = samples.get(variable.unit, str(variable.high))
            overrides = vars(parser.parse_args([variable.option, value]))
            settings = load(folder=tmp_path, **overrides)
            given_value = getattr(settings, variable.field)
            assert str(given_value).removesuffix(".0") == {"on": "True"}.get(value, value)
    help_text = " ".join(parser.format_help().split())
    for variable in VARIABLES:
        if variable.option:
            assert variable.name in help_text
            assert variable.help in help_text


def test_env_example_documents_every_variable_with_what_is_allowed_and_its_default() -> None:
    blocks = (ROOT / ".env.example").read_text("utf-8").split("\n\n")
    documented = {
        match[1]: block for block in blocks if (match := re.search(r"^#([A-Z_]+)=", block, re.MULTILINE))
    }
    assert list(documented) == [variable.name for variable in VARIABLES]
    for variable in VARIABLES:
        comment, _, line = documented[variable.name].strip().rpartition("\n")
        comment = " ".join(part.removeprefix("# ") for part in comment.splitlines())
        assert variable.help in comment
        assert variable.allowed.lower() in comment.lower()
        if variable.default is None:
            assert comment.endswith("Default: unset.")
        else:
            assert line == f"#{variable.name}={variable.default_text}"


def test_env_example_means_the_defaults_as_it_is_and_works_when_all_of_it_is_switched_on(
    tmp_path: Path,
) -> None:
    example_text = (ROOT / ".env.example").read_text("utf-8")
    assert load(env=example_text, folder=tmp_path) == load(folder=tmp_path)
    switched_on = re.sub(r"^#(?=[A-Z_]+=)", "", example_text, flags=re.MULTILINE)
    settings = load(env=switched_on, folder=tmp_path)
    for variable in VARIABLES:
        if variable.default is not None:
            assert getattr(settings, variable.field) == variable.default


def test_importing_it_loads_nothing_heavy_and_does_nothing() -> None:
    code = "import sys, config; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    heavy = {
        "openai",
        "tiktoken",
        "markdown_it",
        "prompt_toolkit",
        "pydantic",
        "dotenv",
        "platformdirs",
        "argparse",
        "logging",
    }
    assert not heavy & set(done.stdout.split())
    assert done.stderr == ""


def _empty(folder: Path) -> Path:
    file = folder / "empty.env"
    file.touch()
    return file


def test_a_key_without_a_name_is_not_passed_over(tmp_path: Path) -> None:
    """People paste a key into an empty `.env`; as a name without a value it would mean nothing."""
    path = tmp_path / ".env"
    path.write_text(f"# mine\n{KEY}\n")
    with pytest.raises(ConfigError, match=r"\.env, line 2, is a key alone: begin it with OPENAI_API_KEY=\."):
        load_settings({}, {}, path)
