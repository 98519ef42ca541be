"""The study's queries, drives and policies, set up once and shared by its rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from penstock.lab.instorage.drive import DriveRates, drive_rates
from penstock.lab.instorage.machine import InStorage, UnitAccelerator
from penstock.lab.instorage.machine_spec import load_instorage
from penstock.lab.instorage.policies import HOST_POLICIES, Contention, Encoding, HostPolicy, Switches
from penstock.lab.instorage.queries import Answered, Inside, in_storage, on_host, speedup
from penstock.lab.instorage.query import Query, pir_query, ssc_query
from penstock.scheme.machines import Machine, load_machine
from penstock.scheme.params import catalogue
from penstock_studies.fheins import data


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One reading of the comparison: the host's part and the load of the drive's inside."""

    name: str
    host: HostPolicy
    inside: Inside
    says: str


RESTREAM, BATCHED = HOST_POLICIES["restream-overlap"], HOST_POLICIES["batch-overlap"]
CACHED = replace(RESTREAM, cached_bytes=data.HBM_BYTES)
KEPT = Inside(contention=Contention.DRAM)
SPILLED = Inside(contention=Contention.SPILL)
ONCE = replace(KEPT, switches=Switches(encoding=Encoding.BATCH))

HEADLINE = Policy(
    name="restream-overlap",
    host=RESTREAM,
    inside=Inside(),
    says="the host reads the database for each query, computing at once; the drive's DRAM is free",
)
FAIR = Policy(
    name="batch-overlap/dram",
    host=BATCHED,
    inside=KEPT,
    says="both sides read the database once a batch; the host overlaps; queries and keys come over the drive's DRAM",
)
POLICIES: tuple[Policy, ...] = (
    HEADLINE,
    Policy(
        name="restream-serial",
        host=HOST_POLICIES["restream-serial"],
        inside=Inside(),
        says="as the headline, but the host reads, then computes",
    ),
    Policy(
        name="restream-overlap-cached-64GB",
        host=CACHED,
        inside=Inside(),
        says="as the headline, and 64 GB of the database stay in the host's HBM between queries",
    ),
    Policy(
        name="restream-overlap/dram",
        host=RESTREAM,
        inside=KEPT,
        says="the headline's host; the drive's DRAM carries queries and keys",
    ),
    Policy(
        name="restream-overlap/spill",
        host=RESTREAM,
        inside=SPILLED,
        says="the headline's host; what the scratchpads do not hold goes through the drive's DRAM as well",
    ),
    Policy(
        name="batch-overlap",
        host=BATCHED,
        inside=Inside(),
        says="both sides read the database once a batch, the host overlaps; the drive's DRAM is free",
    ),
    FAIR,
    Policy(
        name="batch-overlap/dram/encode-once",
        host=replace(BATCHED, encoding=Encoding.BATCH),
        inside=ONCE,
        says="as batch-overlap/dram, and both sides encode a record once for all queries of the batch",
    ),
    Policy(
        name="batch-overlap/spill",
        host=BATCHED,
        inside=SPILLED,
        says="as batch-overlap/dram, and what the scratchpads do not hold goes through the drive's DRAM as well",
    ),
)


@lru_cache(maxsize=1)
def fheins() -> UnitAccelerator:
    accelerator = load_instorage("fheins")
    assert isinstance(accelerator, UnitAccelerator)
    return accelerator


@dataclass(slots=True)
class FheinsStudy:
    """Queries and machines of the study."""

    accelerator: UnitAccelerator
    inspire: InStorage
    host: Machine
    drives: dict[str, DriveRates]

    @classmethod
    def of_paper(cls) -> FheinsStudy:
        return cls(
            accelerator=fheins(),
            inspire=load_instorage("inspire"),
            host=load_machine("sharp"),
            drives={name: drive_rates(name) for name in data.DRIVES},
        )

    def pir(
        self,
        database_bytes: int = data.PIR_DATABASE_BYTES,
        record_bytes: int = data.PIR_RECORD_BYTES,
        slot_bits: int | None = None,
    ) -> Query:
        """Private retrieval, over 288 GiB unless another size is given."""
        return pir_query(
            catalogue.get(data.PIR_PARAMS),
            database_bytes=database_bytes,
            record_bytes=record_bytes,
            slot_bits=slot_bits or int(self.accelerator.slot.value),
        )

    def ssc(self, batch: int = data.SSC_BATCH, summation: str = data.SSC_SUMMATION) -> Query:
        """Scores over 128 GB of ciphertexts."""
        return ssc_query(
            catalogue.get(data.SSC_PARAMS), database_bytes=data.SSC_DATABASE_BYTES, batch=batch, summation=summation
        )

    def compared(self, query: Query, drive: str, policy: Policy, batch: int = 1) -> tuple[float, Answered, Answered]:
        """Speedup of FHEIns, its answer and the host's."""
        rates = self.drives[drive]
        ours = in_storage(query, rates, self.accelerator, batch=batch, inside=policy.inside)
        theirs = on_host(query, rates, self.host, policy.host, batch=batch)
        return speedup(ours, theirs), ours, theirs
