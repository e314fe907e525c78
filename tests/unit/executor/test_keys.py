"""Random numbers by name."""

import numpy as np
import pytest
import torch

from executor.keys import generator, keep_mask, key_of, philox, philox_on_cpu

CPU = torch.device("cpu")


def mask(key, probability, positions, columns, features):
    return keep_mask(key, probability, positions, columns, features=features, device=CPU)


@pytest.mark.parametrize(
    ("low", "high", "key", "first"),
    [
        (0, 0, 0, 0xFF1DAE59),
        (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0x2C3F628B),
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0xDD7CE038),
    ],
)
def test_philox_gives_the_published_answers(low, high, key, first):
    assert int(philox(torch.tensor([low]), torch.tensor([high]), key)) == first
    words = (np.array([word], np.uint64) for word in (low, high))
    assert int(philox_on_cpu(*words, key)[0]) == first


@pytest.mark.parametrize("key", [0, 2**63 + 12345, 2**64 - 1])
@pytest.mark.parametrize("first", [0, 2**21])
def test_cpus_draw_the_masks_of_other_devices(key, first):
    """The formula of the general path on whole tensors; beyond 2^32 elements the counter's high word counts too."""
    rows, columns, features = torch.arange(first, first + 60), torch.arange(100, 1100), 4096
    counter = rows[:, None] * features + columns
    drawn = philox(counter & 0xFFFFFFFF, (counter >> 32) ^ (key >> 32), key & 0xFFFFFFFF)

    found = mask(key, 0.3, range(first, first + 60), range(100, 1100), features)
    assert torch.equal(found, drawn >= int(0.3 * 2**32))


def test_a_mask_of_nothing_is_empty():
    assert mask(1, 0.5, range(3, 3), range(8), 8).shape == (0, 8)


def test_any_part_of_a_mask_equals_that_part_of_the_whole():
    whole = mask(2**63 + 12345, 0.3, range(50), range(64), 64)

    assert torch.equal(mask(2**63 + 12345, 0.3, range(20, 31), range(16, 32), 64), whole[20:31, 16:32])


def test_as_many_elements_are_dropped_as_asked_for():
    for probability in (0.0, 0.1, 0.5, 0.9):
        share = 1 - float(mask(99, probability, range(1000), range(100), 100).double().mean())

        assert abs(share - probability) < 0.005  # 3 standard deviations of 10^5 draws


def test_masks_of_other_keys_are_unrelated():
    one, other = (mask(key_of("dropout", 0, "a", 3, 7, name), 0.5, range(500), range(64), 64) for name in "qk")

    assert abs(float((one == other).double().mean()) - 0.5) < 0.01


def test_keys_depend_on_every_part_and_on_where_it_ends():
    keys = {key_of("a", 1, 23), key_of("a", 12, 3), key_of("a1", 23), key_of("a", 1, 23, ""), key_of(1, 23, "a")}

    assert len(keys) == 5


def test_a_generator_is_a_function_of_its_name():
    first, again, other = (torch.rand(4, generator=generator("x", n)) for n in (1, 1, 2))

    assert torch.equal(first, again)
    assert not torch.equal(first, other)
