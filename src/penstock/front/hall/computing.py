"""`penstock.package_server`: a package computed on ciphertexts whose secret key is elsewhere."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from penstock import _engine
from penstock.base.system.host import available_cores
from penstock.base.units import format_bytes, parse_bytes
from penstock.errors import BudgetTooSmall, KeyMissing, UsageError
from penstock.front.hall.arguments import names_arguments
from penstock.runtime.keystore import KeyCache, KeyName, KeyStore, KeyUse
from penstock.runtime.keystore.stated import check_tag, common_pair
from penstock.runtime.native.compute import WholeOptions, compute_compiled
from penstock.runtime.native.engine import make_context
from penstock.runtime.native.keys import SessionKeys
from penstock.runtime.native.store import DEFAULT_TENANT
from penstock.scheme.params.ckks import CkksParameters
from penstock.service.work.programs import compile_planned, names_of, plan_program

_KEPT_CIPHERTEXTS = 16
"""Memory of dropped results that one run leaves to the next, in fresh ciphertexts."""
_UNBOUNDED_BYTES = 1 << 62
"""A budget of keys that binds nothing."""


class PackageServer:
    """Runs a package on encrypted inputs, as often as asked. It needs evaluation keys, and has no place for a secret.

    Keys stay in memory between runs, up to the budget; beyond it they are read in the order of their uses. One thread
    calls it. A child of a fork reads its own keys.
    """

    def __init__(
        self, package: Path, store: KeyStore, *, tenant: str, threads: int, key_budget_bytes: int | None
    ) -> None:
        self.tenant, self.package_path = tenant, package
        planned = plan_program(package, key_budget_bytes or _UNBOUNDED_BYTES)
        budget = key_budget_bytes or max(1, planned.key_bytes)
        largest = max(planned.needs.values(), default=0)
        if budget < largest:
            raise BudgetTooSmall(
                f"key_budget {format_bytes(budget)}: the largest key of {package} takes {format_bytes(largest)}; give "
                "at least so much"
            )
        self._context = make_context(planned.params, threads, kept_ciphertexts=_KEPT_CIPHERTEXTS)
        self.program = compile_planned(planned, self._context, threads)
        self.params: CkksParameters = planned.params
        self.keys = planned.keys
        self._store, self._budget, self._process = store, budget, 0
        self._names: dict[str | None, dict[str, KeyName]] = {}
        self._names_of(None)
        self._cache = self._cached()

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the encrypted inputs."""
        return self.program.inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the encrypted outputs."""
        return self.program.outputs

    def run(self, inputs: Mapping[str, bytes]) -> dict[str, bytes]:
        """The encrypted outputs of encrypted inputs, by name, in OpenFHE's bytes.

        Args:   inputs: ciphertexts of one key pair, in OpenFHE's bytes or seeded.
        Raises: UsageError: other names than the program's, or no bytes. KeyRefused: an input states another pair than
                the keys or the other inputs, or none. KeyMissing: the keys of its pair are not all there.
                PenstockError: an input is not a ciphertext of this set.
        """
        wanted = self.program.inputs
        if not isinstance(inputs, Mapping):
            raise UsageError(
                f"{self.package_path}: the inputs are a dictionary, from names to bytes, not {type(inputs).__name__}"
            )
        if set(inputs) != set(wanted):
            given = ", ".join(map(str, inputs)) or "none"
            raise UsageError(f"{self.package_path} has the inputs {', '.join(wanted)}; given: {given}")
        compiled, pair, cache = self.program.compiled, self._pair_of(inputs), self._cached()
        names = self._names_of(pair)
        plan = cache.plan([KeyUse(names[key], limbs) for key, limbs in compiled.key_uses])
        try:
            keys = SessionKeys(cache.session(self.tenant, self.program.digest, plan, secret_tag=pair))
            done = compute_compiled(
                compiled,
                self._context,
                keys,
                lambda number: inputs[wanted[number]],
                WholeOptions(lanes=self.program.lanes.count, keep_bytes=compiled.repeated_bytes),
            )
        finally:
            plan.close()
        writer = _engine.CkksWriter(inputs[wanted[0]])
        return {
            name: self._context.export_ciphertext(result, writer)
            for name, result in zip(self.program.outputs, done.outputs, strict=True)
        }

    def __enter__(self) -> PackageServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cached().forget_tenant(self.tenant)

    def _cached(self) -> KeyCache:
        """The cache of this process: a child of a fork has none of the threads of its parent's."""
        if self._process != os.getpid():
            self._cache, self._process = KeyCache(self._store, self._budget, prefetch_uses=64), os.getpid()
        return self._cache

    def _pair_of(self, inputs: Mapping[str, bytes]) -> str | None:
        """The tag of the pair of the inputs; `None` where no key states one, or none is used.

        Raises: KeyRefused.
        """
        named = {f"input '{name}'": inputs[name] for name in self.program.inputs}
        tag = common_pair(named)
        if tag is None or tag in self._names or not self.keys:
            return tag if tag in self._names else None
        there = self._store.list_keys(tenant=self.tenant, digest=self.program.digest)
        tags = {key.secret_tag for key in there}
        if "" in tags and tag not in tags:
            return None
        check_tag(tag, next(iter(named)), tags, f"the keys of tenant '{self.tenant}' in {self._store.folder}")
        return tag

    def _names_of(self, pair: str | None) -> dict[str, KeyName]:
        """The names of the program's keys of a pair; of the oldest one if omitted.

        Raises: KeyMissing: keys that the program needs are not there, or have too few limbs.
        """
        if pair not in self._names:
            names, lacking = names_of(self._store, self.tenant, self.program, pair)
            if lacking:
                raise KeyMissing(
                    f"{self._store.folder}: tenant '{self.tenant}' lacks {len(lacking)} of the keys of "
                    f"{self.package_path}: {', '.join(lacking)}; its owner makes them (`penstock client keys "
                    f"--workload {self.package_path}`)"
                )
            self._names[pair] = names
        return self._names[pair]


@names_arguments
def package_keys(package: str | Path) -> dict[str, int]:
    """The evaluation keys that `package_server` asks for: key -> limbs of its highest use.

    Raises: PackageError: no package, or a damaged one.
    """
    return plan_program(Path(package), _UNBOUNDED_BYTES).keys


@names_arguments
def package_server(
    package: str | Path,
    keys: str | Path,
    *,
    tenant: str = DEFAULT_TENANT,
    threads: int | None = None,
    key_budget: str | int | None = None,
) -> PackageServer:
    """A package, ready to compute on ciphertexts whose secret key is elsewhere.

    Args:   package: the file. keys: a key store with the evaluation keys. threads: all of this machine if omitted.
            key_budget: of keys in memory, such as `"512 MiB"`; all if omitted.
    Raises: PackageError: no package, or a damaged one. KeyMissing: the store lacks keys of it, all named.
            BudgetTooSmall: the budget does not hold the largest key.
    """
    budget = parse_bytes(key_budget, "key_budget") if isinstance(key_budget, str) else key_budget
    if budget is not None and budget < 1:
        raise UsageError(f"key_budget {budget}: at least one byte, and room for the largest key")
    return PackageServer(
        Path(package),
        KeyStore(Path(keys), reading=True),
        tenant=tenant,
        threads=threads or available_cores(),
        key_budget_bytes=budget,
    )
