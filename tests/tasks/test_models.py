"""Layer groups, parameter counts and seeds of the image models; ResNet-18 against torchvision's."""

import pytest
import torch

from clients.tasks.models import MODELS, build_image_model
from clients.tasks.resnet import resnet


def group_openers(model):
    """Names of the arrays that open a layer group: weights of two or more dimensions."""
    return [name for name, value in model.state_dict().items() if value.ndim >= 2]


def parameter_count(model):
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("stem", ["imagenet", "cifar"])
@pytest.mark.parametrize(("depth", "groups"), [(8, 10), (18, 21)])
def test_resnet_has_the_layer_groups_of_the_paper(depth, groups, stem):
    names = group_openers(resnet(depth, 100, stem=stem))
    assert len(names) == groups
    assert names[0] == "conv1.weight"
    assert names[-1] == "fc.weight"


def test_shortcut_group_comes_after_the_second_convolution():
    names = [name for name in group_openers(resnet(8, 10)) if name.startswith("layer2.0")]
    assert names == ["layer2.0.conv1.weight", "layer2.0.conv2.weight", "layer2.0.downsample.0.weight"]


def test_parameter_counts():
    assert parameter_count(resnet(18, 100)) == 11_227_812  # as the paper says
    # 7*7*3*64 + 2*64 (stem); 2*(9*64*64 + 2*64); 9*64*128 + 9*128*128 + 64*128 + 6*128;
    # 9*128*256 + 9*256*256 + 128*256 + 6*256; 256*10 + 10
    assert parameter_count(resnet(8, 10)) == 9536 + 73984 + 230144 + 919040 + 2570


@pytest.mark.parametrize(("stem", "size"), [("imagenet", 8), ("cifar", 32)])
def test_stem_reduces_a_32_pixel_image(stem, size):
    model = resnet(8, 10, stem=stem).eval()
    with torch.no_grad():
        out = model.layer1(model.maxpool(model.relu(model.bn1(model.conv1(torch.zeros(2, 3, 32, 32))))))
    assert out.shape == (2, 64, size, size)


def test_resnet18_is_torchvisions():
    torchvision = pytest.importorskip("torchvision.models", reason="torchvision is not installed")
    ours, theirs = resnet(18, 7).eval(), torchvision.resnet18(num_classes=7).eval()
    assert list(ours.state_dict()) == list(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())
    images = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.equal(ours(images), theirs(images))


def test_small_net_has_five_groups():
    model = build_image_model("cnn", "imagenet", 1, 10, seed=0)
    assert len(group_openers(model)) == 5
    assert model(torch.zeros(3, 1, 8, 8)).shape == (3, 10)


@pytest.mark.parametrize("name", MODELS)
def test_same_seed_same_bits_and_global_generator_untouched(name):
    before = torch.get_rng_state()
    first, second, other = (build_image_model(name, "cifar", 3, 10, seed) for seed in (3, 3, 4))
    assert torch.equal(before, torch.get_rng_state())
    for key, value in first.state_dict().items():
        assert torch.equal(value, second.state_dict()[key])
    assert not torch.equal(first.fc.weight, other.fc.weight)


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match=r"task.model=vgg: must be one of cnn, resnet8, resnet18"):
        build_image_model("vgg", "cifar", 3, 10, seed=0)
    with pytest.raises(ValueError, match=r"task.stem=big: must be one of imagenet, cifar"):
        build_image_model("cnn", "big", 3, 10, seed=0)
    with pytest.raises(ValueError, match=r"depth=34: must be one of 8, 18"):
        resnet(34, 10)
    with pytest.raises(ValueError, match=r"stem='big'"):
        resnet(8, 10, stem="big")
