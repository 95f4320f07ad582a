"""Texts in parquet split among clients: files written here, the real ones, and a mocked hub."""

import datasets
import numpy as np
import pytest
import torch
from hydra.errors import InstantiationException

from clients.evaluation import evaluate
from clients.layers import layer_groups, layout
from clients.numpy_client import FederatedClient
from clients.plan import RoundPlan
from clients.tasks.partition import Iid
from clients.tasks.split_files import files_of_split
from clients.tasks.task import Examples
from clients.tasks.text import TextTask
from clients.tasks.texts import StoredTexts
from clients.tasks.vocabulary import build_vocabulary
from clients.training import LocalTraining

TEXTS = ["red apple", "blue sky today", "red", "blue blue sea", "a red red rose", "blue"]
LABELS = [0, 1, 0, 1, 0, 1]
SMALL = {"min_count": 1, "hidden": 8, "feedforward": 8, "layers": 1}


@pytest.fixture
def folder(tmp_path, write_table):
    place = tmp_path / "my data"
    write_table(place / "news-train.parquet", text=TEXTS, label=LABELS, year=[1, 2, 1, 2, 2, 2], of=list("ababab"))
    write_table(place / "news-test.parquet", text=["red sea", "unheard of"], label=[0, 1])
    return place


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def text_task(folder, where=None, classes=2, **settings):
    path = None if folder is None else str(folder)
    return TextTask("t", StoredTexts("some/texts", classes, path=path, where=where), Iid(), **{**SMALL, **settings})


def learn(task, model, epochs, lr, groups=None, batch_size=32):
    """One local round on all examples of the first client; its metrics."""
    settings = LocalTraining(epochs=epochs, batch_size=batch_size, threads=1)
    client = FederatedClient(model, task, task.client_examples(0), settings)
    plan = RoundPlan(round=1, groups=groups, learning_rate=lr, layout=layout(model, layer_groups(model)))
    return client.fit(client.get_parameters({}), plan.to_config())[2]


def test_examples_by_hand(folder, no_hub):
    task = text_task(folder, clients=1)
    test = task.test_examples()
    # by count: red and blue 4 each, then a, apple, rose, sea, sky, today; 0 is padding and 1 unknown
    assert test.inputs.tolist() == [[3, 7], [1, 1]]
    assert (test.inputs.dtype, test.targets.dtype) == (torch.int32, torch.int64)
    assert test.targets.tolist() == [0, 1]
    own = task.client_examples(0)
    assert own.inputs.shape == (6, 4)
    assert task.build_model(0).embedding.num_embeddings == 10


def test_the_parts_are_disjoint_and_follow_the_split(folder):
    task = text_task(folder, clients=3)
    parts = [task.client_examples(number) for number in range(3)]
    rows = [tuple(row[row != 0].tolist()) for part in parts for row in part.inputs]
    everything = text_task(folder, clients=1).client_examples(0).inputs
    assert sorted(rows) == sorted(tuple(row[row != 0].tolist()) for row in everything)
    assert task.split_statistics()["examples"] == [2, 2, 2]
    assert task.split_statistics()["overlap"] == 0
    assert task.client_examples(1) is parts[1]
    again = text_task(folder, clients=3).client_examples(1)
    assert torch.equal(again.inputs, parts[1].inputs)


def test_a_batch_is_cut_to_its_longest_text(folder):
    task = text_task(folder, clients=1)
    inputs = task.client_examples(0).inputs
    short = inputs[(inputs != 0).sum(dim=1) <= 2]
    prepared = task.prepare(short)
    assert (prepared.shape, prepared.dtype) == ((3, 2), torch.int64)
    model = task.build_model(0).eval()
    torch.testing.assert_close(model(prepared), model(short))
    assert task.prepare(torch.zeros(2, 5, dtype=torch.int32)).shape == (2, 1)
    assert task.augment(prepared, torch.Generator()) is prepared
    assert not task.augments


def test_a_blank_text_is_of_the_greatest_length(folder):
    task = text_task(folder, max_length=7)
    assert (task.blank().shape, task.blank().dtype) == ((1, 7), task.prepare(task.test_examples().inputs).dtype)
    assert task.build_model(0)(task.blank()).shape == (1, 2)


def test_batches_of_any_length_train_while_what_is_below_is_frozen(folder):
    """Several epochs over a frozen part: activations of texts of unlike length must not be mixed up."""
    task = text_task(folder, clients=1, dropout=0.0)
    model = task.build_model(0)
    for index, group in enumerate(layer_groups(model)):
        before = {name: value.clone() for name, value in model.state_dict().items()}
        metrics = learn(task, model, epochs=3, lr=1e-2, groups=(index,), batch_size=2)
        assert metrics["names"] == list(group)
        assert metrics["macs"] > 0
        moved = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
        assert moved
        assert moved <= set(group)


def test_where_chooses_training_rows_and_the_vocabulary_is_of_them(folder):
    task = text_task(folder, where={"year": 1}, clients=2)
    assert task.split_statistics()["examples"] == [1, 1]
    assert len(task.build_vocabulary().tokens) == 2  # red, apple
    assert len(task.test_examples()) == 2
    assert len(text_task(folder, where={"year": 2, "of": "a"}, clients=1).client_examples(0)) == 1


def test_same_seed_same_bits_and_global_generator_untouched(folder):
    before = torch.get_rng_state()
    first, second, other = (text_task(folder).build_model(seed).state_dict() for seed in (3, 3, 4))
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(value, second[name]) for name, value in first.items())
    assert not torch.equal(first["fc.weight"], other["fc.weight"])


def test_several_text_columns_are_joined_and_gaps_are_empty(tmp_path, write_table):
    write_table(tmp_path / "train.parquet", title=["A", None], content=["b c", "d"], label=[0, 1])
    source = StoredTexts("h", 2, ("title", "content"), path=str(tmp_path))
    assert source.train_texts().texts == ["A b c", " d"]
    assert source.train_texts(np.array([1])).texts == [" d"]


def test_the_hub_gives_the_same_as_files(folder, monkeypatch):
    local = text_task(folder, where={"of": "b"}, clients=1)
    hub = {split: datasets.Dataset(local.source.open(split).dataset.to_table()) for split in ("train", "test")}
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, split, **__: hub[split])
    remote = text_task(None, where={"of": "b"}, clients=1)
    assert torch.equal(remote.client_examples(0).inputs, local.client_examples(0).inputs)
    assert torch.equal(remote.test_examples().inputs, local.test_examples().inputs)


@pytest.mark.parametrize(
    ("names", "train_files", "test_files"),
    [
        (["train-0", "test-0"], ["train-0"], ["test-0"]),
        (["train_subset", "test"], ["train_subset"], ["test"]),
        (["news10-train", "news10-test"], ["news10-train"], ["news10-test"]),
        (["ag.train.full", "attest", "strained"], ["ag.train.full"], []),
        (["train", "pre-train"], ["train"], []),
    ],
)
def test_files_are_found_by_the_word_of_their_split(tmp_path, names, train_files, test_files):
    for name in names:
        (tmp_path / f"{name}.parquet").touch()
    for split, found in (("train", train_files), ("test", test_files)):
        assert [file.stem for file in files_of_split(tmp_path, split)] == found


def write_vocabulary(path, task):
    task.build_vocabulary().write(str(path), "for a test")
    return str(path)


def test_a_device_needs_the_shared_vocabulary_alone(folder, tmp_path, write_table, no_hub):
    shared = write_vocabulary(tmp_path / "words.txt", text_task(folder))
    own = write_table(tmp_path / "own.parquet", text=["Red rose.", "what"], label=[0, 1])
    device = text_task(tmp_path / "absent", vocabulary=shared)
    assert device.device_examples(str(own)).inputs.tolist() == [[3, 6], [1, 0]]
    assert len(device.device_examples(str(folder))) == 6  # of its files, the training ones
    model, server = device.build_model(1), text_task(folder).build_model(1)
    assert torch.equal(model.embedding.weight, server.embedding.weight)


def test_a_device_without_vocabulary_or_training_split_is_told(folder, tmp_path):
    with pytest.raises(ValueError, match=r"task\.vocabulary=null: a device with data of its own needs the vocabulary"):
        text_task(folder).device_examples(str(folder))
    with pytest.raises(ValueError, match=r"no such folder; .* without a training split .* give task\.vocabulary=FILE"):
        text_task(tmp_path / "absent").build_model(0)
    (folder / "news-train.parquet").unlink()
    with pytest.raises(ValueError, match=r"no train\*\.parquet or train\*\.csv in it; .* give task\.vocabulary=FILE"):
        text_task(folder).build_model(0)


def test_what_the_vocabulary_cannot_be_built_from_is_not_a_missing_split(folder, tmp_path, write_table, no_hub):
    """Then another vocabulary would be no remedy."""
    write_table(tmp_path / "labels" / "train.parquet", text=["a"], label=[2])
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "train.csv").write_text("text,label\na,0\nb\n")
    for place in (tmp_path / "labels", tmp_path / "broken", folder / "news-train.parquet"):
        with pytest.raises(ValueError, match=rf"^task\.data={place}") as caught:
            text_task(place).build_model(0)
        assert "task.vocabulary" not in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "where", "message"),
    [
        ({"text": ["a"], "label": [2]}, None, "a label is 2, must be 0 to 1"),
        ({"text": ["a"], "label": ["b"]}, None, r"labels are text, .*task\.classes=\[b,\.\.\.\]"),
        ({"text": [], "label": []}, None, "holds no examples"),
        ({"text": [3], "label": [1]}, None, "column text holds int64, must be text"),
        ({"words": ["a"], "label": [1]}, None, "no column text; the columns are: words, label"),
        ({"text": ["a"], "label": [1]}, {"of": "b"}, "no column of; the columns are: text, label"),
        ({"text": ["a"], "label": [1], "of": ["a"]}, {"of": "b"}, "has no such training row"),
        ({"text": ["a"], "label": [1], "of": ["a"]}, {"of": 3}, "holds values of another type there"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_one_line(tmp_path, write_table, columns, where, message, no_hub):
    write_table(tmp_path / "train.parquet", **columns)
    with pytest.raises(ValueError, match=message) as caught:
        text_task(tmp_path, where=where, clients=1).client_examples(0)
    given = f"task.where={where}: " if "no column" not in message and where else ""
    assert str(caught.value).startswith(f"{given}task.data={tmp_path}/train.parquet")
    assert "task.vocabulary" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_device_is_told_what_is_wrong_with_its_path(folder, tmp_path):
    task = text_task(folder, vocabulary=write_vocabulary(tmp_path / "words.txt", text_task(folder)))
    (tmp_path / "own.npz").touch()
    for name, message in (("none", "no such file or folder"), ("own.npz", r"is a \.npz file, must be \.parquet")):
        with pytest.raises(ValueError, match=message) as caught:
            task.device_examples(str(tmp_path / name))
        assert str(caught.value).startswith(f"{tmp_path / name}: ")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("+task.classes=3", "task.classes=3: its data have 4; leave it out"),
        ("task.heads=3", "task.heads=3: must divide task.hidden=200"),
        ("task.layers=0", "task.layers=0: must be 1 or more"),
        ("task.dropout=1.0", "task.dropout=1.0: must be from 0 to below 1"),
        ("task.tokens=letters", "task.tokens=letters: must be one of words, characters"),
        ("task.min_count=0", "task.min_count=0: must be 1 or more"),
        ("task.model=lstm", "task.model=lstm: must be transformer, or package.module:Class"),
        ("task.clients=0", "task.clients=0: must be 1 or more"),
        ("task.source.text_columns=[]", "task.source.text_columns=[]: must name one column or more"),
    ],
)
def test_settings_that_cannot_be(make_task, override, message):
    with pytest.raises(InstantiationException) as caught:
        make_task("task=agnews", override)
    assert str(caught.value.__cause__) == message


def test_a_toy_problem_is_learnt(tmp_path, write_table):
    """The class is the colour that stands somewhere in the text."""
    draws = np.random.default_rng(0)
    labels = draws.integers(0, 2, 200)
    texts = [" ".join(draws.permutation(["red" if label else "blue", *"abcdefg"])) for label in labels]
    write_table(tmp_path / "train.parquet", text=texts[:150], label=labels[:150])
    write_table(tmp_path / "test.parquet", text=texts[150:], label=labels[150:])
    task = text_task(tmp_path, clients=1, hidden=16, dropout=0.0)
    model = task.build_model(0)
    learn(task, model, epochs=12, lr=1e-2)
    assert evaluate(model, task, task.test_examples())[1] == 1.0


def test_real_ag_news_is_learnt(real_data, make_task):
    task = make_task(
        "task=agnews", f"task.data='{real_data('agnews')}'", "task.where={source: iid5k}", "task.clients=1",
        "task.max_length=32", "task.hidden=16", "task.feedforward=16", "task.layers=1",
    )  # fmt: skip
    statistics = task.split_statistics()
    assert statistics["examples"] == [4999]
    assert min(statistics["classes"][0]) > 1200
    test = task.test_examples()
    some = Examples(test.inputs[:2000], test.targets[:2000])
    model = task.build_model(0)
    learn(task, model, epochs=2, lr=5e-3)
    assert evaluate(model, task, some)[1] > 0.7  # chance: 0.25


def test_real_headlines_by_characters(real_data, make_task):
    task = make_task(
        "task=sogou", f"task.data='{real_data('text-small')}'", "task.tokens=characters",
        "task.source.text_columns=[text]", "task.source.classes=10", "task.clients=40", "partition=dirichlet",
    )  # fmt: skip
    assert sum(task.split_statistics()["examples"]) == 10_000
    examples = task.client_examples(39)
    assert (examples.inputs > 1).float().mean() > 0.5  # most characters are known
    assert task.build_model(0)(task.prepare(examples.inputs[:4])).shape == (4, 10)
    vocabulary = task.build_vocabulary()
    assert vocabulary == build_vocabulary(task.source.train_texts().texts[::-1], "characters", 5)


def test_csv_gives_the_same_as_parquet(tmp_path, write_table):
    columns = {"text": ["one, two", 'say "a\nb"', ""], "label": ["no", "yes", "no"], "writer": [1, 2, 1]}
    write_table(tmp_path / "tables" / "train.parquet", **columns)
    (tmp_path / "csv").mkdir()
    text = 'text,label,writer\n"one, two",no,1\n"say ""a\nb""",yes,2\n"",no,1\n'
    (tmp_path / "csv" / "train.csv").write_text(text)
    tables, csv = (StoredTexts(None, ("no", "yes"), path=str(tmp_path / name)) for name in ("tables", "csv"))
    for source in (tables, csv):
        assert source.train_texts().texts == columns["text"]
        assert source.train_texts(np.array([1, 0])).labels.tolist() == [1, 0]
        assert source.table.columns["writer"].tolist() == [1, 2, 1]
    assert tables.device_texts(str(tmp_path / "csv")).texts == columns["text"]
    assert tables.device_texts(str(tmp_path / "csv" / "train.csv")).labels.tolist() == [0, 1, 0]


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_csv_file_without_any_rows(tmp_path, split):
    (tmp_path / "train.csv").write_text("text,label\na,0\n")
    (tmp_path / f"{split}.csv").write_text("text,label\n")
    source = StoredTexts(None, 2, path=str(tmp_path))
    with pytest.raises(ValueError, match=rf"^task.data={tmp_path}/{split}.csv: holds no examples$"):
        _ = source.table, source.test_texts()


def test_a_csv_file_that_is_none(tmp_path):
    (tmp_path / "train.csv").write_text("text,label\na,0\nb\n")
    with pytest.raises(ValueError, match=r"^task.data=.*/train.csv: not readable as csv \(CSV parse error: .*\)$"):
        _ = StoredTexts(None, 2, path=str(tmp_path)).table
