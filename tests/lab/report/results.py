# SPDX-License-Identifier: GPL-2.0-only
"""docs/results and the README's tables of figures, from the store: `make results`.

It first takes into the store what the lab has left in build/lab (store.py). tests/lab/tests/test_results.py fails where a
document is not what this writes.
"""

from __future__ import annotations

from pathlib import Path

from ..guest.image import REPOSITORY
from . import across, pages, readme, store

PAGES = REPOSITORY / "docs/results"
OWN_PAGE = "le"  # the controller that one is told to take


def documents() -> dict[Path, str]:
    """What each document must be."""
    stores = {name: store.read(name) for name in store.names()}
    written = {PAGES / f"{name}.md": pages.page(own) for name, own in stores.items()}
    written[PAGES / f"{OWN_PAGE}.md"] = across.page(OWN_PAGE, stores)
    return {**written, PAGES / "README.md": f"{pages.index(stores)}\n{across.matrix(stores)}\n", readme.README: readme.text()}


def write() -> None:
    """Only what differs is written, and named."""
    store.update()
    for path, text in documents().items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            print(path.relative_to(REPOSITORY))
