"""What FHEIns prints: the numbers of its text and tables, and the sizes of its workloads.

Source: "FHEIns: Fully Homomorphic Encryption Acceleration for Large Data Applications with In-Storage Processing".
Bars of its figures 3 to 5 have no printed values, nor does the text name the batch sizes that they are drawn for.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.base.units import BYTE_UNITS
from penstock_studies.io_study.data import PrintedNumber

DRIVES = ("ssd-s", "ssd-l")
PIR_PARAMS, SSC_PARAMS = "fheins-pir", "fheins-ssc"

PIR_MAX: Mapping[str, PrintedNumber] = {"ssd-s": PrintedNumber("14.3"), "ssd-l": PrintedNumber("24.7")}
"""Section IV-B1: "up to", over the batch sizes of figure 3."""
SSC_MAX: Mapping[str, PrintedNumber] = {"ssd-s": PrintedNumber("1.3"), "ssd-l": PrintedNumber("2.7")}
"""Section IV-B1; the abstract has 2.67 for the larger."""
SSC_ABSTRACT = PrintedNumber("2.67")
INSPIRE: Mapping[str, PrintedNumber] = {"ssd-s": PrintedNumber("1.2"), "ssd-l": PrintedNumber("2.3")}
"""Section IV-B1: "1.2x to 2.3x"; the smaller one is assigned to the smaller drive."""
ABLATION: Mapping[str, PrintedNumber] = {"ssd-s": PrintedNumber("2.24"), "ssd-l": PrintedNumber("1.60")}
"""Section IV-B2: "1.60x to 2.24x", and SSD-L gains less."""

PIR_DATABASE_BYTES = 288 * int(BYTE_UNITS["GiB"])
SAMPLE_BYTES = 4 * int(BYTE_UNITS["GiB"])
"""Of that, where a rate is asked for that the engine plays event by event."""
PIR_RECORD_BYTES = 288
"""INSPIRE's database of 2^30 entries, the protocol's own; FHEIns names its VCall messages, of 96 bytes, no size."""
VCALL_RECORD_BYTES = 96
SSC_DATABASE_BYTES = 128 * int(BYTE_UNITS["GB"])
"""Section IV-A: "128GB reference database"; taken as ciphertexts."""
BATCHES = (1, 2, 4, 8, 16, 32, 64)
"""Queries together; powers of two up to the 64 that the text mentions."""
SSC_BATCHES = (32, 64, 128, 256, 512)
"""Vectors in one ciphertext; with 16, of 2048 features, the 95 keys of a sum do not fit in the DRAM of SSD-S."""
SSC_BATCH = 512
SSC_SUMMATION = "bsgs"
"""Sections III-A and IV-A: baby and giant steps; "64 bits batched input queries", read as vectors of 64 elements, of
which 512 fill the 2^15 slots."""

CAPACITY_TIB: Mapping[str, PrintedNumber] = {"ssd-s": PrintedNumber("4"), "ssd-l": PrintedNumber("16")}
BUDGET_W = PrintedNumber("55")
COMPUTE_AREA = (PrintedNumber("40.9", percent=True), PrintedNumber("57.7", percent=True))
COMPUTE_POWER = (PrintedNumber("65.3", percent=True), PrintedNumber("66.2", percent=True))
"""Section IV-B3: "40.9% (57.7%) of the area and 65.3% (66.2%) of the power"; the paper does not explain the
brackets."""
HBM_BYTES = 64 * int(BYTE_UNITS["GB"])
"""Section I: "the working set fits within the 64GB HBM memory"."""
