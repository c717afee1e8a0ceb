"""`feed:mqtt://…#store=FILE`: records of next-half-hour forecasting, from the windows that a feed has kept."""

from collections.abc import Mapping
from pathlib import Path

from sottovoce.data.dataset import DataSet
from sottovoce.data.feed.store import read_windows
from sottovoce.data.forecast import forecast_dataset, held_out
from sottovoce.days import EXPORT
from sottovoce.errors import DataError


def load_feed(path: Path, options: Mapping[str, str]) -> DataSet:
    """Load what a feed has kept: see forecast_dataset. A window of records is a day.

    Args:
        path: of the store.
        options: `meter`, one of the store's, without it all of them but what net meters fed in; `test`, the share of
            the last days that is held back for measuring, without it none.

    Raises:
        DataError: there is no such store or meter, or half hours cannot be made of its windows.
    """
    windows = read_windows(path)
    wh = windows.wh
    if (meter := options.get("meter")) is not None:
        if meter not in windows.meters:
            raise DataError(f"{path}: there is no window of the meter {meter!r} yet; see `sottovoce feed show`")
        wh = wh[[windows.meters.index(meter)]]
    else:
        wh = wh[[name.removesuffix(EXPORT) not in {*windows.meters} - {name} for name in windows.meters]]
    share = held_out(options, str(path)) if "test" in options else 0.0
    return forecast_dataset(wh, windows.first, windows.seconds, name=f"feed:{path.name}", origin=str(path), share=share)
