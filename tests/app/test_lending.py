"""What is lent is written once, read once, and removed when nobody needs it."""

from app.lending import Borrower, Lender

LARGE, OTHER = bytes(100_000), bytes([1]) * 100_000


def test_large_bytes_are_written_and_read_once(tmp_path):
    lender, borrower = Lender(tmp_path), Borrower()
    first, files = lender.pack({"model": LARGE, "name": b"small"})
    second, again = lender.pack(("another", LARGE))
    assert len(first) < 1000
    assert files == again == set(tmp_path.iterdir())
    value = borrower.unpack(first)
    assert value == {"model": LARGE, "name": b"small"}
    assert borrower.unpack(second)[1] is value["model"]


def test_files_stay_as_long_as_they_are_named(tmp_path):
    lender = Lender(tmp_path)
    _, files = lender.pack(LARGE)
    data, others = lender.pack(OTHER)
    lender.keep(others)
    assert set(tmp_path.iterdir()) == others != files
    assert Borrower().unpack(data) == OTHER
    data, files = lender.pack(LARGE)  # written anew
    assert Borrower().unpack(data) == LARGE
    lender.keep([])
    assert not list(tmp_path.iterdir())
