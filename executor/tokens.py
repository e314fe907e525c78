"""Tokens of the plan's sequences out of the tenants' stores."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from executor.data import IGNORED
from lobra.errors import BadInput
from lobra.store import TokenStore

Tensor = torch.Tensor


@dataclass(frozen=True, slots=True)
class StoredTokens:
    """A store for each tenant by name; an `executor.data.TokenSource`.

    A plan's index counts on through the epochs: row + epoch * rows of the store. A plan's length below the stored one
    cuts the sequence at its end.
    """

    stores: Mapping[str, TokenStore]

    def tokens(self, tenant: str, index: int, length: int, labels: int) -> tuple[Tensor, Tensor]:
        """(ids [length], labels [length]), int64: the next token where it carries loss, elsewhere -100.

        BadInput where the tenant is unknown, the stored sequence shorter, or its labels are not those of the plan.
        """
        if tenant not in self.stores:
            known = ", ".join(sorted(self.stores)) or "none"
            raise BadInput(f"there is no token store for tenant '{tenant}'; there are stores for: {known}")
        store = self.stores[tenant]
        where = f"tenant '{tenant}', sequence {index}"
        if index < 0:
            raise BadInput(f"{where}: an index counts from 0")
        ids, spans = store.sequence(index % len(store))
        if length > len(ids):
            raise BadInput(
                f"{where}: the plan says {length} tokens, but {store.path} holds {len(ids)}; "
                "plan again from this store's lengths"
            )
        kept = torch.from_numpy(ids[:length].astype(np.int64))
        targets = torch.full((length,), IGNORED, dtype=torch.int64)
        for start, end in spans.tolist():
            targets[start - 1 : min(end, length) - 1] = kept[start:end]
        found = int((targets != IGNORED).sum())
        if found != labels:
            raise BadInput(
                f"{where}: the plan counts {labels} labels, but {store.path} gives {found} in {length} tokens; "
                "plan again from this store's labels"
            )
        return kept, targets
