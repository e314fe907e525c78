"""Which part of a module's matrices a rank holds: rows or columns, by its shard of the tensor-parallel group."""

from dataclasses import dataclass

from executor.config import ROW_MODULES, ModelConfig


@dataclass(frozen=True, slots=True)
class Block:
    """A rectangle of a full matrix."""

    shape: tuple[int, int]  # of the full matrix
    rows: slice
    columns: slice
    owned: bool  # this is the lowest shard that holds the rectangle

    @property
    def local_shape(self) -> tuple[int, int]:
        """(rows, columns) of the rectangle."""
        return self.rows.stop - self.rows.start, self.columns.stop - self.columns.start


def even_slice(size: int, shard: int, tp: int) -> slice:
    """The shard-th of tp equal parts."""
    part = size // tp
    return slice(shard * part, (shard + 1) * part)


def weight_block(config: ModelConfig, module: str, shard: int, tp: int) -> Block:
    """The rectangle of a base weight [outputs, inputs] on one shard."""
    outputs, inputs = config.module_shape(module)
    if module in ROW_MODULES:
        return Block((outputs, inputs), slice(0, outputs), even_slice(inputs, shard, tp), owned=True)
    if module in ("k_proj", "v_proj") and tp > config.kv_heads:
        copies = tp // config.kv_heads  # this many neighbouring shards hold the same key-value head
        rows = even_slice(outputs, shard // copies, config.kv_heads)
        return Block((outputs, inputs), rows, slice(0, inputs), owned=shard % copies == 0)
    return Block((outputs, inputs), even_slice(outputs, shard, tp), slice(0, inputs), owned=True)


def adapter_blocks(config: ModelConfig, module: str, rank: int, shard: int, tp: int) -> tuple[Block, Block]:
    """The rectangles of A [rank, inputs] and B [outputs, rank] on one shard.

    Column modules replicate A and split B's rows; row modules split A's columns and replicate B. The replicated
    matrix gets a part of its gradient on every shard; their sum is the gradient.
    """
    weight = weight_block(config, module, shard, tp)
    outputs, inputs = weight.shape
    whole = slice(0, rank)
    if module in ROW_MODULES:
        a = Block((rank, inputs), whole, weight.columns, owned=True)
        return a, Block((outputs, rank), slice(0, outputs), whole, owned=shard == 0)
    a = Block((rank, inputs), whole, slice(0, inputs), owned=shard == 0)
    return a, Block((outputs, rank), weight.rows, whole, owned=weight.owned)
