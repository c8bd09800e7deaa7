"""Projections, their derivatives and the membership tests of every cone."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from conftest import INF, every_cone, half_line_and_line, random_tensor
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rcdrs.cones import PSD, Box, Nonneg, Product, RotatedSecondOrder, SecondOrder
from rcdrs.kernels import arrays

FINITE_BOX = Box(torch.tensor([-1.0, 0.0, 2.0, -INF]), torch.tensor([1.0, 0.0, INF, 3.0]))
CONES = [
    Nonneg(4),
    SecondOrder(1),
    SecondOrder(4),
    SecondOrder(3, count=3),
    RotatedSecondOrder(2),
    RotatedSecondOrder(4),
    RotatedSecondOrder(3, count=2),
    PSD(1),
    PSD(3),
    PSD(2, count=2),
    half_line_and_line(),
    every_cone(),
]
SETS = [*CONES, FINITE_BOX]
each_cone = pytest.mark.parametrize("cone", CONES, ids=repr)
each_set = pytest.mark.parametrize("cone", SETS, ids=repr)
# A few operations on numbers up to 10 in float64: 1e-12 is a thousand roundings.
EXACT = {"rtol": 1e-12, "atol": 1e-12}


def points(dim, count=1):
    """Points with many zeros, ties and boundary cases among them, as (count, dim)."""
    elements = st.sampled_from([0.0, 1.0, -1.0]) | st.floats(-10, 10, allow_subnormal=False)
    return hnp.arrays(np.float64, (count, dim), elements=elements).map(torch.from_numpy)


def blocks(cone):
    """The elementary blocks of a cone with their coordinates: what a loop would go through."""
    if isinstance(cone, Product):
        for part, where in cone.stretches():
            for block, inner in blocks(part):
                yield block, slice(where.start + inner.start, where.start + inner.stop)
    elif isinstance(cone, Nonneg | Box):
        yield cone, slice(0, cone.dim)
    else:
        single = type(cone)(cone.order if isinstance(cone, PSD) else cone.block)
        for k in range(cone.count):
            yield single, slice(k * single.dim, (k + 1) * single.dim)


def matrix(x):
    order = math.isqrt(x.shape[-1])
    return x.reshape(order, order)


def violation(cone, x):
    """By how much one point, a numpy vector, misses the definition of the set."""
    worst = 0.0
    for block, where in blocks(cone):
        y = x[where]
        if isinstance(block, SecondOrder):
            misses = [np.linalg.norm(y[1:]) - y[0]]
        elif isinstance(block, RotatedSecondOrder):
            misses = [-y[0], -y[1], y[2:] @ y[2:] - 2 * y[0] * y[1]]
        elif isinstance(block, PSD):
            misses = [np.abs(matrix(y) - matrix(y).T).max(), -np.linalg.eigvalsh(matrix(y))[0]]
        elif isinstance(block, Box):
            misses = [*(block.lower.double().numpy() - y), *(y - block.upper.double().numpy())]
        else:
            misses = [*-y]
        worst = max(worst, *misses)
    return worst


def member(cone, rng):
    """A point of the set built from its definition, not from the projection."""
    x = np.empty(cone.dim)
    for block, where in blocks(cone):
        y = rng.standard_normal(block.dim)
        slack = rng.choice([0.0, 1.0])
        if isinstance(block, SecondOrder):
            y[0] = np.linalg.norm(y[1:]) + slack
        elif isinstance(block, RotatedSecondOrder):
            y[0] = abs(y[0]) + 0.1
            y[1] = y[2:] @ y[2:] / (2 * y[0]) + slack
        elif isinstance(block, PSD):
            y = (matrix(y) @ np.diag(rng.choice([0.0, 1.0], block.order)) @ matrix(y).T).ravel()
        elif isinstance(block, Box):
            y = np.clip(y, block.lower.double().numpy(), block.upper.double().numpy())
        else:
            y = np.abs(y) * slack
        x[where] = y
    return x


def project_dual(cone, v):
    """Projection on the dual cone, from the duals one block at a time."""
    out = torch.empty_like(v)
    for block, where in blocks(cone):
        y = v[..., where]
        if isinstance(block, PSD):
            turned = y.unflatten(-1, (block.order, block.order)).mT.flatten(-2)
            out[..., where] = block.project(y) + (y - turned) / 2
        elif isinstance(block, Box):
            out[..., where] = torch.where(torch.isinf(block.lower), 0, y.clamp(min=0))
        else:
            out[..., where] = block.project(y)
    return out


def jacobian(cone, v):
    return torch.autograd.functional.jacobian(cone.project, v)


def central_difference(cone, v, direction, h=1e-6):
    return (cone.project(v + h * direction) - cone.project(v - h * direction)) / (2 * h)


@each_set
@given(data=st.data())
def test_projection_is_the_nearest_point(cone, data):
    """p = Proj(v) iff p is in the set and <v - p, y - p> <= 0 for every y of the set."""
    v = data.draw(points(cone.dim))[0].numpy()
    p = cone.project(torch.from_numpy(v)).numpy()
    # Roundings of squares of numbers up to 10 * dim.
    assert violation(cone, p) <= 1e-11
    rng = np.random.default_rng(0)
    assert all((v - p) @ (member(cone, rng) - p) <= 1e-10 for _ in range(20))


@each_set
def test_members_by_definition_are_contained(cone):
    rng = np.random.default_rng(1)
    x = torch.from_numpy(np.stack([member(cone, rng) for _ in range(20)]))
    assert cone.contains(x, tol=1e-12).all()
    torch.testing.assert_close(cone.project(x), x, **EXACT)


@each_set
@given(data=st.data())
def test_projection_is_idempotent(cone, data):
    p = cone.project(data.draw(points(cone.dim)))
    torch.testing.assert_close(cone.project(p), p, **EXACT)
    assert cone.contains(p, tol=1e-12).all()


@each_set
@given(data=st.data())
def test_projection_is_firmly_nonexpansive(cone, data):
    """|Pv - Pw|^2 <= <Pv - Pw, v - w>, which implies nonexpansive."""
    v, w = data.draw(points(cone.dim, 2))
    change = cone.project(v) - cone.project(w)
    # Rounding of an inner product of numbers up to 20.
    assert change @ change <= change @ (v - w) + 1e-11


@each_cone
@given(data=st.data())
def test_moreau_decomposition(cone, data):
    """v = Proj_K(v) - Proj_K*(-v), the two parts orthogonal and the second one in K*."""
    v = data.draw(points(cone.dim))
    p, q = cone.project(v), project_dual(cone, -v)
    torch.testing.assert_close(p - q, v, **EXACT)
    assert (p * q).sum(-1).abs() <= 1e-11  # rounding of products of numbers up to 10
    assert cone.dual_contains(p - v, tol=1e-12).all()


@given(points(4))
def test_second_order_agrees_with_the_three_branches(v):
    t, w = v[0, 0].item(), v[0, 1:].numpy()
    norm = np.linalg.norm(w)
    if norm <= t:
        expected = np.array([t, *w])
    elif norm <= -t:
        expected = np.zeros(4)
    else:
        expected = (t + norm) / 2 * np.array([1, *(w / norm)])
    np.testing.assert_allclose(SecondOrder(4).project(v[0]).numpy(), expected, **EXACT)


@pytest.mark.parametrize("v", random_tensor(30, 4).numpy())
def test_rotated_agrees_with_the_kkt_conditions(v):
    """Stationarity of the boundary case leaves a quadratic equation for the multiplier mu:

    ``p = v_p + mu q``, ``q = v_q + mu p``, ``w = v_w / (1 + mu)`` and ``2 p q = |w|^2``.
    """
    p, q, square = v[0], v[1], v[2:] @ v[2:]
    quadratic = [2 * p * q - square, 2 * (p * p + q * q) + 2 * square, 2 * p * q - square]
    candidates = [v, np.zeros(4)]
    for mu in np.roots(quadratic):
        if np.isreal(mu):
            pair = np.array([p + mu * q, q + mu * p]) / (1 - mu * mu)
            candidates.append(np.real([*pair, *(v[2:] / (1 + mu))]))
    # Roots of a quadratic at Gaussian points lose a few digits of float64 at worst.
    feasible = [x for x in candidates if violation(RotatedSecondOrder(4), x) <= 1e-11]
    nearest = min(feasible, key=lambda x: np.linalg.norm(x - v))
    found = RotatedSecondOrder(4).project(torch.from_numpy(v)).numpy()
    np.testing.assert_allclose(found, nearest, atol=1e-11)


@given(points(9))
def test_psd_agrees_with_numpy_eigh(v):
    V = matrix(v[0].numpy())
    values, vectors = np.linalg.eigh((V + V.T) / 2)
    expected = vectors @ np.diag(np.maximum(values, 0)) @ vectors.T
    np.testing.assert_allclose(PSD(3).project(v[0]).numpy(), expected.ravel(), atol=1e-12)


@given(points(4))
def test_nonneg_and_box_agree_with_numpy(v):
    x = v[0].numpy()
    lower, upper = FINITE_BOX.lower.numpy(), FINITE_BOX.upper.numpy()
    np.testing.assert_array_equal(Nonneg(4).project(v[0]).numpy(), np.maximum(x, 0))
    np.testing.assert_array_equal(FINITE_BOX.project(v[0]).numpy(), np.clip(x, lower, upper))


@each_set
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (0,), (2, 0)], ids=str)
def test_any_leading_shape(cone, shape):
    v = random_tensor(*shape, cone.dim)
    p = cone.project(v)
    assert p.shape == v.shape
    assert cone.contains(v).shape == cone.dual_contains(v).shape == shape
    for one, whole in zip(v.reshape(-1, cone.dim), p.reshape(-1, cone.dim), strict=True):
        torch.testing.assert_close(cone.project(one), whole, **EXACT)


@each_set
def test_float32_is_kept_and_accurate(cone):
    v = random_tensor(5, cone.dim)
    single = cone.project(v.float())
    assert single.dtype == torch.float32
    # Eigenvalues of a 3 x 3 matrix of unit size are good to some ten float32 roundings.
    torch.testing.assert_close(single.double(), cone.project(v), rtol=0, atol=2e-6)


@each_set
def test_blocks_equal_a_loop(cone):
    """`count` blocks, and the factors of a product, act as if each stood alone."""
    v = random_tensor(5, cone.dim).requires_grad_()
    looped = torch.cat([block.project(v[..., where]) for block, where in blocks(cone)], -1)
    torch.testing.assert_close(cone.project(v), looped, **EXACT)
    weight = random_tensor(5, cone.dim, seed=1)
    (fast,) = torch.autograd.grad((cone.project(v) * weight).sum(), v)
    (slow,) = torch.autograd.grad((looped * weight).sum(), v)
    torch.testing.assert_close(fast, slow, **EXACT)


@each_set
@pytest.mark.parametrize("seed", range(3))
def test_derivative_at_random_points(cone, seed):
    assert torch.autograd.gradcheck(
        cone.project, random_tensor(2, cone.dim, seed=seed).requires_grad_()
    )


# A kink, and a direction from it into the region whose derivative the cone reports there.
KINKS = {
    "nonneg": (Nonneg(2), [0, 1], [-1, 0]),
    "box": (Box(torch.zeros(2), torch.ones(2)), [0, 1], [-1, 1]),
    "point box": (Box(torch.ones(2), torch.ones(2)), [1, 1], [1, 1]),
    "second-order apex": (SecondOrder(3), [0, 0, 0], [-1, 0, 0]),
    "second-order boundary": (SecondOrder(3), [5, 3, 4], [1, 0, 0]),
    "second-order polar boundary": (SecondOrder(3), [-5, 3, 4], [-1, 0, 0]),
    "rotated apex": (RotatedSecondOrder(3), [0, 0, 0], [-1, -1, 0]),
    "psd zero": (PSD(2), [0, 0, 0, 0], [-1, 0, 0, -1]),
    "psd zero eigenvalue": (PSD(3), [1, 0, 0, 0, 0, 0, 0, 0, -1], [0, 0, 0, 0, -1, 0, 0, 0, 0]),
    "psd two zero eigenvalues": (PSD(3), [1] + [0] * 8, [0, 0, 0, 0, -1, 0, 0, 0, -1]),
}
each_kink = pytest.mark.parametrize("kink", KINKS.values(), ids=KINKS.keys())
# Kinks where two smooth pieces meet along one surface.
SIMPLE = ["second-order boundary", "second-order polar boundary", "psd zero eigenvalue"]


@each_kink
def test_derivative_at_a_kink_is_a_limit_of_derivatives(kink):
    """So it is an element of the (Bouligand, hence Clarke) generalised Jacobian."""
    cone, x, direction = kink[0], *(torch.tensor(a).double() for a in kink[1:])
    J = jacobian(cone, x)
    near = x + 1e-8 * direction
    # The derivative changes by O(distance) within a smooth region.
    torch.testing.assert_close(J, jacobian(cone, near), rtol=0, atol=1e-7)
    for d in random_tensor(5, cone.dim):
        torch.testing.assert_close(
            # The step stays inside the region; 1e-16 / 1e-10 of rounding.
            central_difference(cone, near, d, h=1e-10), J @ d, rtol=0, atol=1e-5
        )  # fmt: skip


@each_kink
def test_derivative_at_a_kink_is_a_contraction(kink):
    """Elements of the generalised Jacobian of a projection are symmetric with 0 <= J <= I."""
    J = jacobian(kink[0], torch.tensor(kink[1]).double())
    torch.testing.assert_close(J, J.mT, **EXACT)
    values = torch.linalg.eigvalsh(J)
    assert values.min() >= -1e-14  # rounding
    assert values.max() <= 1 + 1e-14


@pytest.mark.parametrize("name", SIMPLE)
def test_derivative_at_a_simple_kink_lies_between_the_one_sided_ones(name):
    cone, x = KINKS[name][0], torch.tensor(KINKS[name][1]).double()
    J, h = jacobian(cone, x), 1e-7
    for d in random_tensor(20, cone.dim):
        ahead = d @ (cone.project(x + h * d) - cone.project(x)) / h
        behind = d @ (cone.project(x) - cone.project(x - h * d)) / h
        low, high = sorted([ahead.item(), behind.item()])
        # Forward differences err by O(h).
        assert low - 1e-5 <= d @ J @ d <= high + 1e-5


@each_kink
def test_derivative_near_a_kink_agrees_with_central_differences(kink):
    cone, x = kink[0], torch.tensor(kink[1]).double()
    for d in random_tensor(10, cone.dim, seed=2):  # none of them within 1e-5 of another kink
        near = x + 1e-3 * d
        for e in random_tensor(3, cone.dim, seed=1):
            # h^2 times a third derivative of order 1 / 1e-3^2 is 1e-6.
            torch.testing.assert_close(
                jacobian(cone, near) @ e, central_difference(cone, near, e), rtol=0, atol=2e-5
            )


@pytest.mark.parametrize("values", [[2, 2, 2], [-1, -1, -1], [2, 2, -1], [2, -1, -1]], ids=str)
def test_psd_derivative_at_equal_eigenvalues(values):
    """The projection is smooth there, though the eigenvectors are not."""
    Q, _ = torch.linalg.qr(random_tensor(3, 3))
    x = (Q @ torch.diag(torch.tensor(values).double()) @ Q.mT).flatten()
    J = jacobian(PSD(3), x)
    for d in random_tensor(5, 9, seed=1):
        # h^2 = 1e-12 and rounding 1e-16 / 1e-6.
        torch.testing.assert_close(
            J @ d, central_difference(PSD(3), x, d), rtol=0, atol=1e-8
        )  # fmt: skip


@each_set
def test_derivative_at_zero_is_finite(cone):
    v = torch.zeros(2, cone.dim, dtype=torch.float32, requires_grad=True)
    cone.project(v).sum().backward()
    assert torch.isfinite(v.grad).all()


@each_set
def test_nan_stays_in_its_instance(cone):
    v, weight = random_tensor(3, cone.dim), random_tensor(3, cone.dim, seed=1)
    spoilt = v.clone()
    spoilt[1, 0] = torch.nan
    results = []
    for point in (v.requires_grad_(), spoilt.requires_grad_()):
        p = cone.project(point)
        (gradient,) = torch.autograd.grad((p * weight).sum(), point)
        results.append((p[[0, 2]], gradient[[0, 2]]))
    assert torch.isnan(p[1]).any()
    assert all(torch.equal(clean, other) for clean, other in zip(*results, strict=True))
    assert not cone.contains(spoilt)[1]


def test_psd_infinity_stays_in_its_instance():
    v = random_tensor(3, 4)
    clean = PSD(2).project(v)
    v[1, 0] = INF
    p = PSD(2).project(v)
    assert torch.isnan(p[1]).all()
    assert torch.equal(p[[0, 2]], clean[[0, 2]])


@pytest.mark.parametrize(
    ("cone", "inside", "outside"),
    [
        (Nonneg(2), [[0, 0], [1, 2]], [[1, -1e-3], [-1, -1]]),
        (SecondOrder(3), [[5, 3, 4], [0, 0, 0]], [[4.99, 3, 4], [-1, 0, 0]]),
        (RotatedSecondOrder(3), [[1, 2, 2], [0, 3, 0]], [[1, 2, 2.01], [-1, -1, 0]]),
        (PSD(2), [[1, 1, 1, 1], [0, 0, 0, 0]], [[1, 1.01, 1.01, 1], [1, 0.5, -0.5, 1]]),
        (Box(torch.zeros(2), torch.ones(2)), [[0, 1], [0.5, 0]], [[0, 1.01], [-0.01, 0]]),
        (Product([Nonneg(1), SecondOrder(2)]), [[0, 1, 1], [1, 0, 0]], [[-1, 1, 1], [1, 0, 1]]),
    ],
    ids=lambda value: repr(value) if not isinstance(value, list) else "",
)
def test_contains_per_instance(cone, inside, outside):
    x = torch.tensor([*inside, *outside]).double()
    assert cone.contains(x).tolist() == [True, True, False, False]


@pytest.mark.parametrize(
    ("cone", "inside", "outside"),
    [
        (Nonneg(2), [[0, 0], [1, 2]], [[1, -1e-3], [-1, -1]]),
        (SecondOrder(3), [[5, 3, 4], [5, -3, -4]], [[4.99, 3, 4], [-5, 3, 4]]),
        (RotatedSecondOrder(3), [[1, 2, 2], [1, 2, -2]], [[1, 2, 2.01], [-1, 2, 0]]),
        (PSD(2), [[1, 7, -7, 1], [0, 1, -1, 0]], [[1, 2, 2, 1], [0, 1, 0, 0]]),
        (half_line_and_line(), [[0, 0], [3, 0]], [[-1, 0], [1, 1]]),
        (Product([Nonneg(1), PSD(1)]), [[0, 1], [1, 0]], [[-1, 1], [1, -1]]),
    ],
    ids=lambda value: repr(value) if not isinstance(value, list) else "",
)
def test_dual_contains_per_instance(cone, inside, outside):
    """An antisymmetric part is in the dual of PSD: it is orthogonal to symmetric matrices."""
    s = torch.tensor([*inside, *outside]).double()
    assert cone.dual_contains(s).tolist() == [True, True, False, False]


@each_cone
@given(data=st.data())
def test_dual_contains_means_nonnegative_products(cone, data):
    """Points of the dual pair nonnegatively with members; for others -Proj_K(-s) witnesses it."""
    s = data.draw(points(cone.dim))[0]
    rng = np.random.default_rng(2)
    if cone.dual_contains(s, tol=1e-12):
        # Rounding, and the tolerance above times members of size 10.
        assert all(s.numpy() @ member(cone, rng) >= -1e-9 for _ in range(20))
    else:
        assert cone.project(-s) @ s < 0


def test_membership_is_relative_to_the_size():
    x = torch.tensor([[1e6, -0.5], [1.0, -0.5]]).double()
    assert Nonneg(2).contains(x).tolist() == [True, False]
    assert Nonneg(2).contains(x, tol=1e-9).tolist() == [False, False]


def test_box_with_a_bound_per_instance():
    lower = torch.tensor([[0.0, -INF], [1.0, 2.0]])
    box = Box(lower, torch.tensor([[1.0, 0.0], [2.0, 3.0]]))
    v = torch.tensor([[5.0, 5.0], [0.0, 0.0]]).double()
    expected = torch.tensor([[1.0, 0.0], [1.0, 2.0]]).double()
    assert torch.equal(box.project(v), expected)
    assert box.dual_contains(torch.tensor([[-1.0, -1.0], [1.0, -1.0]])).tolist() == [True, True]
    assert box.dual_contains(torch.tensor([[-1.0, 1.0], [1.0, 1.0]])).tolist() == [False, True]


def test_box_without_bounds_is_the_whole_space():
    box = Box(torch.full((3,), -INF), torch.full((3,), INF))
    v = random_tensor(2, 3).requires_grad_()
    assert torch.equal(box.project(v), v)
    (gradient,) = torch.autograd.grad(box.project(v).sum(), v)
    assert torch.equal(gradient, torch.ones_like(v))


PER_INSTANCE_BOX = Box(torch.zeros(4, 3), torch.ones(4, 3))


@pytest.mark.parametrize("call", ["project", "contains", "dual_contains"])
@each_set
def test_wrong_input_is_refused(cone, call):
    with pytest.raises(
        ValueError, match=rf"has shape \(2, {cone.dim + 1}\), expected .*{cone.dim}"
    ):
        getattr(cone, call)(torch.zeros(2, cone.dim + 1))
    with pytest.raises(ValueError, match=rf"has shape \(\), expected \(\.\.\., {cone.dim}\)"):
        getattr(cone, call)(torch.tensor(1.0))
    with pytest.raises(TypeError, match=r"has dtype torch.int64, expected a floating-point"):
        getattr(cone, call)(torch.zeros(2, cone.dim, dtype=torch.int64))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Nonneg(0), "n is 0, expected a positive integer"),
        (lambda: Nonneg(2.0), r"n is 2\.0, expected a positive integer"),
        (lambda: SecondOrder(-1), "dim is -1, expected a positive integer"),
        (lambda: SecondOrder(3, count=0), "count is 0, expected a positive integer"),
        (lambda: RotatedSecondOrder(1), "dim is 1, expected at least 2"),
        (lambda: RotatedSecondOrder(3, count=-2), "count is -2, expected a positive integer"),
        (lambda: PSD(0), "order is 0, expected a positive integer"),
        (lambda: PSD(2, count=True), "count is True, expected a positive integer"),
        (lambda: Product([]), "cones is empty, expected at least one"),
        (lambda: Box(torch.ones(2), torch.zeros(2)), "nothing between them in 2 entries, expected"),
        (lambda: Box(torch.tensor([torch.nan]), torch.ones(1)), "lower or upper holds NaN, expect"),
        (lambda: Box(torch.zeros(2), torch.ones(3)), r"lower .*\(2,\) .*upper \(3,\), expected"),
        (lambda: Box(torch.tensor(0.0), torch.tensor(1.0)), r"lower has shape \(\)"),
        (lambda: PER_INSTANCE_BOX.project(torch.zeros(2, 3)), r"bounds .*\(4,\), .*\(2,\)"),
        (lambda: PER_INSTANCE_BOX.project(torch.zeros(3)), r"bounds .*\(4,\), .*\(\)"),
    ],
)  # fmt: skip
def test_impossible_cones_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_box_dual_contains_refuses_another_batch(shape):
    with pytest.raises(ValueError, match="bounds"):
        PER_INSTANCE_BOX.dual_contains(torch.zeros(shape))


COMPILED = [*SETS, PSD(6, count=2), PSD(10), SecondOrder(8, count=20), RotatedSecondOrder(3, 96)]
each_compiled = pytest.mark.parametrize("cone", COMPILED, ids=repr)


def columns(cone, batch, dtype, seed=0):
    return random_tensor(batch, cone.dim, seed=seed).to(dtype).mT.contiguous()


def both(cone, v, g):
    """The projection of the columns of `v` and the derivative there along `g`."""
    p, gradient = torch.empty_like(v), torch.empty_like(v)
    saved = cone.forward(v, p)
    assert len(saved) == cone.saves
    cone.vjp(v, saved, g, gradient)
    return p, gradient


def by_torch(cone, v, g):
    """The same by the torch formulas, which stand wherever `arrays` finds no array."""
    with pytest.MonkeyPatch.context() as patch:
        for part in ("box", "nonneg", "psd", "rotated", "second_order"):
            patch.setattr(f"rcdrs.cones.{part}.arrays", lambda *tensors: None)
        return both(cone, v, g)


@each_compiled
@pytest.mark.parametrize("batch", [0, 1, 7, 64, 1000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_compiled_equals_torch(cone, batch, dtype):
    v, g = columns(cone, batch, dtype), columns(cone, batch, dtype, seed=1)
    (p, gradient), (p_torch, gradient_torch) = both(cone, v, g), by_torch(cone, v, g)
    eps = torch.finfo(dtype).eps
    # Some hundred roundings of numbers up to 10.
    torch.testing.assert_close(p, p_torch, rtol=0, atol=100 * eps)
    # The derivative amplifies them by the inverse of the distance to the nearest kink: of
    # thousands of random points some come as near as 1e-4.
    torch.testing.assert_close(gradient, gradient_torch, rtol=0, atol=1e5 * eps)
    typical = (gradient - gradient_torch).abs().median() if batch else 0
    assert typical <= 10 * eps


def psd_points(values):
    """Matrices with these eigenvalues: diagonal, the same backwards, and turned."""
    Q, _ = torch.linalg.qr(random_tensor(4, 4))
    L = torch.diag(torch.tensor(values).double())
    return torch.stack([L, L.flip(0, 1), Q @ L @ Q.mT]).flatten(1).mT.contiguous()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    "values",
    [[2, 2, 2, 2], [-1, -1, -1, -1], [3, 3, -2, -2], [1, -1, 1, -1], [5, 1, 1, -1]],
    ids=str,
)
def test_compiled_psd_equals_torch_at_ties(values, dtype):
    v, g = psd_points(values).to(dtype), columns(PSD(4), 3, dtype)
    tolerance = 50 * torch.finfo(dtype).eps  # eigenvalues away from zero: a few roundings
    for found, expected in zip(both(PSD(4), v, g), by_torch(PSD(4), v, g), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("values", [[0, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, -1]], ids=str)
def test_compiled_psd_equals_torch_at_zero_eigenvalues(values, dtype):
    v, g = psd_points(values).to(dtype), columns(PSD(4), 3, dtype)
    (p, gradient), (p_torch, gradient_torch) = both(PSD(4), v, g), by_torch(PSD(4), v, g)
    tolerance = 50 * torch.finfo(dtype).eps
    torch.testing.assert_close(p, p_torch, rtol=0, atol=tolerance)
    # Turned, a zero is a rounding of either sign, and the derivative one of several.
    torch.testing.assert_close(gradient[:, :2], gradient_torch[:, :2], rtol=0, atol=tolerance)
    assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_compiled_psd_keeps_its_accuracy_at_any_scale(scale):
    """The squares of such entries leave the range of float32."""
    v, g = columns(PSD(6), 40, torch.float32), columns(PSD(6), 40, torch.float32, seed=1)
    p, _ = both(PSD(6), v, g)
    scaled, gradient = both(PSD(6), v * scale, g)
    torch.testing.assert_close(scaled / scale, p, rtol=0, atol=1e-5)  # a hundred roundings
    assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("order", [20, 40], ids=["compiled", "torch"])
def test_psd_of_a_large_order(order):
    """Beyond some order the projection is left to LAPACK."""
    V = random_tensor(2, order, order)
    values, vectors = np.linalg.eigh(((V + V.mT) / 2).numpy())
    expected = vectors @ (np.maximum(values, 0)[..., None] * vectors.swapaxes(1, 2))
    found = PSD(order).project(V.flatten(1)).unflatten(-1, (order, order)).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-12)


@each_compiled
@pytest.mark.parametrize("value", [torch.nan, INF, -INF], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_compiled_lanes_do_not_see_each_other(cone, value, dtype):
    v, g = columns(cone, 150, dtype), columns(cone, 150, dtype, seed=1)
    clean, again = both(cone, v, g), both(cone, v, g)
    spoilt = v.clone()
    spoilt[0, [3, 70, 149]] = value
    others = torch.ones(150, dtype=torch.bool)
    others[[3, 70, 149]] = False
    for x, same, y in zip(clean, again, both(cone, spoilt, g), strict=True):
        assert torch.equal(x, same)
        assert torch.equal(x[:, others], y[:, others])


def test_arrays_are_views_of_float_matrices_on_the_cpu():
    x = torch.zeros(2, 3, requires_grad=True)
    (view,) = arrays(x)
    view[0, 0] = 1
    assert x[0, 0] == 1
    for other in (x.half(), x.double(), x.to("meta"), x[0], x[None]):
        assert arrays(x, other) is None
