"""Looking inside: the ascents climb, MACO keeps the spectrum, and a run's page shows every layer, offline."""

import re

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from torch import nn

from app.inspect.__main__ import main
from app.inspect.features import maco, mean_spectrum, plain, respond
from app.inspect.models import load
from tests.runs import play
from tests.tiny import ConvNet


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return [play(folder / name, "rounds=2", *extra).folder for name, extra in RUNS.items()]


RUNS = {"full": ["strategy=fedavg"], "partial <b>": ["strategy.warmup=1"]}


def start(channels=1, size=8):
    return 0.1 * torch.randn(3, channels, size, size, generator=torch.Generator().manual_seed(0))


def ascend(method, response, *spectrum, steps=60):
    return method(response, start(), *spectrum, steps, torch.Generator().manual_seed(1))


def test_a_linear_unit_gets_the_image_of_its_weights():
    """Of w.x the steepest way up is w: where w is positive the image is bright, elsewhere dark."""
    layer = nn.Linear(64, 3, bias=False)
    weight = torch.ones(3, 8, 8)
    weight[:, :, 4:] = -1
    layer.weight.data = weight.flatten(1)
    found = ascend(plain, respond(nn.Sequential(nn.Flatten(), layer), layer, torch.arange(3)))
    assert (found.images[:, 0, :, 1:3] > 1).all()  # the jitter blurs the border
    assert (found.images[:, 0, :, 5:7] < -1).all()


@pytest.mark.parametrize("name", ["conv1", "conv2", "fc"])
def test_both_ways_climb_at_every_layer(name):
    model = ConvNet().eval().requires_grad_(False)
    response = respond(model, model.get_submodule(name), torch.tensor([0, 1, 1]))
    spectrum = mean_spectrum(start() * 10)
    flat = torch.fft.irfft2(torch.polar(spectrum.expand(3, -1, -1, -1), torch.fft.rfft2(start()).angle()), s=(8, 8))
    assert (response(ascend(plain, response).images) > response(start())).all()
    assert (response(ascend(maco, response, spectrum).images) > response(flat)).all()


def test_units_have_images_of_their_own():
    model = ConvNet().eval()
    units = respond(model, model.fc, torch.tensor([1, 0]))
    images = start()[:2]
    assert torch.equal(units(images), torch.stack((model(images)[0, 1], model(images)[1, 0])))
    assert torch.equal(units(images.repeat(2, 1, 1, 1)), units(images).repeat(2))


def test_maco_keeps_the_magnitudes():
    model = ConvNet().eval().requires_grad_(False)
    spectrum = mean_spectrum(start() * 10)
    found = ascend(maco, respond(model, model.conv1, torch.tensor([0, 1, 1])), spectrum)
    inner = (slice(None), slice(1, 4), slice(1, 4))  # those that a real image does not tie to themselves
    for image in found.images:
        assert torch.allclose(torch.fft.rfft2(image).abs()[inner], spectrum[inner], rtol=1e-3, atol=1e-4)
    assert found.opacity.amax((1, 2)).tolist() == pytest.approx([1, 1, 1])
    assert found.opacity.min() >= 0


def test_the_model_of_a_run_is_the_one_that_it_left(runs):
    trained = load(runs[0])
    assert list(trained.layers) == ["conv1", "conv2", "conv3", "conv4", "fc"]
    assert trained.name == "FedAvg, full"
    assert not trained.model.training


def test_where_weights_are_stored_reparameterised_the_model_computes_with_theta(tmp_path):
    run = play(tmp_path, "strategy=sparsyfed", "rounds=1")
    kernels, theta = load(tmp_path).layers["conv1"].weight.numpy(), load_file(tmp_path / "theta.safetensors")
    assert np.array_equal(kernels, theta["conv1.weight"])
    assert not np.array_equal(kernels, run.weights["conv1.weight"])


def test_two_runs_side_by_side_on_one_page_that_loads_nothing(runs, capsys):
    command = [*map(str, runs), "--units", "2", "--steps", "2"]
    assert main(command) == 0
    target = runs[0] / "inside.html"
    assert capsys.readouterr().out == f"inside: {target}\n"
    text = target.read_text()
    assert main(command) == 0
    assert target.read_text() == text
    assert re.findall("<h3>(.*?)</h3>", text) == [n for n in ("conv1", "conv2", "conv3", "conv4", "fc") for _ in runs]
    assert text.count("<img") == 2 * (32 + 5 * 2 * 2)
    assert "partial &lt;b&gt;" in text
    assert not re.search(r"(src|href)=\"(?!data:)", text)
    assert "repeat(2, " in text


def test_what_cannot_be_looked_at_is_one_line(tmp_path, capsys):
    texts, broken_off = (play(tmp_path / task, f"task={task}", "rounds=1").folder for task in ("synthetic", "digits"))
    (broken_off / "model.safetensors").unlink()
    for path, said in (
        (texts, "synthetic has no images to look at"),
        (tmp_path, "not a finished run; it has no config.yaml"),
        (broken_off, "not a finished run; it has no model.safetensors"),
    ):
        assert main([str(path)]) == 2
        complaint = capsys.readouterr().err
        assert said in complaint
        assert complaint.count("\n") == 1
