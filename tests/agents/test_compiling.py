"""Adam as a function of tensors, against torch's own."""

import pytest
import torch

from tightrope.agents.compiling import adam_state, descend, gradients


@pytest.mark.parametrize("settings", [{}, {"betas": (0.5, 0.9), "eps": 1e-3, "maximize": True}])
def test_a_step_is_that_of_torch_whatever_the_layout_of_gradients(settings):
    """One gradient comes transposed, one weight is not used, one is frozen after a step."""
    torch.manual_seed(0)
    start, inputs = torch.randn(3, 6), torch.randn(5, 6)

    def steps(descend):
        weights = [start.clone().requires_grad_() for _ in range(3)]
        optimizer = torch.optim.Adam(weights, lr=0.1, fused=True, **settings)
        for step in range(3):
            weights[2].requires_grad_(step == 0)
            outputs = [torch.einsum("bi,oi->bo", inputs, weight) for weight in weights[::2]]
            descend(optimizer, torch.stack(outputs).square().sum())
        return weights, optimizer.state_dict()["state"]

    def ours(optimizer, loss):
        state = adam_state(optimizer)
        given = gradients(loss, state)
        assert given[0].stride() != state.weights[0].stride()  # or this would test nothing
        descend(state, given, torch.tensor(0.1))

    def plain(optimizer, loss):
        optimizer.zero_grad()
        loss.backward()
        optimizer.param_groups[0]["params"][1].grad = torch.zeros(3, 6)
        optimizer.step()

    (found, kept), (expected, also) = steps(ours), steps(plain)
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs)
    for index, values in also.items():
        for name, value in values.items():
            torch.testing.assert_close(kept[index][name], value)
    assert torch.equal(found[1], start)
    assert not torch.equal(found[0], start)


def test_a_step_that_a_checkpoint_left_on_another_device_follows_its_weight():
    """As SB3's optimizer of the temperature is loaded; meta stands for a GPU."""
    weight = torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.Adam([weight], lr=0.1)
    weight.grad = torch.ones(2)
    optimizer.step()
    moved = torch.zeros(2, device="meta", requires_grad=True)
    again = torch.optim.Adam([moved], lr=0.1)
    again.load_state_dict(optimizer.state_dict())
    assert again.state[moved]["step"].device.type == "cpu"
    (step,) = adam_state(again).steps
    assert step.device.type == again.state[moved]["step"].device.type == "meta"
