"""One thread for torch, as in the ranks: the products' bits depend on how many there are."""

import torch

torch.set_num_threads(1)
