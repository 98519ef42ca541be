"""Keys at a node: operations go to the keys (`NodeEngine`), or keys come to the operations (`PulledKeys`)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress

from penstock import _engine
from penstock.base.types import Row
from penstock.errors import PenstockError, UsageError
from penstock.program.evaluator.call import Call, Executed
from penstock.runtime.keystore import parameter_digest
from penstock.runtime.native.engine import Held
from penstock.runtime.native.keys import KeyTraffic
from penstock.runtime.native.prepared import AtNode
from penstock.runtime.native.work import Work
from penstock.scheme.params.ckks import CkksParameters
from penstock.service.near.frames import ANSWER_FIELDS, Kind, decode_header
from penstock.service.near.link import Link, LinkClosed, Words, connect
from penstock.service.near.words import ciphertext_of, header_of, rows_of

TOKEN_VARIABLE = "PENSTOCK_KEYS_TOKEN"


class NodeRefused(PenstockError):
    """The node answered with an error."""


class RemoteNode(AbstractContextManager["RemoteNode"]):
    """A connection to a key node, of one tenant and key pair. One request at a time.

    Args:   token: the token of tenant and key pair, from the node's operator (`penstock keys token`); `None`: the
            environment's PENSTOCK_KEYS_TOKEN. bytes_per_s: throttle of the client's output; the node has its own.
    Raises: LinkClosed: nobody listens, or the node hung up. NodeRefused: token or parameters are not the node's.
            UsageError: no token.
    """

    def __init__(
        self,
        address: str,
        params: CkksParameters,
        *,
        token: str | None = None,
        tenant: str,
        key_tag: str,
        bytes_per_s: float | None = None,
        timeout_s: float = 60.0,
    ) -> None:
        token = os.environ.get(TOKEN_VARIABLE, "") if token is None else token
        if not token:
            raise UsageError(
                f"a client of a key node needs a token: set {TOKEN_VARIABLE} to what 'penstock keys token' printed"
            )
        self.link: Link = connect(address, bytes_per_s=bytes_per_s, timeout_s=timeout_s)
        # Largest answer: the rows of a whole key.
        self._max_body_bytes = max(params.key_bytes(), 3 * params.num_q * params.ring_dim * 8)
        hello = {"token": token, "tenant": tenant, "digest": parameter_digest(params), "key_tag": key_tag}
        try:
            self._ask(Kind.HELLO, hello, [], Kind.WELCOME)
        except PenstockError:
            self.link.close()
            raise

    def rotate(self, engine: _engine.CkksContext, a: _engine.CkksCiphertext, element: int) -> _engine.CkksCiphertext:
        """The automorphism of `a`."""
        return self._ciphertext(engine, Kind.ROTATE, {**header_of(a), "element": element}, rows_of(a))

    def rotate_hoisted(
        self, engine: _engine.CkksContext, a: _engine.CkksCiphertext, element: int, *, again: bool
    ) -> _engine.CkksCiphertext:
        """The same from a shared decomposition. `again`: of the ciphertext that the last one was of, not sent twice."""
        rows = [] if again else rows_of(a)
        return self._ciphertext(engine, Kind.ROTATE_HOISTED, {**header_of(a), "element": element}, rows)

    def relinearize(self, engine: _engine.CkksContext, a: _engine.CkksCiphertext) -> _engine.CkksCiphertext:
        """A product of three polynomials, with two."""
        return self._ciphertext(engine, Kind.RELINEARIZE, header_of(a), rows_of(a))

    def pull(self, engine: _engine.CkksContext, key: str, limbs: int) -> _engine.CkksKey:
        """The rows of a key that a key switch at `limbs` limbs reads."""
        _, words = self._ask(Kind.PULL, {"key": key, "limbs": limbs}, [], Kind.KEY_ROWS)
        return _engine.ckks_key_rows(engine, words, limbs)

    def close(self) -> None:
        """Hang up."""
        self.link.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ciphertext(
        self, engine: _engine.CkksContext, kind: Kind, header: Row, rows: Sequence[Words]
    ) -> _engine.CkksCiphertext:
        answer, words = self._ask(kind, header, rows, Kind.RESULT)
        return ciphertext_of(engine, answer, words)

    def _ask(self, kind: Kind, header: Row, rows: Sequence[Words], answer: Kind) -> tuple[Row, Words]:
        with suppress(LinkClosed):  # a node that hangs up says why first, or else the next line that it did
            self.link.send(kind, header, rows)
        prefix, content = self.link.receive_prefix(self._max_body_bytes)
        if prefix.kind is Kind.ERROR:
            raise NodeRefused(f"the key node: {decode_header(content, ANSWER_FIELDS[Kind.ERROR])['message']}")
        if prefix.kind is not answer:
            raise LinkClosed(f"the key node answered {kind.name} with {prefix.kind.name}: it is another program")
        return decode_header(content, ANSWER_FIELDS[answer]), self.link.receive_body(prefix)


class PulledKeys:
    """A source of keys that fetches the rows of each use from a node, and keeps none."""

    def __init__(self, node: RemoteNode, engine: _engine.CkksContext) -> None:
        self._node, self._engine = node, engine
        self.waits_s: list[float] = []

    @contextmanager
    def get(self, key: str, limbs: int) -> Iterator[_engine.CkksKey]:
        """Raises: NodeRefused, LinkClosed."""
        started = time.perf_counter()
        rows = self._node.pull(self._engine, key, limbs)
        self.waits_s.append(time.perf_counter() - started)
        yield rows

    def traffic(self) -> KeyTraffic:
        """Every use is a read."""
        return KeyTraffic(
            key_bytes=0, read_bytes=self._node.link.received_bytes, misses=len(self.waits_s), wait_s=sum(self.waits_s)
        )

    def close(self) -> None:
        """The connection belongs to the caller."""


class NodeEngine(AtNode):
    """Calls with a key run at a node; ciphertexts travel, keys do not."""

    def __init__(self, params: CkksParameters, context: _engine.CkksContext, node: RemoteNode) -> None:
        super().__init__(params, context)
        self._node = node
        self._sent: object = None

    def link_bytes(self) -> tuple[int, int]:
        return self._node.link.sent_bytes, self._node.link.received_bytes

    def close(self) -> None:
        self._node.close()

    def perform(self, work: Work, calls: Sequence[Call]) -> list[Executed]:
        call = calls[0]
        if call.key is None:
            return super().perform(work, calls)
        start = time.perf_counter()
        return [self.timed(self._at_node(work, call, self.operands_of(calls)), call.state, start)]

    def _at_node(self, work: Work, call: Call, operands: Sequence[Held]) -> _engine.CkksCiphertext:
        engine, node = self.context, self._node
        a, last = operands[0], operands[-1]
        if isinstance(a, _engine.CkksCiphertext):
            if work.name == "rotate":
                return node.rotate(engine, a, work.argument)
            if work.name == "rotate_hoisted":
                again, self._sent = last is self._sent, last
                return node.rotate_hoisted(engine, a, work.argument, again=again)
            if work.name in ("mult", "square"):
                (a,) = engine.perform("mult_no_relin", [a, last])
            if work.name in ("mult", "square", "relinearize"):
                return node.relinearize(engine, a)
        kind, key = call.kind, call.key
        raise PenstockError(f"{kind}: an operation with key {key} that key nodes do not have; pull keys for it")


def engine_at(address: str, params: CkksParameters, context: _engine.CkksContext, tenant: str, tag: str) -> NodeEngine:
    """The engine of a key node, with the token of the environment.

    Raises: as `RemoteNode`.
    """
    return NodeEngine(params, context, RemoteNode(address, params, tenant=tenant, key_tag=tag))
