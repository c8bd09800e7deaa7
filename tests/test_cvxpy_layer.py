"""Layers from CVXPY problems: against Clarabel, finite differences, and in a user's hands."""

from __future__ import annotations

import copy

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from cvxpy_problems import EXAMPLES

import rcdrs
from rcdrs.modelling.canonical import canonicalise
from rcdrs.modelling.cvxpy_layer import from_cvxpy, pays

every_example = pytest.mark.parametrize("name", EXAMPLES)


def values(example, count, seed=0, dtype=torch.float64):
    """Of every parameter, (count, ...)."""
    generator = np.random.default_rng(seed)
    drawn = [example.sample(generator) for _ in range(count)]
    return [torch.tensor(np.stack(column)).to(dtype) for column in zip(*drawn, strict=True)]


def layer_of(example, depth, dtype=torch.float64, **options):
    parts = (example.problem, example.parameters, example.variables)
    return from_cvxpy(*parts, depth=depth, dtype=dtype, **options)


def exact(example, given):
    """Clarabel's value and variables for each instance of a batch."""
    found = []
    for i in range(len(given[0])):
        for parameter, value in zip(example.parameters, given, strict=True):
            parameter.value = value[i].numpy()
        example.problem.solve(solver=cp.CLARABEL)
        duals = [each.dual_value for each in example.problem.constraints]
        found.append((example.problem.value, [np.array(v.value) for v in example.variables], duals))
    return found


def simplex(n=6):
    x, c = cp.Variable(n), cp.Parameter(n, name="price")
    return cp.Problem(cp.Minimize(c @ x), [x >= 0, cp.sum(x) == 1]), x, c


@every_example
def test_many_steps_agree_with_clarabel(name):
    """Fixed core, to 1e-3 in value, or the status says so; variables as the problem has them."""
    example = EXAMPLES[name]()
    layer, given = layer_of(example, 3000), values(example, 2)
    with torch.no_grad():
        solution = layer.solve(*given)
        found, objective = layer.variables(solution, *given), layer.objective(solution, *given)
        multipliers = layer.multipliers(solution)
    for i, (value, expected, duals) in enumerate(exact(example, given)):
        if solution.status[i] == "inaccurate":
            continue
        assert solution.status[i] == "solved"
        assert abs(float(objective[i]) - value) <= 1e-3 * (1 + abs(value))
        for mine, theirs in zip(found, expected, strict=True):
            assert mine[i].shape == theirs.shape
        for mine, dual in zip(multipliers, duals, strict=True):
            np.testing.assert_allclose(mine[i], dual, atol=0.02, rtol=0.02)
    assert solution.status.count("solved") >= 1


@every_example
def test_gradients_agree_with_finite_differences(name):
    """Of a loss in all variables, to every parameter, at a depth where nothing has converged."""
    example = EXAMPLES[name]()
    layer, given = layer_of(example, 8), values(example, 2)
    torch.manual_seed(1)
    weights = [torch.randn(2, *v.shape, dtype=torch.float64) for v in example.variables]

    def loss(tensors):
        pairs = zip(layer(*tensors), weights, strict=True)
        return sum((value * weight).sum() for value, weight in pairs)

    leaves = [value.clone().requires_grad_() for value in given]
    gradients = torch.autograd.grad(loss(leaves), leaves)
    h = 1e-6
    for k, gradient in enumerate(gradients):
        direction = torch.randn_like(given[k])
        if example.parameters[k].is_symmetric() and direction.ndim == 3:
            direction = direction + direction.mT
        ends = [[*given[:k], given[k] + s * h * direction, *given[k + 1 :]] for s in (1, -1)]
        with torch.no_grad():
            quotient = (loss(ends[0]) - loss(ends[1])) / (2 * h)
        torch.testing.assert_close((gradient * direction).sum(), quotient, rtol=1e-4, atol=1e-6)


#: All but one, whose solution is not unique.
UNIQUE = [name for name in EXAMPLES if name != "max_flow"]


@pytest.mark.parametrize("name", UNIQUE)
def test_gradients_of_many_steps_are_those_of_exact_solutions(name):
    """Clarabel's solutions on both sides of each parameter; nearer than h they tell less, since of
    some problems it has no more than six digits.  At a vertex both are zero."""
    example, h = EXAMPLES[name](), 1e-3
    layer, given = layer_of(example, 3000), [value[0] for value in values(example, 1, seed=3)]
    torch.manual_seed(0)
    weights = [torch.randn(tuple(v.shape), dtype=torch.float64) for v in example.variables]
    leaves = [value.clone().requires_grad_() for value in given]
    loss = sum((x * w).sum() for x, w in zip(layer(*leaves), weights, strict=True))
    found = torch.cat([g.flatten() for g in torch.autograd.grad(loss, leaves)])

    def exact_loss(at):
        for parameter, value in zip(example.parameters, at, strict=True):
            parameter.value = value.numpy()
        digits = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-11)
        example.problem.solve(solver=cp.CLARABEL, **digits)
        pairs = zip(example.variables, weights, strict=True)
        return sum(float((np.asarray(v.value) * w.numpy()).sum()) for v, w in pairs)

    expected = []
    for k, value in enumerate(given):
        for unit in torch.eye(value.numel(), dtype=torch.float64):
            move = h * unit.reshape(value.shape)
            if value.ndim == 2 and example.parameters[k].is_symmetric():
                move = (move + move.mT) / 2
            ends = [[*given[:k], value + s * move, *given[k + 1 :]] for s in (1, -1)]
            expected.append((exact_loss(ends[0]) - exact_loss(ends[1])) / (2 * h))
    differences = torch.tensor(expected, dtype=torch.float64)
    if differences.norm() > 1e-6:
        assert torch.cosine_similarity(found, differences, dim=0) > 0.9999
    else:
        assert found.norm() < 1e-6


# Shapes


def test_one_instance_is_a_row_of_the_batch():
    problem, x, c = simplex()
    layer = from_cvxpy(problem, [c], [x], depth=12, dtype=torch.float64)
    prices = torch.randn(5, 6, dtype=torch.float64)
    (batch,), (one,) = layer(prices), layer(prices[3])
    assert batch.shape == (5, 6)
    assert one.shape == (6,)
    torch.testing.assert_close(one, batch[3])
    assert layer.solve(prices[3]).status in ("solved", "inaccurate")


def test_values_without_a_batch_axis_are_shared():
    example = EXAMPLES["markowitz"]()
    layer, (mu, weight) = layer_of(example, 10), values(example, 4)
    (shared,) = layer(mu, weight[0])
    (each,) = layer(mu, weight[:1].expand(4))
    torch.testing.assert_close(shared, each)


def test_plain_numbers_are_taken():
    example = EXAMPLES["markowitz"]()
    layer = layer_of(example, 10)
    (found,) = layer([0.1] * 10, 1.0)
    assert found.shape == (10,)


def test_layer_is_a_module_of_its_dtype():
    problem, x, c = simplex()
    layer = from_cvxpy(problem, [c], [x], depth=10)
    assert layer(torch.zeros(6))[0].dtype is torch.float32
    assert layer.double()(torch.zeros(6).double())[0].dtype is torch.float64


def test_variables_of_every_kind_come_back_in_shape():
    """Symmetric, diagonal, matrices and scalars: as CVXPY itself returns them."""
    S, D = cp.Variable((3, 3), symmetric=True), cp.Variable((2, 2), diag=True)
    M, t, p = cp.Variable((2, 3)), cp.Variable(), cp.Parameter((2, 3))
    rows = [S >> 0, cp.trace(S) == 2, S[0, 1] == 0.3, cp.diag(D) <= 1, t >= 2]
    goal = cp.Minimize(cp.sum_squares(M - p) + cp.trace(S @ np.diag([1, 2, 3])) - cp.trace(D) + t)
    problem = cp.Problem(goal, rows)
    layer = from_cvxpy(problem, [p], [S, D, M, t], depth=4000, dtype=torch.float64)
    value = torch.randn(2, 3, dtype=torch.float64)
    with torch.no_grad():
        found = layer(value)
    p.value = value.numpy()
    problem.solve(solver=cp.CLARABEL)
    for mine, variable in zip(found, (S, D, M, t), strict=True):
        theirs = variable.value
        theirs = theirs.toarray() if hasattr(theirs, "toarray") else np.asarray(theirs)
        np.testing.assert_allclose(mine.numpy(), theirs, atol=1e-4)


def test_gradient_of_a_symmetric_parameter_is_symmetric():
    example = EXAMPLES["smallest_eigenvalue"]()
    (C,) = values(example, 2)
    C.requires_grad_()
    (X,) = layer_of(example, 15)(C)
    (gradient,) = torch.autograd.grad(X[..., 0, 1].sum(), C)
    torch.testing.assert_close(gradient, gradient.mT)
    assert gradient.abs().max() > 0


def test_standard_form_puts_bounded_variables_in_the_cone():
    problem, x, c = simplex()
    found = canonicalise(problem, [c], [x])
    assert found.shape == (1, 6)
    assert repr(found.cone) == "Nonneg(6)"
    assert found.A.constant
    assert found.b.constant
    assert not found.c.constant


def test_products_of_parameters_are_kept_apart():
    """x >= low, where x has a factor that is a parameter too: replaced, it would not be affine."""
    x, factor, low = cp.Variable(2), cp.Parameter(2, nonneg=True), cp.Parameter(2)
    problem = cp.Problem(cp.Minimize(cp.sum(x)), [x >= low, factor @ x >= 3])
    layer = from_cvxpy(problem, [factor, low], [x], depth=3000, dtype=torch.float64)
    given = [
        torch.tensor([[1.0, 2.0], [1.0, 0.5]]).double(),
        torch.tensor([[0.2, 0.1], [1.0, 1.0]]),
    ]
    with torch.no_grad():
        solution = layer.solve(given[0], given[1].double())
        found = layer.objective(solution, given[0], given[1].double())
    for i in range(2):
        factor.value, low.value = given[0][i].numpy(), given[1][i].numpy()
        assert float(found[i]) == pytest.approx(problem.solve(solver=cp.CLARABEL), abs=1e-6)


def test_problem_without_parameters_or_equations():
    x = cp.Variable(3)
    layer = from_cvxpy(cp.Problem(cp.Minimize(cp.sum(x)), [x >= 1]), [], [x], depth=200)
    torch.testing.assert_close(layer()[0], torch.ones(3))
    assert layer.solve().status == "solved"


def test_repeated_equations_do_no_harm():
    x, c = cp.Variable(3), cp.Parameter(3)
    rows = [x >= 0, cp.sum(x) == 1, 2 * cp.sum(x) == 2]
    layer = from_cvxpy(cp.Problem(cp.Minimize(c @ x), rows), [c], [x], depth=300)
    given = torch.tensor([[1.0, 2.0, 3.0], [3.0, 1.0, 2.0]], requires_grad=True)
    (found,) = layer(given)
    torch.testing.assert_close(found, torch.eye(3)[:2], rtol=0, atol=1e-4)
    found.sum().backward()


def test_layers_are_copied_whole():
    example = EXAMPLES["turnover"]()
    layer, given = layer_of(example, 5), values(example, 2)
    assert torch.equal(copy.deepcopy(layer)(*given)[0], layer(*given)[0])


# Scaling


def test_bad_units_do_not_matter():
    """Rows and variables in units a thousand times larger and smaller."""
    F = np.random.default_rng(0).uniform(0.5, 1.5, (3, 6))
    units, rows = np.array([1e3, 1, 1e-3, 1e2, 1, 1e-2]), np.array([1e-3, 1.0, 1e3])
    y, d = cp.Variable(6), cp.Parameter(6)
    goal, scaled = cp.Minimize(d @ y), rows[:, None] * F * units
    problem = cp.Problem(goal, [scaled @ y >= rows, y >= 0])
    layer = from_cvxpy(problem, [d], [y], depth=2000, dtype=torch.float64)
    assert layer.columns.max() / layer.columns.min() > 1e3
    torch.manual_seed(0)
    costs = (torch.rand(3, 6, dtype=torch.float64) + 0.5) * torch.from_numpy(units)
    with torch.no_grad():
        solution = layer.solve(costs)
        found = layer.objective(solution, costs)
    assert solution.status == ["solved"] * 3
    for value, cost in zip(found, costs, strict=True):
        d.value = cost.numpy()
        assert float(value) == pytest.approx(problem.solve(solver=cp.CLARABEL), rel=2e-3)


def test_residuals_are_in_the_units_of_the_problem():
    example = EXAMPLES["turnover"]()
    layer, given = layer_of(example, 30), values(example, 3)
    with torch.no_grad():
        solution = layer.solve(*given)
    A, b, c = solution.program.A, solution.program.b, solution.program.c
    expected = (solution.x @ A.mT - b).norm(dim=1) / (1 + b.norm(dim=1))
    torch.testing.assert_close(solution.primal_residual, expected)
    stationarity = solution.y @ A + solution.s - c
    torch.testing.assert_close(
        solution.dual_residual, stationarity.norm(dim=1) / (1 + c.norm(dim=1))
    )


def test_sparse_matrix_gives_the_same():
    example = EXAMPLES["control"]()
    dense, sparse = (layer_of(example, 30, sparse=kind) for kind in (False, True))
    (first,) = values(example, 3)
    for x, y in zip(dense(first), sparse(first), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-7, atol=1e-9)
    assert dense.solve(first).status == sparse.solve(first).status
    with pytest.raises(ValueError, match="depends on parameters"):
        layer_of(EXAMPLES["lasso"](), 5, sparse=True)


# Status


def bounded():
    """min c'x, x >= low, sum of x at most one: infeasible for a large low, never unbounded."""
    x, c, low = cp.Variable(3), cp.Parameter(3), cp.Parameter(3)
    problem = cp.Problem(cp.Minimize(c @ x), [x >= low, cp.sum(x) <= 1])
    return problem, x, c, low


def test_sparse_is_chosen_where_it_pays():
    """Neighbours coupled: hardly any fill.  Random rows: the factor is full."""
    near = sp.coo_array(sp.eye_array(1000, 2000) + sp.eye_array(1000, 2000, k=1))
    far = sp.coo_array(sp.random_array((1000, 2000), density=0.004, rng=0) + near)
    twice = sp.coo_array(sp.vstack([near, near]))
    assert pays(near)
    assert not pays(far)
    assert not pays(sp.coo_array(near.tocsr()[:100]))
    assert not pays(twice)  # which a sparse layer would refuse
    assert not pays(sp.random_array((6000, 10_000), density=0.05, rng=0))  # large, and not sparse
    assert pays(sp.coo_array(sp.eye_array(6000, 10_000)))


def test_infeasible_instance_has_a_status_and_changes_no_other():
    problem, x, c, low = bounded()
    layer = from_cvxpy(problem, [c, low], [x], depth=300, dtype=torch.float64)
    costs, lows = torch.rand(4, 3).double(), torch.zeros(4, 3).double()
    good = layer(costs, lows)[0]
    lows[2] = 1.0
    solution = layer.solve(costs, lows)
    assert solution.status == ["solved", "solved", "likely infeasible", "solved"]
    assert float(solution.certificates.infeasible[2]) < 1e-2
    others = [0, 1, 3]
    assert torch.equal(layer.variables(solution, costs, lows)[0][others], good[others])


def test_unbounded_instance_has_a_status():
    x, c = cp.Variable(3), cp.Parameter(3)
    problem = cp.Problem(cp.Minimize(c @ x), [x >= 0, x[0] + x[1] == 1])
    layer = from_cvxpy(problem, [c], [x], depth=300, dtype=torch.float64)
    found = layer.solve(torch.tensor([[1.0, 2.0, 1.0], [1.0, 2.0, -1.0]]).double()).status
    assert found == ["solved", "likely unbounded"]


def test_few_steps_are_called_inaccurate():
    example = EXAMPLES["control"]()
    assert set(layer_of(example, 2).solve(*values(example, 3)).status) == {"inaccurate"}


def test_multipliers_of_cones_of_no_rows_and_of_constants():
    """With CVXPY's shapes and signs, and without touching what the problem holds."""
    x, c = cp.Variable(3), cp.Parameter(3)
    X = cp.Variable((2, 2), PSD=True)
    rows = [cp.SOC(x[0] + 2, x[1:]), x[0] <= 1, X[0, 1] == x[1], cp.trace(X) <= 2, c[:0] == x[:0]]
    problem = cp.Problem(cp.Maximize(c @ x), [*rows, cp.Constant(1) <= 2])
    c.value = np.array([1.0, 2.0, -1.0])
    problem.solve(solver=cp.CLARABEL)
    before = [each.dual_value for each in problem.constraints]
    layer = from_cvxpy(problem, [c], [x], depth=3000, dtype=torch.float64)
    for each, value in zip(problem.constraints[1:], before[1:], strict=True):
        np.testing.assert_array_equal(each.dual_value, value)
    with torch.no_grad():
        single = layer.multipliers(layer.solve(torch.tensor(c.value)))
        batch = layer.multipliers(layer.solve(torch.tensor(c.value).expand(2, -1)))
    for mine, theirs in zip((*single[0], *single[1:]), (*before[0], *before[1:]), strict=True):
        # CVXPY gives a second-order cone's as a column, whatever the shape of its variable.
        np.testing.assert_allclose(mine, np.reshape(theirs, mine.shape), atol=1e-4)
    assert batch[0][1].shape == (2, *single[0][1].shape)


def test_warm_start_goes_on_where_it_ended():
    example = EXAMPLES["turnover"]()
    layer, given = layer_of(example, 40), values(example, 3)
    with torch.no_grad():
        half = layer.solve(*given, depth=20)
        whole, again = layer.solve(*given), layer.solve(*given, depth=20, start=half.state)
    torch.testing.assert_close(again.x, whole.x, rtol=1e-8, atol=1e-10)


# Fit


def test_fit_improves_on_the_untuned_core(tmp_path):
    example = EXAMPLES["water_basin"]()
    layer = layer_of(example, 10, dtype=torch.float32)
    samples, held = (values(example, n, seed, torch.float32) for n, seed in ((60, 0), (40, 1)))

    def worst():
        with torch.no_grad():
            found = layer.solve(*held)
        residuals = (found.primal_residual, found.dual_residual, found.gap)
        return float(torch.stack(residuals).amax(0).median())

    before = worst()
    report = layer.fit(*samples, epochs=10)
    assert worst() < 0.5 * before
    for word in ("alpha", "before", "trained", "dual"):
        assert word in str(report)
    layer.save(tmp_path / "layer.pt")
    again = layer_of(example, 10, dtype=torch.float32).load(tmp_path / "layer.pt")
    assert torch.equal(again(*held)[0], layer(*held)[0])


def test_fit_resumes(tmp_path, monkeypatch):
    """An interrupted fit goes on and ends with the same weights."""
    example = EXAMPLES["markowitz"]()
    samples, path = values(example, 30, dtype=torch.float32), tmp_path / "fit.resume"
    whole, parts = (layer_of(example, 5, dtype=torch.float32) for _ in range(2))
    whole.fit(*samples, epochs=6)
    monkeypatch.setattr("rcdrs.training.loop.SAVE_INTERVAL", 0.0)
    steps, plain = [], torch.optim.AdamW.step

    def interrupted(self, *arguments):
        steps.append(0)
        if len(steps) == 4:
            raise KeyboardInterrupt
        return plain(self, *arguments)

    monkeypatch.setattr(torch.optim.AdamW, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        parts.fit(*samples, epochs=6, resume=path)
    monkeypatch.setattr(torch.optim.AdamW, "step", plain)
    parts = layer_of(example, 5, dtype=torch.float32)
    parts.fit(*samples, epochs=6, resume=path)
    for name, weight in whole.state_dict().items():
        assert torch.equal(parts.state_dict()[name], weight), name


# Bad input


def test_public_name():
    assert rcdrs.from_cvxpy is from_cvxpy


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((), "0 values were given, expected 1, of price"),
        ((torch.zeros(5),), r"price has shape \(5,\), expected \(6,\), or \(batch, 6\)"),
        ((torch.zeros(2, 5),), r"price has shape \(2, 5\)"),
        ((torch.zeros(6).double(),), "price has dtype torch.float64, expected torch.float32"),
        ((torch.full((2, 6), torch.nan),), "price"),
        (("text",), "price is 'text'"),
    ],
)
def test_bad_values_are_named(given, message):
    problem, x, c = simplex()
    layer = from_cvxpy(problem, [c], [x])
    with pytest.raises((TypeError, ValueError), match=message):
        layer(*given)


def test_batches_of_two_sizes_are_refused():
    example = EXAMPLES["markowitz"]()
    with pytest.raises(ValueError, match=r"has 3, .* has 4"):
        layer_of(example, 5)(torch.zeros(3, 10).double(), torch.ones(4).double())


def test_unknown_and_repeated_leaves_are_refused():
    problem, x, c = simplex()
    other = cp.Parameter(2, name="other")
    for parameters, variables, message in (
        ([c, other], [x], "other, the problem has price"),
        ([c, c], [x], "price again"),
        ([c], [x, x], "again"),
        ([c], [cp.Variable(2, name="y")], "y, the problem has"),
        ([], [x], "lacks price"),
        ([c], [], "variables is empty"),
        ([c], [c], "expected a cvxpy.Variable"),
        (c, [x], "parameters is a Parameter"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            from_cvxpy(problem, parameters, variables)
    with pytest.raises(TypeError, match=r"problem is 3, expected a cvxpy.Problem"):
        from_cvxpy(3, [], [])


def test_unsupported_problems_are_refused_by_name():
    x, p = cp.Variable(2), cp.Parameter(2)
    with pytest.raises(ValueError, match="exponential cones"):
        from_cvxpy(cp.Problem(cp.Minimize(cp.sum(cp.exp(x)) + p @ x)), [p], [x])
    whole = cp.Variable(2, integer=True)
    with pytest.raises(ValueError, match="integer"):
        from_cvxpy(cp.Problem(cp.Minimize(p @ whole), [whole >= 0]), [p], [whole])
    with pytest.raises(cp.error.DPPError):
        from_cvxpy(cp.Problem(cp.Minimize(cp.sum(x)), [x >= p[0] * p[1]]), [p], [x])
    with pytest.raises(cp.error.DCPError):
        from_cvxpy(cp.Problem(cp.Minimize(-cp.sum_squares(x) + p @ x)), [p], [x])


def test_checkpoint_of_another_problem_is_refused(tmp_path):
    problem, x, c = simplex()
    from_cvxpy(problem, [c], [x]).save(tmp_path / "layer.pt")
    other, y, d = simplex(5)
    with pytest.raises(ValueError, match=r"layer\.pt"):
        from_cvxpy(other, [d], [y]).load(tmp_path / "layer.pt")


def test_more_steps_than_were_trained_for_are_told(tmp_path):
    example = EXAMPLES["markowitz"]()
    layer, given = layer_of(example, 5, dtype=torch.float32), values(example, 30, 0, torch.float32)
    layer.solve(*given, depth=40)  # untrained, it is its core, and nothing is told
    layer.fit(*given, epochs=2)
    with pytest.warns(UserWarning, match="trained for 5 steps and runs for 40"):
        layer.solve(*given, depth=40)
    layer.save(tmp_path / "layer.pt")
    again = layer_of(example, 5, dtype=torch.float32).load(tmp_path / "layer.pt")
    with pytest.warns(UserWarning, match="trained for 5 steps"):
        again.solve(*given, depth=6)


def test_samples_without_a_batch_are_refused():
    problem, x, c = simplex()
    with pytest.raises(ValueError, match="no batch axis"):
        from_cvxpy(problem, [c], [x]).fit(torch.zeros(6))
