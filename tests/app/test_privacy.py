"""What is attacked, how images are compared, and what the command leaves."""

import math

import pytest
import torch
from torch import nn

from app.privacy.__main__ import main
from app.privacy.leaks import Leak, kept_values, kinds, partial_mean
from app.privacy.page import spread
from app.privacy.quality import psnr, ssim
from tests.tiny import ConvNet, linear_net


def test_psnr_by_hand():
    """An error of 0.1 everywhere is a mean square of 0.01, 20 dB."""
    image = torch.full((1, 1, 8, 8), 0.5)
    assert psnr(image, image + 0.1) == pytest.approx(20, abs=1e-4)
    assert psnr(image, image) == math.inf


def test_ssim_by_hand():
    """Flat images have no variance: (2ab + C1) / (a^2 + b^2 + C1), 0.3002 / 0.3401 for 0.3 and 0.5."""
    flat = torch.ones(1, 1, 8, 8)
    noise = torch.rand(1, 3, 9, 9, generator=torch.Generator().manual_seed(0))
    assert ssim(0.3 * flat, 0.5 * flat) == pytest.approx(0.3001 / 0.3401, abs=1e-4)
    assert ssim(noise, noise) == pytest.approx(1, abs=1e-5)
    assert ssim(noise, 1 - noise) < 0
    small = torch.rand(1, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    assert ssim(small, small) == pytest.approx(1, abs=1e-5)


def test_every_kind_of_update():
    model = ConvNet()
    everything = [name for name, _ in model.named_parameters()]
    found = list(kinds(model, 0.95))
    assert [kind.split(":")[0] for kind, _, _ in found] == ["full", *["partial"] * 3, *["sparse"] * 2]
    assert [names for _, names, by in found if by != "all"] == [everything] * 2
    assert found[1] == ("partial: group 0, conv1", ["conv1.weight", "bn1.weight", "bn1.bias"], "all")
    assert sorted(name for _, names, _ in found[1:4] for name in names) == sorted(everything)


def test_exactly_the_share_is_kept_and_what_is_no_weight_always():
    """Of 12 and 6 weights at sparsity 2/3, 6; and all 5 biases."""
    model = linear_net()
    names = [name for name, _ in model.named_parameters()]
    update = torch.arange(23.0)
    for by, sizes in (("changes", update), ("weights", nn.utils.parameters_to_vector(model.parameters()))):
        kept = kept_values(model, names, by, update, 2 / 3)
        biases = torch.tensor([False] * 12 + [True] * 3 + [False] * 6 + [True] * 2)
        assert kept[biases].all()
        assert int((kept & ~biases).sum()) == 6
        assert sizes[kept & ~biases].abs().min() >= sizes[~kept].abs().max()
    assert kept_values(model, names, "all", update, 0.9).all()


def test_partial_updates_together():
    leaks = [Leak("full", [40.0], [0.9]), Leak("partial: a", [10.0], [0.1]), Leak("partial: b", [20.0], [0.3])]
    assert (partial_mean(leaks).psnr, partial_mean(leaks).ssim) == ([10.0, 20.0], [0.1, 0.3])
    assert spread([10.0, 20.0]) == "15.00 ± 7.07"


def test_the_command_writes_one_page_that_loads_nothing(tmp_path, capsys):
    page = tmp_path / "a page.html"
    assert main(["--images", "2", "--iterations", "2", "--out", str(page), "seed=1"]) == 0
    out = capsys.readouterr().out
    assert all(word in out for word in ("full", "partial: group 4, fc", "sparse: the largest 5% of changes", str(page)))
    text = page.read_text()
    assert text.count("<img ") == 2 * (2 + 1 + 5 + 2)  # original and grey, full, five groups, two sparse
    assert text.count('<img src="data:image/png;base64,') == text.count("<img ")
    assert 'src="http' not in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["task=agnews"], "task=agnews: must be one of images"),
        (["--images", "0"], "--images=0: must be at least 1"),
        (["--iterations", "0"], "iterations=0: must be at least 1"),
        (["--sparsity", "95"], "--sparsity=95.0: must be at least 0 and below 1"),
        (["--weights", "/no/such/file"], "/no/such/file"),
        (["task.model=resnet9"], "task.model=resnet9: must be one of"),
    ],
)
def test_what_cannot_be_attacked_is_one_line(arguments, says, tmp_path, capsys):
    assert main([*arguments, "--out", str(tmp_path / "page.html")]) == 2
    complaint = capsys.readouterr().err
    assert says in complaint
    assert complaint.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
