"""The layers a user imports: values, gradients, shapes, files, and what they refuse."""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path

import pytest
import torch
from conftest import awake, every_cone, random_tensor, small_cone, solved_program, times

from rcdrs import ConicProgram, ControllerConfig, DRSLayer, RCDRSLayer, State
from rcdrs.cones import Nonneg
from rcdrs.rollout.fixed import rollout
from rcdrs.solver.readout import readout

CORE = (1.6, 3.0)
DEPTH = 5
# Tens of well-scaled float64 operations, in another order.
CLOSE = {"rtol": 1e-11, "atol": 1e-11}


@pytest.fixture(scope="module")
def program():
    return solved_program().program


def controlled(program, depth=DEPTH, **config):
    torch.manual_seed(0)
    return awake(RCDRSLayer(program.A, program.cone, depth, CORE, ControllerConfig(**config)))


def fixed(program, depth=DEPTH):
    return DRSLayer(program.A, program.cone, depth, *CORE)


def in_single_precision(program):
    return ConicProgram(*(t.float() for t in (program.A, program.b, program.c)), program.cone)


# Values


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1e-12, 1e-10, 1e-8, 1e-6, 1e-3, 1.0, 1e6])
def test_objective_counts_by_its_share(program, size, dtype):
    """x depends on the direction of c alone, but for ``|c| / (|c| + 1e-8)`` of the drive beta."""
    A, b, c = (t.to(dtype) for t in (program.A, program.b, program.c))
    unit = c / c.norm(dim=-1, keepdim=True)
    alpha, beta = CORE
    whole = 1 + 1e-8  # of the unit vector
    expected = DRSLayer(A, program.cone, DEPTH, alpha, beta * whole * size / (size + 1e-8))(b, unit)
    found = DRSLayer(A, program.cone, DEPTH, alpha, beta)(b, size * unit)
    close = {"rtol": 1e-4, "atol": 1e-5} if dtype is torch.float32 else CLOSE
    torch.testing.assert_close(found.x, expected.x, **close)
    # The gap of a tiny c is tiny wherever x is.
    assert found.gap.max() <= 10 * (size + 1e-8) * (1 + found.x.norm(dim=-1).max())


def test_without_objective_the_layer_looks_for_a_feasible_point(program):
    found = fixed(program)(program.b, torch.zeros_like(program.c))
    assert torch.isfinite(found.x).all()
    nearly = fixed(program)(program.b, 1e-20 * program.c)
    torch.testing.assert_close(found.x, nearly.x, rtol=0, atol=1e-9)


def test_fixed_layer_equals_the_rollout(program):
    expected = rollout(program, *CORE, DEPTH)
    for found, plain in zip(fixed(program).solve(program).state, expected, strict=True):
        torch.testing.assert_close(found, plain, **CLOSE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_untrained_layer_is_exactly_its_core(program, dtype):
    """At zero the envelope's tanh is zero, so the action is the core to the last bit."""
    if dtype == torch.float32:
        program = in_single_precision(program)
    untrained = RCDRSLayer(program.A, program.cone, DEPTH, CORE).solve(program)
    for found, plain in zip(untrained.state, fixed(program).solve(program).state, strict=True):
        assert torch.equal(found, plain)


def test_untrained_layer_without_envelope_is_its_core(program):
    program = in_single_precision(program)
    layer = RCDRSLayer(program.A, program.cone, DEPTH, CORE, ControllerConfig(envelope=None))
    found, expected = layer.solve(program), fixed(program).solve(program)
    # The sigmoid spans 16 in log beta: its float32 rounding is 16 * 6e-8 = 1e-6.
    torch.testing.assert_close(found.actions, expected.actions, rtol=0, atol=2e-6)
    torch.testing.assert_close(found.x, expected.x, rtol=1e-5, atol=1e-5)


def test_solution_holds_the_readout_of_its_terminal_state(program):
    solution = controlled(program).solve(program)
    assert solution.alpha.shape == solution.beta.shape == (4, DEPTH)
    torch.testing.assert_close(solution.alpha, solution.actions[..., 1])
    torch.testing.assert_close(solution.beta, solution.actions[..., 2].exp())
    assert (solution.alpha - CORE[0]).abs().min() > 1e-4
    expected = readout(program, solution.state.z, solution.state.u, solution.beta[:, -1])
    found = (solution.x, solution.s, solution.y, solution.primal_residual, solution.dual_residual)
    wanted = (solution.state.z, expected.s, expected.y, expected.r_p, expected.r_d)
    for value, definition in zip((*found, solution.gap), (*wanted, expected.r_gap), strict=True):
        assert torch.equal(value, definition)


def test_solution_fields_equal_their_definitions(program):
    solution = controlled(program).solve(program)
    A, b, c, x, s, y = program.A, program.b, program.c, solution.x, solution.s, solution.y
    primal, dual = (c * x).sum(-1), (b * y).sum(-1)
    torch.testing.assert_close(
        solution.primal_residual, (times(A, x) - b).norm(dim=-1) / (1 + b.norm(dim=-1)), **CLOSE
    )
    torch.testing.assert_close(
        solution.dual_residual,
        (times(A.mT, y) + s - c).norm(dim=-1) / (1 + c.norm(dim=-1)),
        **CLOSE,
    )
    torch.testing.assert_close(
        solution.gap, (primal - dual).abs() / (1 + primal.abs() + dual.abs()), **CLOSE
    )
    assert program.cone.contains(x, 1e-12).all()
    assert program.cone.dual_contains(s, 1e-12).all()


def test_infeasible_instance_harms_no_other(program):
    layer = controlled(program)
    A = torch.cat([program.A, program.A[:1]])
    b = torch.cat([program.b, program.b[:, :1]], dim=1)
    hard = b.clone()
    hard[1] = 1e6 * random_tensor(11)
    usual, disturbed = (layer(right, program.c, A=A) for right in (b, hard))
    others = [0, 2, 3]
    assert disturbed.primal_residual[1] > 1e-2
    assert torch.equal(usual.x[others], disturbed.x[others])
    assert torch.equal(usual.actions[others], disturbed.actions[others])


# Shapes


@pytest.mark.parametrize("make", [fixed, controlled])
def test_single_instance_is_a_batch_of_one_without_its_axis(program, make):
    layer = make(program)
    together, alone = layer.solve(program), layer(program.b[2], program.c[2])
    for name in ("x", "y", "s", "primal_residual", "dual_residual", "gap", "alpha", "beta"):
        torch.testing.assert_close(getattr(alone, name), getattr(together, name)[2], **CLOSE)


@pytest.mark.parametrize("shared", ["b", "c"])
def test_gradient_of_a_shared_input_is_the_sum_over_instances(program, shared):
    layer, target = controlled(program), random_tensor(4, 28, seed=9)
    data = {"b": program.b, "c": program.c}
    one = data[shared][0].clone().requires_grad_()
    each = one.detach().expand(4, -1).clone().requires_grad_()
    solutions = [layer(**data | {shared: value}) for value in (one, each)]
    torch.testing.assert_close(solutions[0].x, solutions[1].x, **CLOSE)
    for solution in solutions:
        (solution.x * target).sum().backward()
    torch.testing.assert_close(one.grad, each.grad.sum(0), **CLOSE)


def test_matrix_per_instance_serves_shared_vectors(program):
    layer = controlled(program)
    A = torch.stack([program.A, 2 * program.A])
    solution = layer(program.b[0], program.c[0], A=A)
    assert solution.x.shape == (2, 28)
    torch.testing.assert_close(solution.x[0], layer(program.b[0], program.c[0]).x, **CLOSE)
    second = layer(program.b[0], program.c[0], A=A[1])
    torch.testing.assert_close(solution.x[1], second.x, **CLOSE)


def test_depth_changes_at_call_time(program):
    longer = fixed(program).solve(program, depth=7)
    assert longer.alpha.shape == (4, 7)
    assert torch.equal(longer.x, fixed(program, depth=7).solve(program).x)


def test_controller_runs_at_another_depth(program):
    layer, deeper = controlled(program), controlled(program, depth=7)
    solution = layer(program.b, program.c, depth=7)
    assert solution.beta.shape == (4, 7)
    assert torch.equal(solution.x, deeper.solve(program).x)


def test_warm_start_goes_on(program):
    layer = fixed(program)
    half = layer.solve(program, depth=3)
    resumed = layer(program.b, program.c, depth=4, start=half.state)
    whole = layer.solve(program, depth=7)
    torch.testing.assert_close(resumed.x, whole.x, **CLOSE)
    torch.testing.assert_close(resumed.s, whole.s, **CLOSE)


def test_warm_start_of_one_instance_is_its_own_state(program):
    layer, (b, c) = fixed(program), (program.b[0], program.c[0])
    resumed = layer(b, c, depth=4, start=layer(b, c, depth=3).state)
    torch.testing.assert_close(resumed.x, layer(b, c, depth=7).x, **CLOSE)


# Gradients


def of_vectors(layer, program):
    data = [tensor.clone().requires_grad_() for tensor in (program.b, program.c)]
    return lambda b, c: everything(layer(b, c)), data


def of_matrix(layer, program):
    data = [program.A.clone().requires_grad_()]
    return lambda A: everything(layer(program.b, program.c, A=A)), data


def everything(solution):
    return solution.x, solution.y, solution.s, solution.dual_residual, solution.gap


def small(shared=True):
    return solved_program(batch=2, m=4, cone=small_cone(), shared=shared).program


@pytest.mark.parametrize("config", [{}, {"envelope": None}], ids=["Env", "NoEnv"])
def test_gradient_in_b_and_c_agrees_with_finite_differences(config):
    assert torch.autograd.gradcheck(*of_vectors(controlled(small(), depth=3, **config), small()))


@pytest.mark.parametrize("shared", [True, False], ids=["shared A", "A per instance"])
@pytest.mark.parametrize("make", [fixed, controlled])
def test_gradient_in_the_matrix_agrees_with_finite_differences(make, shared):
    assert torch.autograd.gradcheck(*of_matrix(make(small(), depth=3), small(shared)))


def test_gradient_where_the_growth_filter_binds():
    """There ``log beta_k = log beta_{k-1} + log chi``: the gradient goes on to the last action."""
    layer = awake(controlled(small(), depth=3), 0.2)
    change = layer.solve(small()).actions[..., 2].diff(dim=1)
    binding = (change.abs() - math.log(10)).abs() < 1e-12
    assert 0 < binding.sum() < binding.numel()
    assert torch.autograd.gradcheck(*of_vectors(layer, small()))


def test_gradient_reaches_every_weight(program):
    layer = controlled(program)
    layer.solve(program).x.square().sum().backward()
    for name, weights in layer.named_parameters():
        assert torch.isfinite(weights.grad).all(), name
        assert weights.grad.abs().max() > 0, name


def test_layer_learns_inside_a_model(program):
    """Predict c from features: the task loss falls through the unrolled solver."""
    layer, inputs = fixed(program, depth=20), random_tensor(4, 3)
    target = layer.solve(program).x
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 28).double()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    losses = []
    for _ in range(20):
        loss = (layer(program.b, model(inputs)).x - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2


# Precision and devices


def test_double_layer_projects_in_double_precision(program):
    single = in_single_precision(program)
    layer = controlled(single)
    before = layer(single.b, single.c)
    layer.double()
    A, b, c = layer.A, program.b, program.c
    assert A.dtype == torch.float64
    solution = layer(b, c)
    # A factorisation left in float32 would miss the affine set by 1e-7.
    assert (times(A, solution.state.x) - b).norm(dim=-1).max() < 1e-12 * b.norm(dim=-1).max()
    assert torch.equal(layer.float()(single.b, single.c).x, before.x)


def test_matrix_changed_in_place_is_factored_again(program):
    layer = fixed(program)
    layer(program.b, program.c)
    layer.A.mul_(2)
    expected = DRSLayer(2 * program.A, program.cone, DEPTH, *CORE)(program.b, program.c)
    assert torch.equal(layer(program.b, program.c).x, expected.x)


def test_layer_moves_to_another_device(program):
    layer = controlled(program).to("meta")
    tensors = [layer.A, *layer.parameters(), *layer.buffers()]
    assert {tensor.device.type for tensor in tensors} == {"meta"}


def test_state_dict_carries_the_layer(program):
    trained = controlled(program)
    other = RCDRSLayer(program.A, program.cone, DEPTH, CORE)
    assert not torch.equal(other.solve(program).x, trained.solve(program).x)
    other.load_state_dict(trained.state_dict())
    assert torch.equal(other.solve(program).x, trained.solve(program).x)
    assert "A" not in trained.state_dict()


# Files


@pytest.mark.parametrize(
    "make",
    [
        fixed,
        controlled,
        lambda program: controlled(program, envelope=None, growth=None),
        lambda program: controlled(program, encoder="lstm", hidden=8, features=("con", "left")),
        lambda program: controlled(program, encoder="schedule", controls=("alpha",)),
    ],
    ids=["fixed", "Env", "NoEnv", "lstm", "schedule"],
)
def test_loaded_layer_repeats_every_bit(program, make, tmp_path):
    layer = make(program)
    layer.save(tmp_path / "layer.pt")
    loaded = type(layer).load(tmp_path / "layer.pt", program.A, program.cone, DEPTH)
    first, second = layer.solve(program), loaded.solve(program)
    assert torch.equal(first.actions, second.actions)
    assert torch.equal(first.x, second.x)


def test_equal_layers_give_equal_files(program, tmp_path):
    for name in ("one.pt", "sub/two.pt"):
        controlled(program).save(tmp_path / name)
    assert (tmp_path / "one.pt").read_bytes() == (tmp_path / "sub/two.pt").read_bytes()


def test_loaded_layer_gives_the_same_file(program, stored):
    content = stored.read_bytes()
    RCDRSLayer.load(stored, program.A, program.cone).save(stored)
    assert stored.read_bytes() == content


@pytest.fixture
def stored(program, tmp_path):
    controlled(program).save(tmp_path / "layer.pt")
    return tmp_path / "layer.pt"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"A": random_tensor(9, 28)}, r"shape of A \[10, 28\], expected \[9, 28\]"),
        ({"cone": Nonneg(28)}, r"cone Product.*, expected Nonneg\(28\)"),
        ({"depth": 6}, "depth 5, expected 6"),
    ],
    ids=["A", "cone", "depth"],
)
def test_checkpoint_of_another_problem_is_refused(program, stored, change, message):
    with pytest.raises(ValueError, match=rf"layer\.pt holds {message}"):
        RCDRSLayer.load(stored, **{"A": program.A, "cone": program.cone, "depth": DEPTH} | change)


def test_checkpoint_of_another_layer_is_refused(program, stored):
    with pytest.raises(ValueError, match=r"layer\.pt holds layer RCDRSLayer, expected DRSLayer"):
        DRSLayer.load(stored, program.A, program.cone)


class Malicious:
    """Unpickling this creates the file `target`."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return Path.touch, (self.target,)


@pytest.mark.parametrize(
    "write",
    [torch.save, lambda evil, path: path.write_bytes(pickle.dumps(evil, protocol=2))],
    ids=["torch", "pickle"],
)
def test_pickled_code_is_refused_and_does_not_run(program, tmp_path, write):
    path, target = tmp_path / "evil.pt", tmp_path / "ran"
    write({"config": Malicious(target), "weights": {}}, path)
    with pytest.raises(ValueError, match=r"evil\.pt is not a readable checkpoint"):
        RCDRSLayer.load(path, program.A, program.cone)
    assert not target.exists()


@pytest.mark.parametrize("share", [0, 0.001, 0.5, 0.999])
def test_truncated_checkpoint_is_refused(program, stored, share):
    content = stored.read_bytes()
    stored.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=r"layer\.pt is not a readable checkpoint"):
        RCDRSLayer.load(stored, program.A, program.cone)


@pytest.mark.parametrize(
    "content",
    [[1, 2], {"config": json.dumps({"epoch": 3}), "weights": {}}],
    ids=["a list", "a training state"],
)
def test_file_that_is_no_checkpoint_is_refused(program, tmp_path, content):
    torch.save(content, tmp_path / "other.pt")
    with pytest.raises(ValueError, match=r"other\.pt"):
        RCDRSLayer.load(tmp_path / "other.pt", program.A, program.cone)


def test_missing_checkpoint_is_named(program, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.pt"):
        RCDRSLayer.load(tmp_path / "none.pt", program.A, program.cone)


# Refused input


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"b": random_tensor(4, 9)}, ValueError, r"b has shape \(4, 9\), expected .* m = 10"),
        ({"b": random_tensor(9)}, ValueError, r"b has shape \(4, 9\), expected .* m = 10"),
        ({"c": random_tensor(4, 27)}, ValueError, r"c has shape \(4, 27\), expected .* n = 28"),
        ({"c": random_tensor(3, 28)}, ValueError, "b has batch size 4 and c has 3"),
        ({"A": random_tensor(2, 10, 28)}, ValueError, "A has batch size 2 and b has 4"),
        ({"b": random_tensor(4, 10).float()}, TypeError, "b has dtype torch.float32"),
        ({"c": random_tensor(4, 28).long()}, TypeError, "c has dtype torch.int64"),
        ({"c": torch.full((4, 28), torch.nan).double()}, ValueError, "c holds 112 NaN"),
        ({"depth": 0}, ValueError, "depth is 0, expected a positive integer"),
        ({"depth": 2.0}, ValueError, "depth is 2.0, expected a positive integer"),
    ],
)
@pytest.mark.parametrize("make", [fixed, controlled])
def test_impossible_input_is_refused(program, make, change, error, message):
    with pytest.raises(error, match=message):
        make(program)(**{"b": program.b, "c": program.c} | change)


def start(*shape, dtype=torch.float64):
    return State(*(torch.zeros(*shape, dtype=dtype) for _ in range(3)))


@pytest.mark.parametrize(
    ("instances", "begin", "error"),
    [
        (slice(None), start(3, 28), ValueError),
        (slice(None), start(4, 27), ValueError),
        (slice(None), start(4, 28)._replace(u=torch.zeros(4, 27)), ValueError),
        (slice(None), start(4, 28, dtype=torch.float32), TypeError),
        (0, start(2, 28), ValueError),
        (0, start(27), ValueError),
    ],
    ids=["batch", "n", "u", "dtype", "single batch", "single n"],
)
def test_start_of_another_shape_or_dtype_is_refused(program, instances, begin, error):
    with pytest.raises(error, match=r"state's . has (shape|dtype) .*, expected"):
        fixed(program)(program.b[instances], program.c[instances], start=begin)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda A, K: DRSLayer(A, K, 0), "depth is 0"),
        (lambda A, K: RCDRSLayer(A, K, True), "depth is True"),
        (lambda A, K: DRSLayer(A, K, 5, alpha=2.0), r"alpha = 2, expected alpha in \(0, 2\)"),
        (lambda A, K: DRSLayer(A, K, 5, beta=0.0), "beta = 0, expected beta positive"),
        (lambda A, K: DRSLayer(A, K, 5, beta=torch.inf), "beta = inf, expected beta positive"),
        (lambda A, K: RCDRSLayer(A, K, 5, (1.95, 1.0)), r"core alpha = 1.95, .* \[0.2, 1.9\]"),
        (lambda A, K: RCDRSLayer(A, K, 5, (1.6, 1e3)), r"core beta = 1000, .* \[1e-05, 100\]"),
        (lambda A, K: DRSLayer(A[:, :27], K, 5), "cone has dimension 28, expected n = 27"),
        (lambda A, K: DRSLayer(A.log(), K, 5), "A holds .* NaN"),
    ],
)
def test_impossible_layers_are_refused(program, make, message):
    with pytest.raises(ValueError, match=message):
        make(program.A, every_cone())
