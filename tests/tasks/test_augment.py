"""Flips are exact, rotations are rotations, and no draw comes from the global generator."""

import pytest
import torch

from clients.tasks import augment
from clients.tasks.augment import check_rotation, flip_and_rotate, random_flip, random_rotation


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def images():
    return torch.rand(64, 3, 6, 6, generator=seeded(9))


def test_off_returns_the_input_itself_and_draws_nothing(images):
    generator = seeded()
    before = generator.get_state()
    assert flip_and_rotate(images, flip=False, degrees=0, generator=generator) is images
    assert torch.equal(before, generator.get_state())


def test_flip_mirrors_some_images_exactly_and_leaves_the_rest(images):
    out = random_flip(images, seeded())
    mirrored = [torch.equal(a, b.flip(-1)) for a, b in zip(out, images, strict=True)]
    same = [torch.equal(a, b) for a, b in zip(out, images, strict=True)]
    assert all(m or s for m, s in zip(mirrored, same, strict=True))
    assert 16 < sum(mirrored) < 48  # 64 draws at 0.5: outside with probability below 1e-4


@pytest.mark.parametrize("shape", [(1, 1, 8, 8), (1, 1, 6, 10)])
def test_half_a_turn_is_two_flips(shape, monkeypatch):
    monkeypatch.setattr(augment.torch, "rand", lambda n, **_: torch.ones(n))  # angle = +degrees
    image = torch.arange(float(torch.Size(shape).numel())).reshape(shape)
    assert torch.allclose(random_rotation(image, 180, seeded()), image.flip(-1, -2), atol=1e-3)


def test_a_quarter_turn_of_a_square(monkeypatch):
    monkeypatch.setattr(augment.torch, "rand", lambda n, **_: torch.ones(n))
    image = torch.arange(16.0).reshape(1, 1, 4, 4)
    assert torch.allclose(random_rotation(image, 90, seeded()), image.rot90(1, (-2, -1)), atol=1e-4)


def test_rotation_keeps_proportions_of_an_oblong_image(monkeypatch):
    monkeypatch.setattr(augment.torch, "rand", lambda n, **_: torch.ones(n))
    image = torch.zeros(1, 1, 9, 21)
    image[0, 0, 4, 8:13] = 1.0  # a bar of five pixels through the middle
    out = random_rotation(image, 90, seeded())
    assert torch.allclose(out[0, 0, 2:7, 10], torch.ones(5), atol=1e-4)
    assert out.sum().item() == pytest.approx(5, abs=1e-3)


def test_each_image_turns_by_its_own_angle(images):
    out = random_rotation(images[:1].expand(4, -1, -1, -1), 15, seeded())
    assert out.shape == (4, 3, 6, 6)
    assert not torch.allclose(out[0], out[1])


def test_only_the_given_generator_is_used(images):
    before = torch.get_rng_state()
    first = flip_and_rotate(images, True, 15, seeded(1))
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(first, flip_and_rotate(images, True, 15, seeded(1)))
    assert not torch.equal(first, flip_and_rotate(images, True, 15, seeded(2)))


@pytest.mark.parametrize("degrees", [-1, 181, float("nan")])
def test_degrees_out_of_range_are_refused(degrees):
    with pytest.raises(ValueError, match=r"task.rotation=.*: must be from 0 \(off\) to 180"):
        check_rotation(degrees)
