"""Tokens, their numbers, and the file that carries them."""

import sys

import pytest

from app import vocabulary as command
from clients.tasks.vocabulary import Vocabulary, build_vocabulary, read_vocabulary, tokenize

TEXTS = ["The cat, the DOG.", "A dog's cat!", "the bird"]


def test_words_and_characters():
    assert tokenize("Haiti #39;s WON'T stop-gap\\new 3.5", "words") == [
        "haiti", "39", "s", "won't", "stop", "gap", "new", "3", "5",
    ]  # fmt: skip
    assert tokenize("港股 A\u3000缩\n", "characters") == ["港", "股", "a", "缩"]


def test_counts_descend_and_ties_are_alphabetical():
    assert build_vocabulary(TEXTS, "words", 1).tokens == ("the", "cat", "a", "bird", "dog", "dog's")
    assert build_vocabulary(TEXTS, "words", 2).tokens == ("the", "cat")
    assert build_vocabulary(TEXTS[::-1], "words", 1) == build_vocabulary(TEXTS, "words", 1)


def test_encoding_by_hand():
    known = Vocabulary("words", ("the", "cat"))  # 0 padding, 1 unknown, 2 the, 3 cat
    assert len(known) == 4
    assert known.encode(["The cat sat", "cat", "..."], max_length=9).tolist() == [[2, 3, 1], [3, 0, 0], [1, 0, 0]]
    assert known.encode(["the cat the cat"], max_length=3).tolist() == [[2, 3, 2]]
    assert known.encode([], max_length=3).shape == (0, 1)


def test_no_token_is_frequent_enough():
    with pytest.raises(ValueError, match=r"task\.min_count=9: no token is as frequent in the 3 training texts"):
        build_vocabulary(TEXTS, "words", 9)


@pytest.mark.parametrize("kind", ["words", "characters"])
def test_the_file_gives_back_the_same(tmp_path, kind):
    path = str(tmp_path / "a folder" / "vocabulary.txt")
    known = build_vocabulary([*TEXTS, "# 股 \x1c \u2028 #", "\ufeff"], kind, 1)
    known.write(path, "made of\ntwo lines")
    assert read_vocabulary(path, kind) == known


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "not readable (No such file or directory); python -m app.vocabulary writes it"),
        (b"\xff\xfe", "not UTF-8 text"),
        (b"the\ncat\n", "no vocabulary; its first line must begin with '# fedslice vocabulary: tokens='"),
        (b"", "no vocabulary; its first line must begin with '# fedslice vocabulary: tokens='"),
        (
            b"# fedslice vocabulary: tokens=characters x\na",
            "holds characters, but task.tokens=words; they must be equal",
        ),
        (b"# fedslice vocabulary: tokens=words x\na\na\n", "a token is empty or there twice"),
        (b"# fedslice vocabulary: tokens=words x\na\n\nb\n", "a token is empty or there twice"),
    ],
)
def test_a_file_that_is_none_is_said_in_one_line(tmp_path, content, message):
    path = tmp_path / "vocabulary.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError) as caught:
        read_vocabulary(str(path), "words")
    assert str(caught.value) == f"task.vocabulary={path}: {message}"


def test_the_command_writes_what_a_run_would_build(tmp_path, write_table, monkeypatch, capsys):
    write_table(tmp_path / "train.parquet", text=TEXTS, label=[0, 1, 2])
    path = tmp_path / "vocabulary.txt"
    overrides = ["task=agnews", f"task.data='{tmp_path}'", "task.min_count=2"]
    monkeypatch.setattr(sys, "argv", ["vocabulary", *overrides, f"task.vocabulary='{path}'"])
    assert command.main() == 0
    assert capsys.readouterr().out == f"{path}: 2 words\n"
    assert path.read_text() == (
        "# fedslice vocabulary: tokens=words min_count=2 of=fancyzhx/ag_news where=None\nthe\ncat\n"
    )


@pytest.mark.parametrize("overrides", [["task=digits"], ["task=agnews"]])
def test_the_command_says_what_it_needs(overrides, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["vocabulary", *overrides])
    assert command.main() == 2
    assert capsys.readouterr().err.startswith("fedslice: task.vocabulary: give the file to write")
