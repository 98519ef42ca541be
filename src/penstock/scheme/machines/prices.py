"""Price lists: dollars of an hour, a byte that leaves and a joule, with a date and a source for each.

One TOML file under `data/prices/` is one list. Prices age: a result names its list and the list's date.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated

from penstock.base.types import RowView
from penstock.errors import MachineError
from penstock.scheme.machines.figure import Figure, Stated
from penstock.scheme.machines.files import Shelf, check_name, figures, parse_spec
from penstock.scheme.machines.records import FigureSpec, RecordSpec, Units

HOUR_UNITS = {"USD/h": 1 / 3600.0}
DEFAULT = "cloud-2024"


class PriceSpec(RecordSpec):
    """A price list as a TOML file has it."""

    date: str
    gpu_hour: Annotated[FigureSpec, Units(HOUR_UNITS)]
    accelerator_hour: Annotated[FigureSpec, Units(HOUR_UNITS)]
    egress: Annotated[FigureSpec, Units({"USD/GB": 1e-9, "USD/TB": 1e-12})]
    electricity: Annotated[FigureSpec, Units({"USD/kWh": 1 / 3.6e6})]


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceList(Stated):
    """A checked price list, in dollars."""

    name: str
    title: str
    date: date
    gpu_hour: Figure
    """Dollars a second of one GPU with its host."""
    accelerator_hour: Figure
    """Dollars a second of one accelerator that is not a GPU, with its host."""
    egress: Figure
    """Dollars for each byte that leaves for a client."""
    electricity: Figure
    """Dollars a joule."""

    def run_usd(self, seconds: float, sent_bytes: float, *, is_gpu: bool, hosts: int = 1) -> float:
        """Dollars of one run: rented hosts for its time, and the bytes of its answer."""
        hour = self.gpu_hour if is_gpu else self.accelerator_hour
        return hosts * seconds * hour.value + sent_bytes * self.egress.value


def load_prices(name_or_path: str | Path = DEFAULT) -> PriceList:
    """The price list of that name, or in that TOML file.

    Raises: UnknownName: no such list; MachineError: the file breaks a rule; FileError: the file cannot be read.
    """
    return price_lists.load(name_or_path)


def _checked(written: RowView | Path, where: str) -> PriceList:
    """The checked list; `where` names the file in messages.

    Raises: MachineError: an empty name, a date that is none, a price without a unit or a source, negative, an unknown
            kind.
    """
    spec = parse_spec(PriceSpec, written, where, "a price list")
    check_name(spec.name, where, "price list")
    try:
        day = date.fromisoformat(spec.date)
    except ValueError:
        raise MachineError(
            f"{where}: date '{spec.date}' is not a day; prices age, so write the one that they are of, as 2024-06-30"
        ) from None
    return PriceList(name=spec.name, title=spec.title, date=day, **figures(spec, where))


price_lists = Shelf("prices", "price list", _checked)
"""The price lists that come with penstock."""
