"""The server's side of a similarity search: evaluation keys, an encrypted database on disk, an encrypted query.

It never holds a secret key, and imports no client.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import numpy as np

from penstock import _engine
from penstock.base.system.host import available_cores
from penstock.errors import PenstockError, UsageError
from penstock.program.database.similarity.scheme import Layout, SmallRing, large_parameters
from penstock.program.database.similarity.search import WORKLOAD, search, search_trace
from penstock.program.evaluator.call import Cipher
from penstock.program.evaluator.protocol import Values
from penstock.program.evaluator.scaling import ScaleState
from penstock.runtime.keystore import KeyCache, KeyStore, parameter_digest
from penstock.runtime.keystore.stated import check_bytes, check_pair
from penstock.runtime.native.engine import EngineHere, make_context
from penstock.runtime.native.evaluator import NativeEvaluator
from penstock.runtime.native.keys import KeysOnDisk, KeyTraffic
from penstock.runtime.native.memory import peak_resident_bytes
from penstock.runtime.similarity.files import read_description, read_template
from penstock.runtime.similarity.memory import KEPT_CIPHERTEXTS, OPTION, AskedSearch, SearchPlan, plan_search
from penstock.runtime.similarity.reading import DatabaseReader
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces.schema import Trace, TraceMeta

TENANT = "similarity"
"""The owner's name in the key store."""
FROM_SMALL, FROM_SMALL_SQUARED = "from-small", "from-small-squared"
QUERY_MAGIC = b"PSTKSQ1\n"
RESULT_MAGIC = b"PSTKSR1\n"
_PAGE_BYTES = 4096


@dataclass(slots=True)
class SearchAnswer:
    """The result of one search, and its cost."""

    content: bytes
    seconds: dict[str, float] = field(default_factory=dict)
    """Measured, of each step."""
    traffic: KeyTraffic | None = None
    database_bytes: int = 0
    """That were read."""
    trace: Trace | None = None
    """Of the part in the large ring, with the time of each operation."""
    plan: SearchPlan | None = None
    """Of the memory, predicted."""
    peak_bytes: int = 0
    """The most memory that this process ever had, measured."""
    num_encoded: int = 0
    """Constants that were encoded; one counts each time."""


def keys_needed(
    params: CkksParameters, layout: Layout, *, count_only: bool = False
) -> tuple[dict[str, int], tuple[str, ...]]:
    """Keys of the large ring with the limbs of their highest use, and keys of the small one."""
    keys = search_trace(params, layout, count_only=count_only).view().key_limbs()
    large = keys | {FROM_SMALL: 1, FROM_SMALL_SQUARED: 1}
    return large, tuple(f"rot:{element}" for element in expansion_elements(layout))


def expansion_elements(layout: Layout) -> list[int]:
    """The Galois elements by which a query is expanded, n / 2^j + 1."""
    return [(layout.small_dim >> step) + 1 for step in range(layout.dim.bit_length() - 1)]


class Server:
    """A database with the keys of its owner.

    Args:   keys: a key store. database: the folder that `Owner.encrypt_database` wrote. memory_bytes: of this process,
            for keys, constants, records, payloads and ciphertexts together; no limit if omitted. key_budget_bytes: rows
            of keys in memory; the rest of the budget if omitted. threads: of an operation; all processors if omitted.
            option: what states `memory_bytes`, in messages.
    Raises: DatabaseDamaged, KeyMissing, StoreUnusable; UsageError: a database of other parameters. KeyRefused: a
            database of another key pair than the keys. A query states no pair.
    """

    def __init__(
        self,
        keys: Path,
        database: Path,
        *,
        params: CkksParameters | None = None,
        memory_bytes: int | None = None,
        key_budget_bytes: int | None = None,
        threads: int | None = None,
        option: str = OPTION,
    ) -> None:
        self.params = params = large_parameters() if params is None else params
        self.database, self.described = database, read_description(database)
        layout = self.layout = self.described.layout
        self.small = small = SmallRing.under(params, layout.small_dim)
        if (layout.ring_dim, self.described.modulus) != (params.ring_dim, small.modulus):
            raise UsageError(
                f"{database} is of N = {layout.ring_dim} and q_0 = {self.described.modulus}, and the parameters are of "
                f"N = {params.ring_dim} and q_0 = {small.modulus}: take the parameters that it was made with"
            )
        self.threads = threads or available_cores()
        self.memory_bytes, self.key_budget_bytes, self._option = memory_bytes, key_budget_bytes, option
        self._plans: dict[bool, SearchPlan] = {}
        self._context = make_context(params, self.threads, kept_ciphertexts=KEPT_CIPHERTEXTS[0])
        self._small = _small_context(small, 1)
        # For many blocks at once: one thread each.
        self._scanning = _small_context(small, self.threads)
        self._store = KeyStore(keys)
        self._pair = self._pair_of_database()
        self._small_keys = self._open_small_keys()

    def _pair_of_database(self) -> str | None:
        """The tag of the pair of the database, which the store has keys of; `None` where it has none at all."""
        there = self._store.list_keys(tenant=TENANT, digest=parameter_digest(self.params))
        if not there:
            return None  # expanding a query needs none, and answering it says what is missing
        template = read_template(self.database, self.described)
        tags = {key.secret_tag for key in there}
        return check_pair(template, f"the database {self.database}", tags, f"the keys in {self._store.folder}", _REMEDY)

    def _open_small_keys(self) -> dict[int, _engine.CkksKey]:
        digest = _engine.key_digest(self.small.ring_dim, [self.small.modulus], [self.small.special], 1)
        elements = expansion_elements(self.layout)
        # Two parts of two limbs each, all held; a row takes whole pages.
        size = 4 * len(elements) * max(_PAGE_BYTES, 8 * self.small.ring_dim)
        cache = KeyCache(self._store, size, policy="lru", prefetch_uses=0)
        session = cache.session(TENANT, digest)
        return {element: session.get(f"rot:{element}", 1) for element in elements}

    def answer(
        self, query: bytes, *, count_only: bool = False, on_step: Callable[[str, float], None] | None = None
    ) -> SearchAnswer:
        """Search.

        Args:   query: of `Owner.encrypt_query`. on_step: called after each step with its name and seconds.
        Raises: UsageError: a query of another dimension, or no bytes; PenstockError: not a whole query.
        """
        check_bytes(query, "the query")
        result = SearchAnswer(b"")

        @contextmanager
        def step(name: str) -> Iterator[None]:
            begun = time.perf_counter()
            yield
            result.seconds[name] = result.seconds.get(name, 0.0) + time.perf_counter() - begun
            if on_step is not None:
                on_step(name, result.seconds[name])

        if not count_only and not self.described.payload_bytes:
            raise UsageError(f"{self.database} was made without payloads: matches can only be counted in it")
        with step("plan"):
            plan = result.plan = self.plan(count_only=count_only)
            self._context.set_keep_bytes(plan.keep_bytes)
            keys = KeysOnDisk(
                self.params, self._store, TENANT, plan.key_bytes, plan.key_uses, ahead=False, secret_tag=self._pair
            )
        try:
            direct = self.memory_bytes is not None
            with DatabaseReader(self.database, self.described, plan, direct=direct) as reader:
                with step("read ahead"):
                    # In the order of their uses: the first records, then keys.
                    reader.begin()
                    keys.begin()
                with step("expand the query"):
                    vector = self._expanded(self._query(query))
                with step("inner products"):
                    packed = self._packed(vector, reader)
                    del vector
                    self._end_products(reader)
                with step("compare and select"):
                    results = self._compared(keys, packed, count_only, reader, result)
                result.database_bytes = reader.read_bytes
            result.content = RESULT_MAGIC + b"".join(len(part).to_bytes(8, "little") + part for part in results)
            result.traffic, result.peak_bytes = keys.traffic(), peak_resident_bytes()
        finally:
            keys.close()
        return result

    def plan(self, *, count_only: bool = False) -> SearchPlan:
        """The shares of the memory, before a search; made once.

        Raises: BudgetTooSmall: naming what does not fit, and the least that does.
        """
        if count_only not in self._plans:
            contexts = (self._context, self._small, self._scanning)
            asked = AskedSearch(
                params=self.params,
                layout=self.layout,
                payload_bytes=self.described.payload_bytes,
                threads=self.threads,
                count_only=count_only,
                memory_bytes=self.memory_bytes,
                key_budget_bytes=self.key_budget_bytes,
                option=self._option,
            )
            kept = sum(context.kept_bytes for context in contexts)
            self._plans[count_only] = plan_search(asked, self._context, kept)
        return self._plans[count_only]

    def _end_products(self, reader: DatabaseReader) -> None:
        """The memory of the first phase goes."""
        reader.end_records()
        self._small.release_memory()
        self._scanning.release_memory()

    def _query(self, content: bytes) -> _engine.CkksCiphertext:
        n, head = self.small.ring_dim, len(QUERY_MAGIC)
        if not content.startswith(QUERY_MAGIC) or len(content) != head + 40 + 8 * n:
            raise PenstockError(
                f"the query has {len(content)} bytes and is not whole: in a ring of N = {n} it has {head + 40 + 8 * n}"
            )
        dim = int.from_bytes(content[head : head + 4], "little")
        if dim != self.layout.dim:
            raise UsageError(f"a query of {dim} coordinates, for records of {self.layout.dim}: take a query of as many")
        words = np.frombuffer(content, dtype="<u8", offset=head + 40)
        seed = content[head + 8 : head + 40]
        return _engine.ckks_seeded_polynomial(self._small, words, seed, scale=1.0, slots=n // 2)

    def _expanded(self, query: _engine.CkksCiphertext) -> list[_engine.CkksCiphertext]:
        """A ciphertext for each coordinate, which is its constant, times their number.

        Step j adds to a ciphertext its image under X -> X^(n/2^j + 1), which changes the sign of X^(2^j). So half of
        the coefficients double, and the others vanish. The difference has the others; X^-(2^j) moves them down. Source:
        Angel, Chen, Laine and Setty, IEEE S&P 2018 (ePrint 2017/1142).
        """
        ring, powers = self._small, [query]
        for step, element in enumerate(expansion_elements(self.layout)):
            key = self._small_keys[element]
            turned = [ring.perform("rotate", [ciphertext], argument=element, key=key)[0] for ciphertext in powers]
            pairs = list(zip(powers, turned, strict=True))
            power = 2 * self.small.ring_dim - (1 << step)
            even = [ring.perform("add", pair)[0] for pair in pairs]
            odd = [ring.perform("monomial", ring.perform("sub", pair), argument=power)[0] for pair in pairs]
            powers = [*even, *odd]
        return powers

    def _packed(self, vector: list[_engine.CkksCiphertext], reader: DatabaseReader) -> list[_engine.CkksCiphertext]:
        """The similarities as coefficients of large ciphertexts, under the ephemeral secret."""
        keys = self._from_small_keys()
        made = []
        parts: list[_engine.CkksCiphertext] = []
        for group in reader.groups():
            parts += _engine.ckks_inner_products(self._scanning, group, vector)
            while len(parts) >= self.layout.ratio:
                made.append(self._pack(parts[: self.layout.ratio], keys))
                del parts[: self.layout.ratio]
        if parts:
            made.append(self._pack(parts, keys))
        return made

    def _from_small_keys(self) -> tuple[_engine.CkksKey, _engine.CkksKey]:
        digest = parameter_digest(self.params)
        size = 64 * max(_PAGE_BYTES, 8 * self.params.ring_dim)
        cache = KeyCache(self._store, size, policy="lru", prefetch_uses=0)
        session = cache.session(TENANT, digest, secret_tag=self._pair)
        return session.get(FROM_SMALL, 1), session.get(FROM_SMALL_SQUARED, 1)

    def _pack(
        self, parts: list[_engine.CkksCiphertext], keys: tuple[_engine.CkksKey, _engine.CkksKey]
    ) -> _engine.CkksCiphertext:
        packed = _engine.ckks_pack_small(self._context, self._small, parts)
        return self._context.switch_small(packed, keys[0], keys[1])

    def _compared(
        self,
        keys: KeysOnDisk,
        packed: list[_engine.CkksCiphertext],
        count_only: bool,
        reader: DatabaseReader,
        result: SearchAnswer,
    ) -> list[bytes]:
        assert result.plan is not None
        engine = EngineHere(self.params, self._context, keys, vector_bytes=result.plan.vector_bytes)
        ev = NativeEvaluator(engine, _NoEnds())
        described = _engine.CkksWriter(reader.template())

        def large(number: int) -> Cipher:
            value = packed[number]
            packed[number] = None  # type: ignore[call-overload] # its memory goes
            return Cipher(ev.builder.ciphertext(1), ScaleState(1, 1), 2, value.with_scale(engine.scale_at(1)))

        def payload(variant: int, score: int, column: int) -> Cipher:
            content = reader.payload(variant, score, column)
            check_pair(content, f"a payload in {self.database}", [self._pair or ""], "the others", _REMEDY)
            value = self._context.import_ciphertext(content)
            return Cipher(ev.builder.ciphertext(value.limbs), ScaleState(value.limbs, value.degree), 2, value)

        outputs = search(ev, self.layout, large, payload, count_only=count_only)
        result.num_encoded = engine.num_encoded
        meta = TraceMeta(workload=WORKLOAD, params=self.params.to_dict(), reading="native")
        result.trace = ev.builder.finish(meta)
        return [self._context.export_ciphertext(output.value, described) for output in outputs]


_REMEDY = "take the keys of the database's owner, or make the database again"


class _NoEnds:
    """Nothing is encrypted or decrypted here."""

    def encrypt(self, values: Values) -> NoReturn:
        raise PenstockError("the server encrypts nothing")

    def decrypt(self, content: bytes, *, is_complex: bool = False) -> NoReturn:
        raise PenstockError("the server has no secret key, and decrypts nothing")


def _small_context(small: SmallRing, threads: int) -> _engine.CkksContext:
    return _engine.CkksContext(
        **small.shape(),
        threads=threads,
        keep_bytes=64 << 20,
    )
