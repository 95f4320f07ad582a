"""Accounts of a round by hand."""

from clients.messages import Reply
from strategies.cost import RoundReport


def test_accepted_replies_add_up():
    report = RoundReport(round=1)
    report.accept(4, Reply({}, 10, 1.0, 100, 300, 0.5))
    report.accept(7, Reply({}, 30, 2.0, 10, 30, 0.25))
    assert report.completed == [4, 7]
    assert report.train_loss == 1.75  # (10 * 1 + 30 * 2) / 40
    assert (report.macs, report.macs_dense, report.seconds_train) == (110, 330, 0.75)


def test_nobody_accepted_is_no_loss():
    assert RoundReport(round=1).train_loss is None


def test_bytes_are_counted_both_ways():
    report = RoundReport(round=1)
    report.sent(10, 100)
    report.sent(11, 101)
    report.received(3, 50)
    assert (report.bytes_down, report.bytes_up) == (21, 3)
    assert (report.bytes_dense, report.bytes_dense_up) == (251, 50)
