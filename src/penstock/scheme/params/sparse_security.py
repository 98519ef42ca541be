"""An estimate of the security of ring-LWE with a sparse ternary secret, hybrid attacks included.

The guidelines' tables cover uniform ternary secrets only. Here the attacks are costed, and the cheapest counts:

- primal, without and with coordinates that are guessed to be 0 (drop and solve);
- primal hybrid with a meet in the middle over the guessed coordinates: Howgrave-Graham, CRYPTO 2007, with the
  probability of Son & Cheon, WAHC 2019 (ePrint 2019/1019);
- primal hybrid with Meet-LWE over the guessed coordinates: Hhan, Kim, Lee & Son (ePrint 2022/1473). The estimate is
  held against the logs of the authors' estimator (github.com/yonghaason/PrimalMeetLWE, commit 6111511): it is 0.9
  to 3.5 bits below them. The paper's own tables were not at hand: not confirmed;
- dual hybrid with a search: Espitau, Joux & Kharchenko, INDOCRYPT 2020 (ePrint 2020/515);
- dual hybrid with a meet in the middle: Cheon, Hhan, Hong & Son, 2019 (ePrint 2019/1114);
- dual hybrid with Meet-LWE: Bi, Lu, Luo & Wang, ACISP 2022 (ePrint 2022/1330). Its lists cost here as those of the
  primal one. Their program is not public: not confirmed;
- purely combinatorial: Meet-LWE, May, CRYPTO 2021 (ePrint 2021/216), without a charge for the guess of errors: not
  confirmed.

Lattice reduction: a basis follows the geometric series assumption. Its cost is sieving by lists (`LISTS`), as
in MATZOV's report (2022) and in the authors' estimator above, or `BDGL16`. Which of them the 2024 guidelines use is not
confirmed. Memory is free. Not covered: quantum computers, attacks on the ring's structure, and
attacks by machine learning.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import erf, gammaln

from penstock.base.arrays import Floats

SIGMA = 3.19
"""Standard deviation of the errors. Source: HomomorphicEncryption.org."""
LISTS = "lists"
BDGL16 = "bdgl16"
_LIST_SLOPE, _LIST_FIXED = 0.29613500308205365, 20.387885985467914
"""log2 of the gates of one sieve in dimension b is their line. Source: Albrecht et al., ASIACRYPT 2020 (ePrint
2019/1161), as in MATZOV's report (2022) and the lattice estimator."""
_PROGRESSIVE = 1 / (1 - 2.0 ** (-0.292))
"""Sieves in growing dimensions, over the last of them."""
_VECTORS = 0.2075
"""A sieve in dimension b returns 2^(0.2075 b) short vectors."""
_BLOCKS = np.arange(60, 1000, 4)
_SUCCESS = 0.99
_MEET_WEIGHTS = 96
"""The heaviest guess of Meet-LWE inside a lattice attack."""
_MEET_VECTOR_LOG2 = 16.0
"""log2 of the work for one vector of the ideal list of Meet-LWE inside a lattice attack: projections, nearest planes,
representations that get lost. Calibrated: in the logs of the authors' estimator it is 16 to 26, and the least counts
here. So these logs are an upper bound for the estimate, and no score of it."""

_SLACK = 0.1
"""Bits by which a bound on the cost may be wrong: rounding, and -log2 of a chance that counts as certain, 0.015."""
_BIT = math.log(2)

Cost = Callable[[Floats, Floats, float], tuple[Floats, Floats]]
"""Block sizes (b, 1), guessed coordinates (1, z), and a bound of the least log2 of the cost -> (b, z) log2 of the cost,
and the guess's weight. Costs above the bound may come out as infinite."""


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack at its best parameters."""

    name: str
    log2_cost: float
    block: int = 0
    """The block size of lattice reduction."""
    guessed: int = 0
    """Coordinates of the secret that are guessed."""
    weight: int = 0
    """The weight of a guess."""


@dataclass(frozen=True, slots=True)
class SparseEstimate:
    """The attacks on one secret; the cheapest counts."""

    ring_dim: int
    log_q: float
    weight: int
    model: str
    attacks: tuple[Attack, ...]

    @property
    def best(self) -> Attack:
        return min(self.attacks, key=lambda attack: attack.log2_cost)

    @property
    def bits(self) -> float:
        return self.best.log2_cost


@lru_cache(maxsize=512)
def estimate(ring_dim: int, log_q: float, weight: int, model: str = LISTS) -> SparseEstimate:
    """Cost the attacks on a secret of `weight` coefficients 1 or -1, the others 0, seen modulo 2^log_q.

    `log_q` has the special primes: log2(QP) for a secret that has evaluation keys.
    """
    problem = _Problem(ring_dim, log_q, weight, model)
    attacks = (*problem.lattice(), problem.meet_lwe())
    return SparseEstimate(ring_dim, log_q, weight, model, attacks)


def reduction_log2(block: Floats, dim: Floats, model: str) -> Floats:
    """log2 of the cost of reducing a basis of `dim` vectors with this block size."""
    if model == BDGL16:
        log2_cost: Floats = 0.292 * block + 16.4 + np.log2(8 * dim)
        return log2_cost
    calls = 2 * math.log2(_PROGRESSIVE) + np.log2(np.maximum(dim - block, 1))
    log2_cost = calls + _LIST_SLOPE * (block - _free(block)) + _LIST_FIXED
    return log2_cost


def log_root_hermite(block: Floats) -> Floats:
    """ln of the root Hermite factor. Source: Chen, thesis, 2013."""
    return (np.log(np.pi * block) / block + np.log(block / (2 * np.pi * np.e))) / (2 * (block - 1))


def _free(block: Floats) -> Floats:
    """Dimensions for free. Source: Ducas, EUROCRYPT 2018 (ePrint 2017/999)."""
    return np.maximum(block * math.log(4 / 3) / np.log(block / (2 * np.pi * np.e)), 0.0)


def _sieve_log2(block: Floats, model: str) -> Floats:
    if model == BDGL16:
        log2_cost: Floats = 0.292 * block + 16.4
        return log2_cost
    log2_cost = math.log2(_PROGRESSIVE) + _LIST_SLOPE * block + _LIST_FIXED
    return log2_cost


def _one_guess(x: Floats) -> Floats:
    """That a plane is right, from the whole guess; x: the vector's length over sqrt(2) deviations of the errors."""
    return erf(x / 2)


def _two_guesses(x: Floats) -> Floats:
    """The same from both halves of a guess."""
    return erf(x) - (1 - np.exp(-(x**2))) / (x * math.sqrt(math.pi))


def _log_binomial(n: Floats | float, k: Floats | float) -> Floats:
    """ln of n over k; minus infinity where k exceeds n."""
    n, k = np.asarray(n, dtype=np.float64), np.asarray(k, dtype=np.float64)
    log_count: Floats = gammaln(n + 1) - gammaln(k + 1) - gammaln(np.maximum(n - k, 0) + 1)
    return np.where(k > n, -np.inf, log_count)


def _repeats_log2(log_probability: Floats) -> Floats:
    """log2 of the trials after which one has succeeded, from ln of the probability of one."""
    chance = np.exp(np.minimum(log_probability, 0.0))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        few = np.log2(np.maximum(np.log(1 - _SUCCESS) / np.log1p(-chance), 1.0))
    many = math.log2(-math.log(1 - _SUCCESS)) - log_probability / math.log(2)
    return np.where(chance > 1e-9, np.where(chance >= _SUCCESS, 0.0, few), many)


@dataclass(frozen=True, slots=True)
class _Problem:
    ring_dim: int
    log_q: float
    weight: int
    model: str

    @property
    def spread(self) -> float:
        """Standard deviation of a coefficient of the secret."""
        return math.sqrt(self.weight / self.ring_dim)

    def lattice(self) -> tuple[Attack, ...]:
        """Each lattice attack, on a coarse grid of guessed coordinates and then on a finer one about the best."""
        n = self.ring_dim
        coarse = np.unique(np.concatenate([[0], np.linspace(0, n - 200, 160).astype(int)])).astype(np.float64)
        cheapest: dict[str, Attack] = {}
        for zetas in (coarse, None):
            for name, cost in (
                ("primal", self._primal), ("primal-hybrid", self._primal_hybrid),
                ("dual-hybrid", self._dual), ("dual-meet", self._dual_meet),
                ("primal-meet-lwe", self._primal_meet_lwe), ("dual-meet-lwe", self._dual_meet_lwe),
            ):  # fmt: skip
                grid = zetas
                if grid is None:
                    width = n / 160
                    about = cheapest[name].guessed
                    grid = np.unique(np.clip(np.linspace(about - width, about + width, 41), 0, n - 200).round())
                attack = self._least(name, cost, grid)
                if name not in cheapest or attack.log2_cost < cheapest[name].log2_cost:
                    cheapest[name] = attack
        return tuple(cheapest.values())

    def _least(self, name: str, cost: Cost, zetas: Floats) -> Attack:
        """The cheapest point of the grid: the cheapest of some of its points first, then of all that may be cheaper."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # guesses that there are none of
            blocks: Floats = _BLOCKS.astype(np.float64)
            some, _ = cost(blocks[::8, None], zetas[None, ::8], math.inf)
            most = float(np.where(np.isnan(some), np.inf, some).min()) + _SLACK
            blocks = blocks[reduction_log2(blocks, np.ones(len(blocks)), self.model) <= most]
            costs, weights = cost(blocks[:, None], zetas[None, :], most)
        costs = np.where(np.isnan(costs), np.inf, costs)
        at = np.unravel_index(int(np.argmin(costs)), costs.shape)
        return Attack(name, float(costs[at]), int(blocks[at[0]]), int(zetas[at[1]]), int(weights[at]))

    # The primal lattice of d vectors: q of them, and the secret scaled to the errors' size.
    def _basis(self, block: Floats, zeta: Floats) -> tuple[Floats, Floats, Floats]:
        """ln of the root Hermite factor, the dimension, and ln of the lattice's volume."""
        log_delta = log_root_hermite(block)
        left = self.ring_dim - zeta
        log_scale = math.log(SIGMA / self.spread)
        log_ratio = self.log_q * math.log(2) - log_scale
        dim = np.minimum(np.sqrt(left * log_ratio / log_delta), left + self.ring_dim)
        dim = np.maximum(dim, np.maximum(block, left))
        return log_delta, dim, (dim - left) * self.log_q * math.log(2) + left * log_scale

    def _primal(self, block: Floats, zeta: Floats, _most: float) -> tuple[Floats, Floats]:
        """The projection of the errors is the shortest vector of the last block; guessed coordinates are all 0."""
        log_delta, dim, log_volume = self._basis(block, zeta)
        is_shortest = math.log(SIGMA) + np.log(block) / 2 <= (2 * block - dim) * log_delta + log_volume / dim
        hit = _log_binomial(self.ring_dim - zeta, self.weight) - _log_binomial(self.ring_dim, self.weight)
        cost = reduction_log2(block, dim, self.model) + _repeats_log2(hit)
        return np.where(is_shortest & (block <= dim), cost, np.inf), np.zeros(cost.shape)

    def _primal_hybrid(self, block: Floats, zeta: Floats, most: float) -> tuple[Floats, Floats]:
        """Nearest planes from each guess, and a meeting of halves of the guess."""
        log_delta, dim, log_volume = self._basis(block, zeta)
        last = log_volume / dim - (dim - 1) * log_delta
        rounding = self._nearest_plane(last, np.broadcast_to(log_delta, last.shape), dim, _two_guesses)
        reduction, planes = reduction_log2(block, dim, self.model), 2 * np.log2(dim)
        grid = _Found(dim.shape, most, reduction - rounding / _BIT)
        log_size = np.full(zeta.shape, -np.inf)
        log_hit = np.full(zeta.shape, -np.inf)
        for weight in range(self.weight + 1):
            places = _log_binomial(zeta, weight)
            log_size = np.logaddexp(log_size, places + weight * math.log(2))
            log_hit = np.logaddexp(log_hit, self._hit(zeta, weight, places))
            at = grid.open(log_hit, log_size / 2 / math.log(2))
            if not len(at):
                continue
            guess = log_size[:, at] / 2 / math.log(2) + planes.take(at, 1)
            cost = np.logaddexp2(reduction.take(at, 1), guess) + _repeats_log2(log_hit[:, at] + rounding.take(at, 1))
            grid.add(at, cost, weight)
        return grid.best, grid.weights

    def _primal_meet_lwe(self, block: Floats, zeta: Floats, most: float) -> tuple[Floats, Floats]:
        """Meet-LWE over the guess: nearest planes of its lists in a few projections, then of what is left in all."""
        log_delta, dim, log_volume = self._basis(block, zeta)
        last = log_volume / dim - (dim - 1) * log_delta
        rounding = self._nearest_plane(last, np.broadcast_to(log_delta, last.shape), dim, _one_guess)
        reduction = reduction_log2(block, dim, self.model)
        grid = _Found(dim.shape, most, reduction - rounding / _BIT)
        for weight in range(2, min(self.weight, _MEET_WEIGHTS) + 1, 2):
            log_hit = self._hit(zeta, weight)
            at = grid.open(log_hit)
            if not len(at):
                continue
            guess = _meet_lwe_log2(zeta[:, at], weight) + _MEET_VECTOR_LOG2
            cost = np.logaddexp2(reduction.take(at, 1), guess) + _repeats_log2(log_hit[:, at] + rounding.take(at, 1))
            grid.add(at, cost, weight)
        return grid.best, grid.weights

    @staticmethod
    def _nearest_plane(last: Floats, log_delta: Floats, dim: Floats, chance: Callable[[Floats], Floats]) -> Floats:
        """ln of the probability that nearest planes find the errors; `chance`: that one plane is right."""
        log_chance = np.zeros(last.shape)
        steps = 24
        for first in range(0, 2400, steps):  # in steps: the logarithm of a factor is smooth in its place
            norm = np.exp(np.minimum(last + 2 * log_delta * (first + steps / 2), 30.0))
            log_chance += np.log(np.maximum(chance(norm / (math.sqrt(2) * SIGMA)), 1e-300)) * np.clip(
                dim - first, 0, steps
            )
        return log_chance

    def _hit(self, zeta: Floats, weight: int, places: Floats | None = None) -> Floats:
        """ln of the probability that the guessed coordinates hold `weight` of the secret's.

        `places`: ln of the ways in which they can, where it is known.
        """
        places = _log_binomial(zeta, weight) if places is None else places
        rest = _log_binomial(self.ring_dim - zeta, self.weight - weight)
        return places + rest - _log_secrets(self.ring_dim, self.weight)

    # The dual lattice: short vectors turn samples into samples of the guessed coordinates alone.
    def _short(self, block: Floats, zeta: Floats, weight: int) -> tuple[Floats, Floats]:
        """The dimension, and the standard deviation of the new samples' error over q."""
        log_delta = log_root_hermite(block)
        left = self.ring_dim - zeta
        spread = np.sqrt(max(self.weight - weight, 0) / np.maximum(left, 1)) + 1e-300
        log_ratio = np.maximum(np.log(spread / SIGMA) + self.log_q * math.log(2), 1.0)
        dim = np.minimum(np.maximum(np.sqrt(left * log_ratio / log_delta), left + 1), left + self.ring_dim)
        samples = dim - left
        log_error = math.log(4 / 3) / 2 + np.log(spread) + dim * log_delta - samples / dim * log_ratio
        return dim, np.exp(np.minimum(log_error, 5.0))

    def _dual(self, block: Floats, zeta: Floats, most: float) -> tuple[Floats, Floats]:
        """Every guess of the guessed coordinates is tried on as many samples as tell it from a wrong one."""
        grid = self._found(block, zeta, most)
        for weight in range(min(self.weight, 48) + 1):
            places = _log_binomial(zeta, weight)
            log_size = places + weight * math.log(2)
            log_hit = self._hit(zeta, weight, places)
            at = grid.open(log_hit, log_size / math.log(2))
            if not len(at):
                continue
            dim, error = self._short(block, zeta[:, at], weight)
            log_size = log_size[:, at]
            log_samples = math.log(4) + (2 * np.pi * error) ** 2 + np.log(np.maximum(log_size, 0) + 5)
            samples = log_samples / math.log(2)
            cost = np.logaddexp2(self._many(block, dim, samples), log_size / math.log(2) + samples + 2)
            grid.add(at, cost + _repeats_log2(log_hit[:, at]), weight)
        return grid.best, grid.weights

    def _dual_meet(self, block: Floats, zeta: Floats, most: float) -> tuple[Floats, Floats]:
        """Two halves of a guess meet where their samples differ by no more than the errors."""
        grid = self._found(block, zeta, most)
        for weight in range(0, self.weight + 1, 2):
            halves = _log_binomial(zeta / 2, weight / 2)
            log_half = halves + weight / 2 * math.log(2)
            places = _log_binomial(zeta, weight)
            log_hit = self._hit(zeta, weight, places) + (2 * halves - places)
            at = grid.open(log_hit, log_half / math.log(2))
            if not len(at):
                continue
            dim, error = self._short(block, zeta[:, at], weight)
            log_half = log_half[:, at]
            samples = log_half / math.log(2) + np.log2(np.maximum(log_half, 1.0)) + 1
            wide = 2 * error * np.sqrt(2 * np.log(2 * samples))
            look_up = np.where(wide < 0.5, np.logaddexp2(np.log2(4 * samples), samples * 2 * wide), np.inf)
            cost = np.logaddexp2(self._many(block, dim, np.log2(samples)), log_half / math.log(2) + look_up)
            grid.add(at, cost + _repeats_log2(log_hit[:, at]), weight)
        return grid.best, grid.weights

    def _dual_meet_lwe(self, block: Floats, zeta: Floats, most: float) -> tuple[Floats, Floats]:
        """As `_dual_meet`, with the lists of Meet-LWE instead of the halves of a guess."""
        grid = self._found(block, zeta, most)
        for weight in range(2, min(self.weight, _MEET_WEIGHTS) + 1, 2):
            log_hit = self._hit(zeta, weight)
            at = grid.open(log_hit)
            if not len(at):
                continue
            dim, error = self._short(block, zeta[:, at], weight)
            listed = _meet_lwe_log2(zeta[:, at], weight)
            samples = listed + np.log2(np.maximum(listed, 1.0)) + 1
            wide = 2 * error * np.sqrt(2 * np.log(2 * samples))
            look_up = np.where(wide < 0.5, np.logaddexp2(_MEET_VECTOR_LOG2, samples * 2 * wide), np.inf)
            cost = np.logaddexp2(self._many(block, dim, np.log2(samples)), listed + look_up)
            grid.add(at, cost + _repeats_log2(log_hit[:, at]), weight)
        return grid.best, grid.weights

    def _found(self, block: Floats, zeta: Floats, most: float) -> _Found:
        """For a dual attack: its lattices have more dimensions than coordinates that are not guessed."""
        reduction = reduction_log2(block, self.ring_dim - zeta + 1, self.model)
        return _Found(reduction.shape, most, reduction)

    def _many(self, block: Floats, dim: Floats, samples_log2: Floats) -> Floats:
        """Reduction, and a sieve for each of its yields of short vectors."""
        sieves = np.maximum(samples_log2 - _VECTORS * block, 0.0)
        return np.logaddexp2(reduction_log2(block, dim, self.model), _sieve_log2(block, self.model) + sieves)

    # Without lattices.
    def meet_lwe(self) -> Attack:
        """Meet-LWE with representations by 0, 1 and -1, in trees of 2 to 5 levels; the errors' guess is free."""
        best = _log2_ternary(self.ring_dim, self.weight / 2) / 2  # Odlyzko's meeting, without a tree
        for depth in range(2, 6):
            best = min(best, self._tree(depth, 1, self.weight / 2, 0.0))
        return Attack("meet-lwe", best, guessed=self.ring_dim, weight=self.weight)

    def _tree(self, depth: int, level: int, ones: float, above_log2: float) -> float:
        """The largest list and the longest merge from this level down, at its best choice of added ones.

        `ones`: of each sign in a vector one level above; `above_log2`: log2 of that level's representations.
        """
        n, best = self.ring_dim, math.inf
        signs = 2 * float(_log_binomial(ones, ones / 2)) / math.log(2)
        for added in range(0, 13 if level == 1 else 7):
            mine = ones / 2 + added
            size = _log2_ternary(n, mine)
            zeros = _log2_ternary(int(n - 2 * ones), float(added))
            representations = signs + zeros
            listed = size - representations
            merge = 2 * listed + representations - above_log2  # two such lists into the level above
            # A list of the last level comes from halves with separate places.
            last = level == depth - 1
            below = max(size / 2, listed) if last else self._tree(depth, level + 1, mine, representations)
            best = min(best, max(listed, merge if level > 1 else listed, below))
        return best


class _Found:
    """The cheapest weight of each point of a grid. Points that cannot be the cheapest of all need not be looked at."""

    def __init__(self, shape: tuple[int, ...], most: float, least: Floats) -> None:
        """`least`: (b, z) a lower bound of log2 of the cost, but for the repeats until a guess hits."""
        self.best = np.full(shape, np.inf)
        self.weights = np.zeros(shape)
        self._most = most
        self._least = np.fmin.reduce(least, 0, initial=np.inf)  # no number: not even the cost is one

    def open(self, log_hit: Floats, guess: Floats | float = 0.0) -> npt.NDArray[np.intp]:
        """Columns that may hold the cheapest point: by the repeats, 1 over the chance at least, and by the guess."""
        bound = np.maximum(self._least - log_hit / _BIT, guess)
        return np.nonzero((bound <= self._most)[0])[0]

    def add(self, at: npt.NDArray[np.intp], cost: Floats, weight: int) -> None:
        """Take the costs at these columns with a guess of this weight."""
        known = self.best.take(at, 1)
        better = cost < known  # a cost that is not a number is not
        self.best[:, at] = best = np.where(better, cost, known)
        self.weights[:, at] = np.where(better, weight, self.weights.take(at, 1))
        self._most = min(self._most, float(best.min(initial=np.inf)) + _SLACK)


def _ternary_log2(n: Floats, ones: Floats) -> Floats:
    """log2 of the number of ternary vectors of n coordinates with this many 1 and as many -1."""
    return (_log_binomial(n, ones) + _log_binomial(n - ones, ones)) / math.log(2)


def _meet_lwe_log2(zeta: Floats, weight: int) -> Floats:
    """log2 of the longest list and merge of Meet-LWE over `zeta` coordinates, in trees of 2 and of 3 levels.

    As `_Problem._tree`, for many numbers of coordinates at once.
    """
    n = zeta.reshape(-1, 1, 1)
    ones = weight / 2
    first_added = np.arange(13, dtype=np.float64).reshape(1, -1, 1)
    first: Floats = ones / 2 + first_added
    size = _ternary_log2(n, first)
    signs = 2 * float(_log_binomial(ones, ones / 2)) / math.log(2)
    many = signs + _ternary_log2(np.maximum(n - 2 * ones, 0), first_added)
    listed = size - many
    two = np.maximum(listed, size / 2)
    second_added = np.arange(7, dtype=np.float64).reshape(1, 1, -1)
    second: Floats = first / 2 + second_added
    size_below = _ternary_log2(n, second)
    signs_below = 2 * _log_binomial(first, first / 2) / math.log(2)
    many_below = signs_below + _ternary_log2(np.maximum(n - 2 * first, 0), second_added)
    listed_below = size_below - many_below
    merge = 2 * listed_below + many_below - many
    three = np.maximum(np.maximum(listed, merge), np.maximum(listed_below, size_below / 2))
    trees = [np.where(np.isnan(tree), np.inf, tree).min((1, 2)) for tree in (two, three)]
    return np.minimum(*trees).reshape(zeta.shape)


@lru_cache(maxsize=64)
def _log_secrets(ring_dim: int, weight: int) -> Floats:
    """ln of the number of places of a secret's coefficients that are not 0."""
    return _log_binomial(ring_dim, weight)


@lru_cache(maxsize=1 << 16)
def _log2_ternary(n: int, ones: float) -> float:
    """log2 of the number of ternary vectors with this many 1 and as many -1."""
    first = float(_log_binomial(n, ones))
    return (first + float(_log_binomial(n - ones, ones))) / math.log(2)
