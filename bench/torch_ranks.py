#!/usr/bin/env python3
"""The peer of `ranks.py`: several processes of PyTorch train one CTR model on the CPU, over gloo.

Examples, drawn by `ranks.py`, are in memory before the clock starts; every process takes its slice
of each mini-batch. Prints one JSON line: examples per second of each repeat.

Ways:
  ddp       one EmbeddingBag with sparse gradients for all slots, complete on every process, under
            DistributedDataParallel; torch.optim.Adagrad on its rows
  torchrec  EmbeddingBagCollection under DistributedModelParallel, each table's rows divided among
            the processes; row-wise Adagrad in FBGEMM's backward pass
  pipeline  the same through TrainPipelineSparseDist, which exchanges ids a mini-batch ahead
"""

import argparse
import json
import logging
import os
import socket
import time
import warnings
from dataclasses import dataclass

os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

HIDDEN = [512, 256, 128, 1]
SLOTS = 26


@dataclass
class Share:
    """The part of a mini-batch that one process has."""
    ids: object
    dense: torch.Tensor
    labels: torch.Tensor

    def to(self, *_, **__):
        return self

    pin_memory = record_stream = to


def layers(sizes, ends_rectified):
    made = []
    for inputs, outputs in zip(sizes, sizes[1:]):
        made += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*(made if ends_rectified else made[:-1]))


class Dense(nn.Module):
    """Logits from pooled rows (examples, slots, lanes) and dense features."""

    def __init__(self, options, slots, features):
        super().__init__()
        self.kind, self.dim = options.model, options.dim
        if self.kind == "deepfm":
            self.linear = nn.Linear(features, 1)
            self.top = layers([slots * self.dim + features, *HIDDEN], False)
        else:
            self.bottom = layers([features, 512, 256, self.dim], True)
            self.top = layers([self.dim + (slots + 1) * slots // 2, *HIDDEN], False)
            self.pairs = torch.tril_indices(slots + 1, slots + 1, -1)

    def forward(self, rows, x):
        v = rows[..., :self.dim]
        if self.kind == "deepfm":
            s = v.sum(1)
            second = ((s * s).sum(1) - (v * v).sum((1, 2))) / 2
            deep = self.top(torch.cat([v.flatten(1), x], 1)).squeeze(1)
            return deep + second + rows[..., self.dim].sum(1) + self.linear(x).squeeze(1)
        low = self.bottom(x)
        all_of = torch.cat([low[:, None], v], 1)
        dots = all_of @ all_of.mT
        return self.top(torch.cat([low, dots[:, self.pairs[0], self.pairs[1]]], 1)).squeeze(1)


class Whole(nn.Module):
    """All tables as one, complete on this process."""

    def __init__(self, sizes, lanes):
        super().__init__()
        self.slots, self.lanes = len(sizes), lanes
        self.table = nn.EmbeddingBag(sum(sizes), lanes, mode="sum", sparse=True)
        nn.init.uniform_(self.table.weight, -0.01, 0.01)

    def forward(self, ids):
        return self.table(ids.reshape(-1, 1)).view(-1, self.slots, self.lanes)


class Model(nn.Module):
    """`lanes` is set for TorchRec's tables, which pool into adjacent columns."""

    def __init__(self, rows, dense, lanes=None):
        super().__init__()
        self.rows, self.dense, self.lanes = rows, dense, lanes

    def forward(self, share):
        rows = self.rows(share.ids)
        if self.lanes:
            rows = rows.values().view(-1, SLOTS, self.lanes)
        logits = self.dense(rows, share.dense)
        loss = nn.functional.binary_cross_entropy_with_logits(logits, share.labels)
        return loss, loss.detach()


def shares(options, rank, data):
    """This process's slices of all mini-batches."""
    ids, dense, labels = data["ids"], data["dense"], data["labels"]
    begins = np.concatenate([[0], np.cumsum(data["sizes"])[:-1]])
    size = options.batch // options.processes
    for begin in range(0, len(labels) - options.batch + 1, options.batch):
        own = slice(begin + rank * size, begin + (rank + 1) * size)
        of = torch.from_numpy(ids[own].astype(np.int64))
        if options.way == "ddp":
            of = of + torch.from_numpy(begins)
        else:
            from torchrec import KeyedJaggedTensor
            lengths = torch.ones(SLOTS * size, dtype=torch.int32)
            names = [f"slot{n}" for n in range(SLOTS)]
            of = KeyedJaggedTensor.from_lengths_sync(names, of.T.reshape(-1), lengths)
        yield Share(of, torch.from_numpy(dense[own]), torch.from_numpy(labels[own]))


def ddp(options, sizes, dense):
    lanes = options.dim + (options.model == "deepfm")
    model = Model(Whole(sizes, lanes), dense)
    steps = [torch.optim.Adagrad(model.rows.parameters(), lr=options.rows_lr),
             torch.optim.Adam(model.dense.parameters(), lr=options.dense_lr, fused=True)]
    wrapped = nn.parallel.DistributedDataParallel(model)
    return lambda source: train(wrapped, steps, next(source))


def torchrec(options, sizes, dense):
    from fbgemm_gpu.split_embedding_configs import EmbOptimType
    from torchrec import EmbeddingBagCollection, EmbeddingBagConfig
    from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
    from torchrec.distributed.model_parallel import DistributedModelParallel
    from torchrec.distributed.sharding_plan import construct_module_sharding_plan, row_wise
    from torchrec.distributed.train_pipeline import TrainPipelineSparseDist
    from torchrec.distributed.types import ShardingPlan
    from torchrec.streamable import Pipelineable
    # FBGEMM needs rows with a multiple of four lanes.
    lanes = -(-(options.dim + (options.model == "deepfm")) // 4) * 4
    tables = [EmbeddingBagConfig(name=f"table{n}", embedding_dim=lanes, num_embeddings=size,
                                 feature_names=[f"slot{n}"], weight_init_min=-0.01,
                                 weight_init_max=0.01) for n, size in enumerate(sizes)]
    bags = EmbeddingBagCollection(device=torch.device("meta"), tables=tables)
    rule = {"optimizer": EmbOptimType.EXACT_ROWWISE_ADAGRAD, "learning_rate": options.rows_lr}
    sharder = EmbeddingBagCollectionSharder(fused_params=rule)
    # Without `fused`, they would get a kernel that does not train its rows.
    ways = {f"table{n}": row_wise(compute_kernel="fused") for n in range(SLOTS)}
    world = options.processes
    plan = construct_module_sharding_plan(bags, ways, sharder, local_size=world, world_size=world,
                                          device_type="cpu")
    cpu = torch.device("cpu")
    model = DistributedModelParallel(Model(bags, dense, lanes), device=cpu, sharders=[sharder],
                                     plan=ShardingPlan({"rows": plan}))
    parts = [part for name, part in model.named_parameters() if "dense." in name]
    adam = torch.optim.Adam(parts, lr=options.dense_lr, fused=True)
    if options.way == "torchrec":
        return lambda source: train(model, [adam], next(source))
    Pipelineable.register(Share)
    pipeline = TrainPipelineSparseDist(model, adam, cpu)
    return lambda source: pipeline.progress(source).item()


def train(model, optimizers, share):
    loss, _ = model(share)
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return loss.item()


def run(rank, options, port):
    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank,
                            world_size=options.processes)
    with np.load(options.data) as data:
        source = list(shares(options, rank, data))
        sizes, features = [int(size) for size in data["sizes"]], data["dense"].shape[1]
    torch.manual_seed(1)
    way = ddp if options.way == "ddp" else torchrec
    step = way(options, sizes, Dense(options, SLOTS, features))
    source = iter(source)
    losses, rates = [step(source) for _ in range(options.warmup)], []
    for _ in range(options.repeats):
        dist.barrier()
        begin = time.perf_counter()
        losses += [step(source) for _ in range(options.steps)]
        dist.barrier()
        rates.append(options.steps * options.batch / (time.perf_counter() - begin))
    if rank == 0:
        print(json.dumps({"way": options.way, "model": options.model, "rates": rates,
                          "first_loss": losses[0], "last_loss": losses[-1],
                          "torch": torch.__version__}), flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("data", help="examples written by `ranks.py`")
    add("--way", choices=["ddp", "torchrec", "pipeline"], default="ddp")
    add("--model", choices=["deepfm", "dlrm"], default="deepfm")
    add("--processes", type=int, default=2)
    add("--threads", type=int, default=1, help="threads per process")
    add("--batch", type=int, default=4096, help="examples per step, over all processes")
    add("--steps", type=int, default=20, help="steps per repeat")
    add("--warmup", type=int, default=8, help="steps before the first repeat")
    add("--repeats", type=int, default=3)
    add("--dim", type=int, default=16)
    add("--rows-lr", type=float, default=0.02)
    add("--dense-lr", type=float, default=0.001)
    options = parser.parse_args()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(run, (options, port), nprocs=options.processes)


if __name__ == "__main__":
    main()
