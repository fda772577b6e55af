"""The words in which faults are told."""

import pickle
from unicodedata import category

import pytest

import vlnbert
from vlnbert.api.arguments import as_option
from vlnbert.api.training import changed_preset
from vlnbert.errors import (
    LONGEST_LINE,
    MOST_FAULTS,
    SHOWN_FAULTS,
    DataError,
    Fault,
    Faults,
    InvalidFileError,
    RenamedError,
    UnknownNameError,
    UsageError,
    VlnbertError,
    near_names,
    printable,
    setting,
    spelling,
)


def test_a_fault_is_one_line_whatever_its_words_hold():
    error = DataError("a.json", "is\nbad", "mend\t it", "item\r\n3")
    assert str(error) == "a.json: item 3: is bad; mend it"


def test_a_wrong_usage_is_one_line_whatever_it_quotes():
    assert str(UsageError("training has no a\nb")) == r"training has no a\x0ab"


def test_no_place_no_colon():
    assert str(DataError("a.json", "is bad", "mend it")) == "a.json: is bad; mend it"


def test_faults_are_raised_together_and_kept(tmp_path):
    faults = Faults(tmp_path)
    faults.raise_if_any()
    faults.add("item 1", "is bad", "mend it")
    faults.add("item 2", "is worse", "drop it")
    with pytest.raises(InvalidFileError) as caught:
        faults.raise_if_any()
    lines = [f"{tmp_path}: item 1: is bad; mend it", f"{tmp_path}: item 2: is worse; drop it"]
    assert str(caught.value).splitlines() == lines
    assert [fault.place for fault in caught.value.faults] == ["item 1", "item 2"]
    assert (caught.value.path, caught.value.place) == (tmp_path, "item 1")


def test_many_faults_do_not_fill_the_screen():
    faults = Faults("a.json")
    for index in range(1234):
        faults.add(f"item {index}", "is bad", "mend it")
    with pytest.raises(InvalidFileError) as caught:
        faults.raise_if_any()
    lines = str(caught.value).splitlines()
    assert len(lines) == SHOWN_FAULTS + 1
    assert lines[-1] == "a.json: and 1,214 more faults of 1,234"


@pytest.mark.parametrize(
    ("name", "hint"),
    [("val_unsen", "did you mean val_unseen"), ("xyz", "known: train, val_unseen"), ("", "known: train, val_unseen")],
)
def test_unknown_names_get_a_hint(name, hint):
    with pytest.raises(VlnbertError, match=hint):
        raise UnknownNameError("split", name, ["val_unseen", "train"])


def test_a_long_catalogue_is_not_told_whole():
    names = [f"{k:02}" for k in range(40)]
    assert str(UnknownNameError("scan", "xyz", names)).endswith("known: " + ", ".join(names[:12]) + " and 28 more")


def test_nothing_known():
    assert str(UnknownNameError("split", "x", [])) == "no split 'x'; known: none"


@pytest.mark.parametrize(
    "error",
    [
        DataError("a", "is bad", "mend it", "item 1"),
        InvalidFileError("a", [Fault("item 1", "is bad", "mend it"), Fault("item 2", "is bad", "mend it")]),
        UnknownNameError("split", "x", ["y"]),
        RenamedError("setting", "x", "y"),
        UsageError("no such thing"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_cross_process_borders(error):
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


def test_faults_of_several_files_are_told_together(tmp_path):
    faults, one, other = Faults(tmp_path), tmp_path / "one", tmp_path / "other"
    with faults.including():
        raise DataError(one, "is bad", "mend it")
    with faults.including():
        raise InvalidFileError(other, [Fault("item 1", "is bad", "mend it"), Fault("item 2", "is bad", "mend it")])
    faults.add("", "is worse", "drop it")
    with pytest.raises(InvalidFileError) as caught:
        faults.raise_if_any()
    assert str(caught.value).splitlines() == [
        f"{one}: is bad; mend it",
        f"{other}: item 1: is bad; mend it",
        f"{other}: item 2: is bad; mend it",
        f"{tmp_path}: is worse; drop it",
    ]


def test_a_fault_can_be_shown_whatever_its_words_hold():
    for error in (DataError("a", "b", "c", "item \ud800"), UnknownNameError("split", "\ud800", [])):
        str(error).encode()


def test_what_cannot_be_seen_is_spelt_out():
    """Every character of format, not only those that turn the text."""
    unseen = [chr(code) for code in range(0x110000) if category(chr(code)) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    assert {"\u061c", "\u200b", "\u2060", "\U000e0041", "\xad"} <= set(unseen)
    assert all(printable(one).isprintable() for one in unseen)
    assert printable("a\u200bb\U000e0041c") == r"a\u200bb\U000e0041c"
    assert printable("\x07é\u3000\U0001f600\xa0") == "\\x07é\u3000\U0001f600\xa0", "letters and blanks stay"


NASTY = "\x1b[2Jx\u202e\x9b\x07\u2028"
SHOWN = r"\x1b[2Jx\u202e\x9b\x07\u2028"


@pytest.mark.parametrize(
    "error",
    [
        DataError("a", NASTY, "mend it"),
        DataError(NASTY, "is bad", "mend it", NASTY),
        UsageError(f"{NASTY} is no number"),
        UnknownNameError("split", NASTY, []),
        InvalidFileError("a", [Fault(NASTY, "is bad", "mend it")]),
    ],
    ids=["problem", "path", "usage", "name", "place"],
)
def test_control_characters_are_shown_and_not_sent(error):
    assert SHOWN.replace(r"\u2028", "") in str(error).replace(r"\u2028", "")
    assert str(error).isprintable()


@pytest.mark.parametrize(
    "error",
    [
        DataError("a", "is " + "x" * 10_000, "mend it"),
        DataError("a", "is bad", "mend it", "x" * 10_000),
        DataError("/" + "x" * 10_000 + "/a.json", "is bad", "mend it"),
        UsageError("x" * 10_000),
        UnknownNameError("split", "x" * 10_000, ["y" * 10_000]),
        InvalidFileError("a", [Fault("x" * 10_000, "is bad", "mend it")] * 30),
    ],
    ids=["problem", "place", "path", "usage", "name", "many"],
)
def test_a_line_ends_at_500_characters(error):
    lines = str(error).split("\n")
    assert max(map(len, lines)) <= LONGEST_LINE < 500
    if isinstance(error, DataError):
        assert lines[0].endswith("; mend it"), "what to do is told all the same"


def test_a_long_path_keeps_its_end():
    assert "/a.json: is bad; mend it" in str(DataError("/" + "x" * 10_000 + "/a.json", "is bad", "mend it"))


def test_a_great_many_faults_end_the_reading():
    faults = Faults("a.json")

    def read():
        for index in range(20_000):
            faults.add(f"item {index}" + "x" * 10_000, "is bad", "mend it")

    with pytest.raises(InvalidFileError, match=r"9,980 more faults of 10,000; the rest was not looked at$") as caught:
        read()
    assert len(caught.value.faults) == MOST_FAULTS
    assert max(len(fault.place) for fault in caught.value.faults) <= LONGEST_LINE


def test_a_great_many_faults_of_several_files_end_the_reading():
    faults, files = Faults("folder"), []

    def read():
        for number in range(100):
            with faults.including():
                files.append(number)
                raise InvalidFileError("a", [Fault("", "is bad", "mend it")] * 3000)

    with pytest.raises(InvalidFileError, match=r"the rest was not looked at$"):
        read()
    assert len(files) == 4


def test_an_unknown_name_is_a_key_error_that_reads_well():
    error = UnknownNameError("split", "x", ["y"])
    assert isinstance(error, KeyError)
    assert str(error) == "no split 'x'; known: y"
    assert vlnbert.presets.get("x") is None


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("rate", ["learning_rate"]),
        ("batches", ["training.batch"]),
        ("training.batc", ["training.batch"]),
        ("trainig.batch", ["training.batch"]),
        ("training.rate", ["learning_rate"]),  # not training.batch, which shares the group alone
        ("limit", []),
        ("x", []),
    ],
)
def test_near_names(name, near):
    assert near_names(name, ["learning_rate", "training.batch", "training.patience", "imitation", "layers"]) == near


SETTINGS = {
    **{"rate": "learning_rate", "lr": "learning_rate", "epochs": "iterations", "steps": "iterations"},
    **{"max_iters": "iterations", "batch_size": "batch", "bs": "batch", "dropout": "hidden_dropout"},
    **{"limit": "max_steps", "clip": "grad_clip", "guidance": "student_forcing", "val_every": "validate_every"},
    **{"tokens": "max_tokens", "most_objects": "max_objects", "training.rate": "training.learning_rate"},
    "training.lr": "training.learning_rate",
}


@pytest.mark.parametrize(("name", "now"), SETTINGS.items())
def test_other_names_of_settings_are_answered_with_ours(name, now):
    with pytest.raises(UnknownNameError) as caught:
        changed_preset("demo", {name: 1})
    assert str(caught.value) == f"the setting {name} is called {now} now"


SPELLINGS = [
    (("training.batch", 4), "batch=4", "--training.batch 4"),
    (("training.batch",), "batch", "--training.batch"),
    (("start", "runs/a"), "start='runs/a'", "--start runs/a"),
    (("data", "DIR"), "data=DIR", "--data DIR"),
    (("training.graphs", False), "graphs=False", "--training.no-graphs"),
    (("allow_missing", True), "allow_missing=True", "--allow-missing"),
    (("features.max_objects", 0), "max_objects=0", "--features.max-objects 0"),
]


@pytest.mark.parametrize(("given", "in_python", "in_a_shell"), SPELLINGS)
def test_settings_are_spelt_as_the_reader_writes_them(given, in_python, in_a_shell):
    assert setting(*given) == in_python
    with spelling(as_option):
        assert setting(*given) == in_a_shell
    assert setting(*given) == in_python
