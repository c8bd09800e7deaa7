"""The fused step against the paper's five lines: values, derivatives, memory, input checks."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import every_cone, random_tensor, small_cone, solved_program, times

from rcdrs.cones import Box, Nonneg
from rcdrs.experiments.synthetic.instances import generate
from rcdrs.rollout.fixed import rollout
from rcdrs.solver.fused import Transition
from rcdrs.solver.problem import ConicProgram
from rcdrs.solver.step import State, check_action, step

HARD = ["socp-hard", "mixed-hard", "qp-hard"]
# Tens of steps of well-scaled float64 arithmetic.
CLOSE = {"rtol": 1e-12, "atol": 1e-12}


def repeated(program, alpha, beta, depth, start=None):
    """`depth` states of the paper-form step, the start left out."""
    state = State.zero(program) if start is None else start
    states = []
    for _ in range(depth):
        state = step(program, state, alpha, beta)
        states.append(state)
    return states


def actions(batch):
    return torch.linspace(0.4, 1.7, batch).double(), torch.linspace(0.1, 3, batch).double()


def cast(program, dtype):
    return ConicProgram(program.A.to(dtype), program.b.to(dtype), program.c.to(dtype), program.cone)


@pytest.mark.parametrize("shared", [True, False])
def test_rollout_is_the_step_repeated(shared):
    program = solved_program(shared=shared).program
    alpha, beta = actions(4)
    expected = repeated(program, alpha, beta, 40)[-1]
    for fused, plain in zip(rollout(program, alpha, beta, 40), expected, strict=True):
        torch.testing.assert_close(fused, plain, **CLOSE)


def test_rollout_is_the_step_repeated_for_dependent_rows():
    program = solved_program().program
    A = torch.cat([program.A, program.A[:2]])
    for b in (times(A, random_tensor(4, 28)), random_tensor(4, 12)):
        dependent = ConicProgram(A, b, program.c, program.cone)
        expected = repeated(dependent, 1.5, 0.7, 30)[-1]
        torch.testing.assert_close(rollout(dependent, 1.5, 0.7, 30).z, expected.z, **CLOSE)


@pytest.mark.parametrize("case", HARD)
def test_rollout_is_the_step_repeated_on_the_hard_cases(case):
    sizes = {"train": 3, "validation": 1, "test": 1}
    exact = generate(case, 0, sizes=sizes, dtype=torch.float64).train.program
    expected = repeated(exact, 1.6, 1.0, 50)[-1]
    for fused, plain in zip(rollout(exact, 1.6, 1.0, 50), expected, strict=True):
        # Condition numbers up to 300 enlarge the roundings.
        torch.testing.assert_close(fused, plain, rtol=1e-10, atol=1e-10)
    single = rollout(cast(exact, torch.float32), 1.6, 1.0, 50)
    for rounded, plain in zip(single, expected, strict=True):
        assert rounded.dtype == torch.float32
        # Rounded data, 6e-8, through a factorisation of condition up to 300: 2e-5 of the size
        # of z; u is a difference of vectors of that size.
        error = (rounded - plain).norm(dim=-1) / (1 + expected.z.norm(dim=-1))
        assert error.max() <= 2e-5


@pytest.mark.parametrize("rows", [10, 12], ids=["full rank", "dependent rows"])
def test_observations_equal_their_definitions(rows):
    program = solved_program().program
    A = torch.cat([program.A, program.A])[:rows]
    program = ConicProgram(A, random_tensor(4, rows), program.c, program.cone)
    alpha, beta = actions(4)
    transition = Transition(program)
    columns = transition.start()
    previous = torch.zeros_like(program.c)
    torch.testing.assert_close(
        transition.observe_start(columns).equality, program.b.norm(dim=-1), **CLOSE
    )
    for state in repeated(program, alpha, beta, 12):
        columns, seen = transition(columns, alpha, beta)
        expected = {
            "consensus": (state.x - state.z).norm(dim=-1),
            "equality": (times(A, state.z) - program.b).norm(dim=-1),
            "movement": (state.z - previous).norm(dim=-1),
            "size": state.z.norm(dim=-1),
            "objective": (program.c * state.z).sum(-1),
        }
        previous = state.z
        for name, value in expected.items():
            torch.testing.assert_close(getattr(seen, name), value, **CLOSE)
        for fused, plain in zip(State.of(columns), state, strict=True):
            torch.testing.assert_close(fused, plain, **CLOSE)


def test_observation_of_a_warm_start_equals_its_definition():
    program = solved_program().program
    z, u = random_tensor(4, 28, seed=1), random_tensor(4, 28, seed=2)
    transition = Transition(program)
    seen = transition.observe_start(transition.start(z, u))
    torch.testing.assert_close(seen.equality, (times(program.A, z) - program.b).norm(dim=-1))
    torch.testing.assert_close(seen.size, z.norm(dim=-1))
    torch.testing.assert_close(seen.objective, (program.c * z).sum(-1))
    assert not seen.consensus.any()
    assert not seen.movement.any()


def everything(A, b, c, alpha, beta, cone, depth=3):
    """Terminal state and all observations on the way, as one vector per instance."""
    program = ConicProgram(A, b, c, cone)
    transition = Transition(program)
    columns = transition.start()
    rows = []
    for _ in range(depth):
        columns, seen = transition(columns, alpha, beta)
        rows.extend(seen)
    return torch.cat([torch.stack(rows), *(part.mT for part in State.of(columns))])


def leaves(shared=True, batch=2):
    """A, b, c, alpha, beta, each wanting a gradient."""
    program = solved_program(seed=3, batch=batch, m=4, cone=small_cone(), shared=shared).program
    b = program.b + random_tensor(batch, 4, seed=5)
    return [x.clone().requires_grad_() for x in (program.A, b, program.c, *actions(batch))]


@pytest.mark.parametrize("shared", [True, False])
def test_gradient_of_states_and_observations(shared):
    assert torch.autograd.gradcheck(lambda *x: everything(*x, small_cone()), leaves(shared))


def test_gradient_through_a_thin_kernel():
    """With more than two thirds as many rows as columns the step takes another way."""
    program = solved_program(seed=3, batch=2, m=11, cone=small_cone()).program
    assert program.affine.null is not None
    b = program.b + random_tensor(2, 11, seed=5)
    inputs = [x.clone().requires_grad_() for x in (b, program.c, *actions(2))]
    assert torch.autograd.gradcheck(lambda *x: everything(program.A, *x, small_cone()), inputs)


def test_thin_kernel_changes_no_number():
    program = solved_program(m=22).program
    alpha, beta = actions(4)
    assert program.affine.null is not None
    for fused, plain in zip(
        rollout(program, alpha, beta, 30), repeated(program, alpha, beta, 30)[-1], strict=True
    ):
        torch.testing.assert_close(fused, plain, **CLOSE)


@pytest.mark.parametrize("shared", [True, False])
def test_gradient_of_the_observation_of_a_start(shared):
    A, b, c, _, _ = leaves(shared)
    z = random_tensor(2, 14, seed=8).requires_grad_()

    def seen(A, b, c, z):
        transition = Transition(ConicProgram(A, b, c, small_cone()))
        _, equality, _, size, objective = transition.observe_start(transition.start(z))
        return torch.stack([equality, size, objective])

    assert torch.autograd.gradcheck(seen, (A, b, c, z))


@pytest.mark.parametrize("keep", range(5), ids=["A", "b", "c", "alpha", "beta"])
def test_gradient_of_one_input_alone(keep):
    """The derivative asks which inputs need it; each alone gives the same as all together."""
    inputs = leaves()
    weight = random_tensor(57, 2, seed=6)
    together = torch.autograd.grad((everything(*inputs, small_cone()) * weight).sum(), inputs)
    alone = [x if i == keep else x.detach() for i, x in enumerate(inputs)]
    (found,) = torch.autograd.grad((everything(*alone, small_cone()) * weight).sum(), alone[keep])
    torch.testing.assert_close(found, together[keep], **CLOSE)


def test_gradient_equals_that_of_the_paper_form():
    inputs = leaves()
    weight = random_tensor(2, 14, seed=7)
    results = []
    for run in (rollout, lambda *x: repeated(*x)[-1]):
        A, b, c, alpha, beta = inputs
        state = run(ConicProgram(A, b, c, small_cone()), alpha, beta, 20)
        total = (state.z * weight).sum() + state.x.square().sum()
        results.append(torch.autograd.grad(total, inputs))
    for fused, plain in zip(*results, strict=True):
        torch.testing.assert_close(fused, plain, rtol=1e-9, atol=1e-9)  # 1e-13 times condition^2


def test_gradient_through_a_warm_start():
    program = solved_program(batch=2, m=4, cone=small_cone()).program
    z, u = (random_tensor(2, 14, seed=s).requires_grad_() for s in (1, 2))

    def terminal(z, u):
        return torch.cat(rollout(program, 1.3, 0.5, 3, State(z, z, u)), -1)

    assert torch.autograd.gradcheck(terminal, (z, u))


@pytest.mark.parametrize("zero", ["nothing", "b", "c", "b and c"])
def test_gradient_of_the_first_step_is_finite(zero):
    """From z = u = 0 several norms are zero or the cone stands at its apex."""
    A, b, c, alpha, beta = leaves()
    b = (b.detach() * ("b" not in zero)).requires_grad_()
    c = (c.detach() * ("c" not in zero)).requires_grad_()
    transition = Transition(ConicProgram(A, b, c, small_cone()))
    columns = transition.start()
    start = transition.observe_start(columns)
    columns, seen = transition(columns, alpha, beta)
    total = sum(x.sum() for x in (*start, *seen, *State.of(columns)))
    gradients = torch.autograd.grad(total, (A, b, c, alpha, beta))
    assert all(torch.isfinite(g).all() for g in gradients)


def test_gradient_of_a_zero_residual_is_finite_for_dependent_rows():
    A = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    b = torch.zeros(1, 2, requires_grad=True)
    transition = Transition(ConicProgram(A, b, torch.ones(1, 3), Nonneg(3)))
    transition.observe_start(transition.start()).equality.sum().backward()
    assert torch.isfinite(b.grad).all()


def test_numbers_act_like_one_per_instance():
    program = solved_program().program
    each = (torch.full((4,), x, dtype=torch.float64) for x in (1.4, 0.3))
    for one, many in zip(rollout(program, 1.4, 0.3, 9), rollout(program, *each, 9), strict=True):
        assert torch.equal(one, many)


def test_instances_do_not_see_each_other():
    program = solved_program(shared=False).program
    alpha, beta = actions(4)
    whole = rollout(program, alpha, beta, 15)
    for i in range(4):
        part = rollout(program[i : i + 1], alpha[i : i + 1], beta[i : i + 1], 15)
        torch.testing.assert_close(part.z[0], whole.z[i], **CLOSE)


def test_warm_start_continues_the_rollout():
    program = solved_program().program
    alpha, beta = actions(4)
    halfway = rollout(program, alpha, beta, 3)
    resumed = rollout(program, alpha, beta, 4, start=halfway)
    for first, second in zip(resumed, rollout(program, alpha, beta, 7), strict=True):
        torch.testing.assert_close(first, second, **CLOSE)


@pytest.mark.parametrize("dependent", [False, True])
def test_infeasible_instance_shows_and_harms_no_other(dependent):
    """Instance 1 asks for sum(x) = -1 with x >= 0, or for sum(x) = 1 and = 2 at once."""
    n = 12
    A = random_tensor(4, n)
    A[0] = 1
    b = times(A, random_tensor(4, n, seed=1).abs())
    bad = b.clone()
    if dependent:
        A[1], b[:, 1] = 1, b[:, 0]
        bad = b.clone()
        bad[1, :2] = torch.tensor([1.0, 2.0])
    else:
        bad[1, 0] = -1
    c = random_tensor(4, n, seed=2).abs()
    good = rollout(ConicProgram(A, b, c, Nonneg(n)), 1.5, 0.5, 200)
    found = rollout(ConicProgram(A, bad, c, Nonneg(n)), 1.5, 0.5, 200)
    assert all(torch.isfinite(part).all() for part in found)
    others = [0, 2, 3]
    assert all(torch.equal(x[others], y[others]) for x, y in zip(found, good, strict=True))
    residual = (times(A, found.z) - bad).norm(dim=-1)
    # No x >= 0 comes closer than 1, respectively 1/sqrt(2), to the contradictory equations.
    assert residual[1] >= 0.7
    assert residual[others].max() <= 0.1


MEMORY = """
import gc, json, re, torch
from rcdrs.cones import Product, Nonneg, SecondOrder
from rcdrs.solver.problem import ConicProgram
from rcdrs.rollout.fixed import rollout
torch.set_num_threads(1)
gc.disable()
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
A, b, c = torch.randn(20, 200), torch.randn(256, 20), torch.randn(256, 200)
program = ConicProgram(A, b, c, Product([Nonneg(100), SecondOrder(10, 10)]))
def train():
    for x in (A, b, c):
        x.requires_grad_().grad = None
    rollout(ConicProgram(A, b, c, program.cone), 1.5, 1.0, 30).z.sum().backward()
sizes = []
for depth in (20, 400):
    rollout(program, 1.5, 1.0, depth)
    sizes.append(peak())
for repeats in (3, 20):
    for _ in range(repeats):
        train()
    sizes.append(peak())
print(json.dumps(sizes))
"""


@pytest.fixture(scope="module")
def peaks():
    """Peak memory, in MB, after four stages in a process of its own without garbage collection.

    A step with gradients keeps some 0.9 MB, so a leak would show as hundreds of MB.
    VmHWM and not ru_maxrss, which a child inherits from its parent.
    """
    if not Path("/proc/self/status").exists():
        pytest.skip("peak memory is read from /proc")
    output = subprocess.run(
        [sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True, timeout=120
    ).stdout
    return json.loads(output)


def test_memory_without_gradient_does_not_grow_with_depth(peaks):
    assert peaks[1] - peaks[0] <= 20  # 380 more steps, if kept, 320 MB


def test_memory_of_training_does_not_grow(peaks):
    assert peaks[3] - peaks[2] <= 40  # 17 more rollouts, if leaked, 400 MB
    assert peaks[2] - peaks[1] >= 10  # the measure sees a rollout with gradients, 25 MB


def test_training_step_leaves_no_tensor_behind():
    """No reference cycle: everything is freed without the garbage collector."""
    inputs = leaves()

    def train():
        everything(*inputs, small_cone(), depth=5).sum().backward()
        for x in inputs:
            x.grad = None

    def alive():
        return sum(issubclass(type(x), torch.Tensor) for x in gc.get_objects())

    train()
    gc.collect()
    gc.disable()
    try:
        before = alive()
        train()
        assert alive() == before
    finally:
        gc.enable()


N = 28
A, B, C = random_tensor(5, N), random_tensor(3, 5), random_tensor(3, N)


def broken(x, value):
    x = x.clone()
    x[(1,) * x.ndim] = value
    return x


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ((A[0], B, C), ValueError, r"A has shape \(28,\), expected \(m, n\) or \(batch, m, n\)"),
        ((A, B[:, :4], C), ValueError, r"b has shape \(3, 4\), expected .* m = 5 rows of A"),
        ((A, B[0], C), ValueError, r"b has shape \(5,\), expected \(batch, m\)"),
        ((A, B, C[:, :9]), ValueError, r"c has shape \(3, 9\), expected .* n = 28 columns of A"),
        ((A, B, C[:2]), ValueError, "b has batch size 3 and c has 2, expected the same"),
        ((A.expand(2, 5, N), B, C), ValueError, "A has batch size 2 and b has 3, expected"),
        ((A, B.float(), C), TypeError, "b has dtype torch.float32, expected torch.float64"),
        ((A, B, C.float()), TypeError, "c has dtype torch.float32, expected torch.float64"),
        ((A.half(), B, C), TypeError, "A has dtype torch.float16, expected torch.float32 or"),
        ((A.long(), B, C), TypeError, "A has dtype torch.int64, expected torch.float32 or"),
        ((broken(A, torch.nan), B, C), ValueError, r"A holds 1 NaN .* at \(1, 1\); expected fin"),
        ((A, broken(B, torch.inf), C), ValueError, r"b holds 1 NaN or inf.* at \(1, 1\); expect"),
        ((A, B, broken(C, -torch.inf)), ValueError, r"c holds 1 NaN or inf.* at \(1, 1\); expe"),
        ((random_tensor(29, N), random_tensor(3, 29), C), ValueError, "29 rows and 28 columns"),
    ],
)  # fmt: skip
def test_impossible_programs_are_refused(data, error, message):
    with pytest.raises(error, match=message):
        ConicProgram(*data, every_cone())


def test_cone_of_another_dimension_is_refused():
    with pytest.raises(ValueError, match="cone has dimension 27, expected n = 28 columns"):
        ConicProgram(A, B, C, Nonneg(27))


@pytest.mark.parametrize(
    ("alpha", "beta", "message"),
    [
        (0.0, 1.0, r"alpha = 0, expected alpha in \(0, 2\)"),
        (2.0, 1.0, r"alpha = 2, expected alpha in \(0, 2\)"),
        (-0.5, 1.0, r"alpha = -0.5, expected alpha in \(0, 2\)"),
        (torch.nan, 1.0, r"alpha = nan, expected alpha in \(0, 2\)"),
        (torch.tensor([1.0, 2.5, 1.0]), 1.0, r"alpha = 2.5, expected"),
        (1.0, 0.0, "beta = 0, expected beta positive and finite"),
        (1.0, -1.0, "beta = -1, expected beta positive and finite"),
        (1.0, torch.inf, "beta = inf, expected beta positive and finite"),
        (1.0, torch.tensor([1.0, 1.0, 0.0]), "beta = 0, expected"),
        (torch.ones(2), 1.0, r"alpha has shape \(2,\), expected .* \(3,\)"),
        (1.0, torch.ones(3, 1), r"beta has shape \(3, 1\), expected .* \(3,\)"),
    ],
)
def test_impossible_actions_are_refused(alpha, beta, message):
    program = ConicProgram(A, B, C, every_cone())
    for run in (check_action, lambda *x: rollout(*x, 2)):
        with pytest.raises(ValueError, match=message):
            run(program, alpha, beta)
    with pytest.raises(ValueError, match=message):
        step(program, State.zero(program), alpha, beta)


@pytest.mark.parametrize("depth", [0, -1, 2.5, True])
def test_impossible_depth_is_refused(depth):
    with pytest.raises(ValueError, match=f"depth is {depth}, expected a positive integer"):
        rollout(ConicProgram(A, B, C, every_cone()), 1.0, 1.0, depth)


@pytest.mark.parametrize("shape", [(1, N), (2, N), (3, N + 1)], ids=str)
@pytest.mark.parametrize("form", ["rollout", "step"])
def test_start_of_another_shape_is_refused(form, shape):
    program = ConicProgram(A, B, C, every_cone())
    start = State(*(torch.zeros(shape, dtype=torch.float64) for _ in range(3)))
    with pytest.raises(ValueError, match="expected"):
        rollout(program, 1.0, 1.0, 2, start) if form == "rollout" else step(program, start, 1, 1)


def test_part_of_a_batch_with_a_box_per_instance():
    box = Box(torch.zeros(3, N), torch.ones(3, N))
    program = ConicProgram(A, B, C, box)
    whole = rollout(program, 1.0, 1.0, 3)
    torch.testing.assert_close(rollout(program[1:], 1.0, 1.0, 3).z, whole.z[1:])


def test_empty_batch_with_shared_rows():
    program = ConicProgram(A, B[:0], C[:0], every_cone())
    assert rollout(program, 1.0, 1.0, 3).z.shape == (0, N)


def test_empty_batch_with_rows_per_instance():
    program = ConicProgram(A.expand(0, 5, N), B[:0], C[:0], every_cone())
    assert rollout(program, 1.0, 1.0, 3).z.shape == (0, N)
