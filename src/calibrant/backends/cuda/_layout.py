"""How the threads of a GPU share out rows of logits: the constants of ``rows.cuh``."""

from __future__ import annotations

from dataclasses import asdict, dataclass

SHORT = 128  # classes up to which the threads of a warp share several rows
SLOTS = 32  # values that a thread holds, at most
MOST_WARPS = 16  # that hold a row together
LONG_SLOTS = 16  # values that a thread holds of a row that no block can hold: it is read again
LONGEST = 65_536  # classes up to which the caches hold such rows, with two blocks per processor


@dataclass(frozen=True)
class Layout:
    """Who holds which values of a row; ``rows.cuh`` has the meaning of each number."""

    classes: int
    threads: int
    lanes: int
    warps: int
    chunks: int
    vec: int
    slots: int
    staged: bool
    unit: int
    resident: int
    ahead: bool

    @property
    def rows_per_block(self) -> int:
        """Rows that a block works on at a time."""
        return self.threads // (self.lanes * self.warps)

    def defines(self) -> dict[str, int]:
        """The constants by their names in the source."""
        return {name.upper(): int(value) for name, value in asdict(self).items()}


def layout_of(classes: int, itemsize: int, copies: int = 1, ahead: bool = False) -> Layout:
    """The layout for rows of so many classes of so many bytes each.

    ``copies``: how many numbers a thread keeps of each value. ``ahead``: whether to read the next
    row during the work on this one, which pays where little is written and much computed. How many
    blocks share a processor bounds the registers of a thread. The rules were found by trying.
    """
    if classes <= SHORT:  # several rows per warp lie side by side, read and written in one piece
        lanes = _power_of_two(-(-classes // SLOTS))
        piece = 32 // lanes * classes * itemsize
        unit = next(size for size in (16, 8, 4, 2) if piece % size == 0)
        slots = -(-classes // lanes)
        resident = 3 if copies * slots > SLOTS else 4
        return Layout(classes, 256, lanes, 1, 1, 1, slots, True, unit, resident, False)
    vec = next(size for size in (4, 2, 1) if classes % size == 0)
    warps, most = _power_of_two(-(-classes // (32 * SLOTS))), SLOTS
    if warps > MOST_WARPS:
        warps, most = (MOST_WARPS if classes <= LONGEST else MOST_WARPS // 2), LONG_SLOTS
    chunks = -(-classes // (32 * most * warps))
    slots = -(-classes // (32 * warps * chunks * vec)) * vec
    threads = 256 if warps == 1 else 32 * warps
    ahead = ahead and chunks == 1 and vec * itemsize >= 4 and warps <= 8
    kept = slots * (copies if chunks == 1 else 1)
    together = 1024 if kept <= 16 or ahead else 768 if kept <= SLOTS else 512
    resident = max(1, together // threads)
    return Layout(classes, threads, 32, warps, chunks, vec, slots, False, 16, resident, ahead)


def profile_layout(classes: int) -> Layout:
    """One warp per row, however long: the work on a value is so much that none need be shared."""
    vec = next(size for size in (4, 2, 1) if classes % size == 0)
    chunks = -(-classes // (32 * SLOTS))
    slots = -(-classes // (32 * chunks * vec)) * vec
    return Layout(classes, 256, 32, 1, chunks, vec, slots, False, 16, 2, False)


def _power_of_two(number: int) -> int:
    """The smallest power of two that is not below the number."""
    return 1 << (number - 1).bit_length()
