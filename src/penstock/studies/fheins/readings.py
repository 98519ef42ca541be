"""The readings behind FHEIns' headlines, and their neighbours."""

from __future__ import annotations

from penstock.studies.fheins import data
from penstock.studies.headlines import Reading

LAST = data.BATCHES[-1]
FAIR = "batch-overlap-dram"


def readings() -> list[Reading]:
    """Of both drives."""
    return [each for drive in data.DRIVES for each in _of_drive(drive)]


def _of_drive(drive: str) -> list[Reading]:
    pir, ssc = f"pir.{drive}", f"ssc.{drive}"
    assumed = "sensitivity.{}." + drive + ".{}.speedup"
    return [
        Reading(
            row=f"{pir}.max.speedup",
            rests_on=f"{LAST} queries together, a host that reads the database again for each, a free DRAM, lanes that "
            "take butterflies, 16 bits a slot",
            neighbours={
                "one query": f"{pir}.batch1.speedup",
                "both read once a batch": f"{pir}.batch{LAST}.batch-overlap-dram.speedup",
                "both encode once too": f"{pir}.batch{LAST}.batch-overlap-dram-encode-once.speedup",
                "scratchpads spill": f"{pir}.max.restream-overlap-spill.speedup",
                "lanes take words": assumed.format("pir", "lane-word.slot16"),
                "8 bits a slot": assumed.format("pir", "lane-butterfly.slot8"),
                "32 bits a slot": assumed.format("pir", "lane-butterfly.slot32"),
            },
        ),
        Reading(
            row=f"{ssc}.max.speedup",
            rests_on="one query, keys and intermediate results that cost the DRAM nothing, hoisted rotations that "
            "permute digits, lanes that take butterflies",
            neighbours={
                "keys over the DRAM": f"{ssc}.max.batch-overlap-dram.speedup",
                "scratchpads spill": f"{ssc}.max.batch-overlap-spill.speedup",
                f"{LAST} queries, both read once": f"{ssc}.queries{LAST}.batch-overlap.speedup",
                "results permuted": assumed.format("ssc", "hoisted-results-permuted"),
                "lanes take words": assumed.format("ssc", f"lane-word.bsgs.batch{data.SSC_BATCH}"),
                "summed by doubling": assumed.format("ssc", f"lane-butterfly.fold.batch{data.SSC_BATCH}"),
            },
        ),
        Reading(
            row=f"inspire.{drive}.restream-overlap.batch{LAST}.speedup",
            rests_on="its published 36 s, of 16 channels, and the same host",
            neighbours={
                "a host that batches": f"inspire.{drive}.batch-overlap.batch{LAST}.speedup",
                "8 lanes at each channel": f"inspire.{drive}.lanes8.speedup",
                "16 lanes at each channel": f"inspire.{drive}.lanes16.speedup",
            },
        ),
        Reading(
            row=f"ablation.{drive}.base.speedup",
            rests_on="a base that reads twiddle factors and one key of sixteen from flash for each ciphertext",
            neighbours={
                "all keys": f"ablation.{drive}.all-keys-from-flash.speedup",
                "one key, no twiddle factors": f"ablation.{drive}.keys-from-flash.speedup",
                "one seeded key": f"ablation.{drive}.seeded-keys-from-flash.speedup",
                "twiddle factors alone": f"ablation.{drive}.twiddles-from-flash.speedup",
            },
        ),
        *(
            Reading(
                row=f"{at}.fheins_energy",
                rests_on="logic alone at full power while a query runs, a row of Table II for each engine; a host that "
                "reads the database again for each query",
                neighbours={
                    "that host": f"{at}.host_energy",
                    "both read once a batch": f"{at}.{FAIR}.fheins_energy",
                    "the host, if both do": f"{at}.{FAIR}.host_energy",
                },
            )
            for at in (f"{pir}.batch{LAST}", f"{ssc}.batch1", f"{ssc}.queries{LAST}")
        ),
        Reading(
            row=f"table2.{drive}.per-engine.power",
            rests_on="a row of Table II is one engine, as the text says",
            neighbours={
                "a row is an accelerator": f"table2.{drive}.per-accelerator.power",
                "a row is the drive": f"table2.{drive}.per-drive.power",
            },
        ),
    ]
