#!/usr/bin/env python3
"""The peer: CTR models trained by PyTorch from a TSV in Criteo's format, as fast as possible.

Each line has a label, 13 integers and 26 ids; the output is one JSON object. With --draw, nothing is
read: mini-batches are drawn before the clock starts, and only steps are timed. With --draw and
--device cuda, rows and dense part are on the first GPU; each mini-batch is copied there from pinned
memory for its step. Torch waits for the device once per step, to learn the number of distinct rows.

  examples_per_second       training examples over the time from opening the file to the end of
                            the last step: reading, hashing, cutting and training. Creating the
                            tables, warm-up steps and evaluation are not included.
  step_examples_per_second  only forward, backward and optimizers.

All slots share one array of rows; slot s owns rows s * R to (s + 1) * R, and each id, including the
missing one, is hashed to one of them. The wide weight is the last column of a row, so that a row is
fetched once; the other models have none. `--rows-by` chooses how rows are trained:

  torch   nn.functional.embedding(sparse=True) with torch.optim.SGD, Adagrad or SparseAdam
  manual  the gradients of equal ids sorted and summed, then one gather, update and scatter of the
          distinct rows, all in torch operators
"""

import argparse
import json
import math
import mmap
import os
import queue
import resource
import threading
import time
import warnings

SLOTS, DENSE = 26, 13
COLUMNS = ["y"] + [f"I{i}" for i in range(1, 14)] + [f"C{i}" for i in range(1, 27)]
IDS = COLUMNS[1 + DENSE:]
HIDDEN = [512, 256, 128]
BOTTOM = [512, 256]
CROSS_LAYERS = 3
MASK_BLOCKS, MASK_DIM, MASK_RATIO = 3, 64, 2
EXPERTS, LABEL_EXPERTS, LEVELS, TOWER = 4, 2, 2, [64]
WIDE = ["lr", "fm", "wide_deep", "deepfm"]
DEEP = ["dcn", "dcn_v1", "dlrm", "final_mlp", "mask_net", "mmoe", "ple"]
ROW_RATES = {"sgd": 0.1, "adagrad": 0.02, "adam": 0.001}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = p.add_argument
    add("data", nargs="?", help="TSV file, not compressed")
    add("--draw", type=int, default=0, metavar="STEPS", help="draw this many mini-batches and train\n"
        "on them twice; the second time counts")
    add("--draw-rows", type=int, default=2_000_000, help="rows of all slots, with --draw")
    add("--ids-per-slot", type=int, default=1, help="ids per bag, summed, with --draw")
    add("--model", default="wide_deep", choices=[*WIDE, *DEEP])
    add("--dim", type=int, default=16)
    add("--rows-per-slot", type=int, default=1 << 17)
    add("--mini-batch", type=int, default=4096)
    add("--epochs", type=int, default=1)
    add("--seed", type=int, default=1)
    add("--row-optimizer", default="adagrad", choices=list(ROW_RATES))
    add("--row-lr", type=float, help="default: sgd 0.1, adagrad 0.02, adam 0.001")
    add("--dense-lr", type=float, default=0.001, help="rate of the dense part's Adam")
    add("--test-fraction", type=float, default=0.2, help="tail of the file used only for testing")
    add("--examples-max", type=int, default=0, help="stop after this many examples (0: all)")
    add("--device", default="cpu", choices=["cpu", "cuda"], help="cuda needs --draw")
    add("--threads", type=int, default=2)
    add("--parse-ahead", action="store_true", help="parse in a thread during training")
    add("--train-threads", type=int, help="threads of torch; with --parse-ahead, the parser\n"
        "gets the others, at least one")
    add("--reader", default="pyarrow", choices=["polars", "pyarrow"])
    add("--rows-by", default="manual", choices=["torch", "manual"])
    add("--huge-pages", action="store_true", help="tensors on huge pages")
    add("--bf16", action="store_true", help="the dense part in bfloat16 (autocast)")
    add("--tf32", action="store_true", help="products in TF32, on a GPU")
    add("--compile", action="store_true", help="the dense part through torch.compile")
    add("--warm", type=int, default=0, help="steps before the clock starts, on the same model")
    add("--chunk-mib", type=int, default=32, help="bytes of the file parsed at once")
    options = p.parse_args()
    if options.device != "cpu" and not options.draw:
        p.error("--device cuda needs drawn mini-batches: give --draw")
    if not options.draw and not (options.data and os.path.isfile(options.data)):
        p.error(f"no such file: {options.data}")
    if options.row_lr is None:
        options.row_lr = ROW_RATES[options.row_optimizer]
    if options.train_threads is None:
        options.train_threads = options.threads
    return options


# Torch, polars and pyarrow read their thread counts before or at import.
O = arguments()
PARSE_THREADS = max(1, O.threads - O.train_threads) if O.parse_ahead else O.threads
os.environ["OMP_NUM_THREADS"] = str(O.train_threads)
os.environ["POLARS_MAX_THREADS"] = str(PARSE_THREADS)
if O.huge_pages:
    os.environ["THP_MEM_ALLOC_ENABLE"] = "1"
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:O.threads])

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import clicks  # noqa: E402

VERSIONS = [torch, np]
if not O.draw:
    import polars as pl
    import pyarrow as pa
    import pyarrow.csv
    VERSIONS += [pl, pa]


# ---- examples: (labels f32 [n], dense f32 [n, 13], row numbers i64 [n, 26]) ----------------------

def pieces(path):
    """Yields the file as byte strings of whole lines."""
    with open(path, "rb", buffering=0) as file:
        rest = b""
        while block := file.read(O.chunk_mib << 20):
            cut = block.rfind(b"\n") + 1
            yield rest + block[:cut]
            rest = block[cut:]
        if rest:
            yield rest


def read_polars(piece):
    schema = {c: pl.String if c[0] == "C" else pl.Int32 for c in COLUMNS}
    return pl.read_csv(piece, separator="\t", has_header=False, schema=schema, quote_char=None)


def read_pyarrow(piece):
    types = {c: pa.string() if c[0] == "C" else pa.int32() for c in COLUMNS}
    table = pa.csv.read_csv(
        pa.BufferReader(piece),
        pa.csv.ReadOptions(column_names=COLUMNS, use_threads=PARSE_THREADS > 1),
        pa.csv.ParseOptions(delimiter="\t", quote_char=False),
        pa.csv.ConvertOptions(column_types=types, null_values=[""], strings_can_be_null=True))
    return pl.from_arrow(table, rechunk=False)


def parse(piece):
    frame = {"polars": read_polars, "pyarrow": read_pyarrow}[O.reader](piece)
    r = O.rows_per_slot
    integers = pl.col(COLUMNS[1:1 + DENSE]).cast(pl.Float32)
    columns = frame.lazy().select(
        pl.col("y").cast(pl.Float32),
        integers.clip(0).log1p().fill_null(0.0),
        *((pl.col(c).hash() % r).cast(pl.Int64) + s * r for s, c in enumerate(IDS))).collect()
    # Polars returns whole columns; torch transposes them with all its threads.
    matrix = lambda names: torch.from_numpy(columns.select(names).to_numpy()).contiguous()
    labels = torch.from_numpy(columns["y"].to_numpy(writable=True))
    return labels, matrix(COLUMNS[1:1 + DENSE]), matrix(IDS)


def chunks(path):
    """Parsed pieces in file order; with --parse-ahead, a thread parses up to two in advance."""
    if not O.parse_ahead:
        yield from map(parse, pieces(path))
        return
    ahead, stop = queue.Queue(2), threading.Event()

    def work():
        for chunk in map(parse, pieces(path)):
            if stop.is_set():
                return
            ahead.put(chunk)
        ahead.put(None)

    threading.Thread(target=work, daemon=True).start()
    try:
        while (chunk := ahead.get()) is not None:
            yield chunk
    finally:
        stop.set()


def split(source, count, head, tail):
    """Yields the first `count` examples and adds them to `head`; adds the others to `tail`."""
    for chunk in source:
        n = len(chunk[0])
        cut = min(n, count)
        if cut:
            part = tuple(t[:cut] for t in chunk)
            if head is not None:
                head.append(part)
            yield part
        if cut < n and tail is not None:
            tail.append(tuple(t[cut:] for t in chunk))
        count -= cut
        if not count and tail is None:
            return


def mini_batches(source, size):
    """Cuts chunks into mini-batches, across chunk boundaries; the last may be short."""
    parts, have = [], 0
    for chunk in source:
        at, n = 0, len(chunk[0])
        while at < n:
            take = min(size - have, n - at)
            parts.append(tuple(t[at:at + take] for t in chunk))
            at, have = at + take, have + take
            if have == size:
                yield join(parts)
                parts, have = [], 0
    if parts:
        yield join(parts)


def join(parts):
    return parts[0] if len(parts) == 1 else tuple(map(torch.cat, zip(*parts)))


def line_count(path):
    with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as m:
        return sum(m[at:at + (1 << 24)].count(b"\n") for at in range(0, len(m), 1 << 24))


def test_part(lines):
    """Number of lines at the end used only for testing: the same as the trainer evaluates, with
    halves rounded up (Python rounds to even)."""
    whole = math.floor(lines * O.test_fraction)
    return whole + (lines * O.test_fraction - whole >= 0.5)


# ---- rows ----------------------------------------------------------------------------------------

def new_rows():
    """Embeddings uniform in +-0.01, followed by wide weights of zero, if any."""
    dim = 0 if O.model == "lr" else O.dim
    count = sum(vocabularies()) if O.draw else SLOTS * O.rows_per_slot
    rows = torch.empty(count, dim + (O.model in WIDE), device=O.device)
    rows[:, :dim].uniform_(-0.01, 0.01)
    rows[:, dim:] = 0
    return rows


class TorchRows:
    def __init__(self):
        self.rows = nn.Parameter(new_rows())
        kinds = {"sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad,
                 "adam": torch.optim.SparseAdam}
        self.optimizer = kinds[O.row_optimizer]([self.rows], lr=O.row_lr)

    def lookup(self, ids):
        if O.ids_per_slot == 1:
            return F.embedding(ids, self.rows, sparse=True)
        bags = F.embedding_bag(ids.view(-1, O.ids_per_slot), self.rows, mode="sum", sparse=True)
        return bags.view(len(ids), SLOTS, -1)

    def step(self, ids, gathered):
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


class ManualRows:
    def __init__(self):
        self.rows = new_rows()
        states = {"sgd": 0, "adagrad": 1, "adam": 2}[O.row_optimizer]
        self.states = [torch.zeros_like(self.rows) for _ in range(states)]
        self.steps = 0

    def lookup(self, ids):
        if O.ids_per_slot == 1:
            return F.embedding(ids, self.rows).requires_grad_()
        bags = F.embedding_bag(ids.view(-1, O.ids_per_slot), self.rows, mode="sum")
        return bags.view(len(ids), SLOTS, -1).requires_grad_()

    @torch.no_grad()
    def step(self, ids, gathered):
        self.steps += 1
        # Slots own ascending ranges of rows, so sorting each slot (in parallel) sorts them all.
        of_slot = ids.view(len(ids), SLOTS, -1).transpose(0, 1).flatten(1)
        ids, order = torch.sort(of_slot.contiguous(), dim=1)
        order = order.div_(O.ids_per_slot, rounding_mode="floor") if O.ids_per_slot > 1 else order
        order = order.mul_(SLOTS).add_(torch.arange(SLOTS, device=O.device).unsqueeze(1)).view(-1)
        touched, counts = torch.unique_consecutive(ids.view(-1), return_counts=True)
        g = F.embedding_bag(order, gathered.grad.flatten(0, 1), counts.cumsum(0) - counts,
                            mode="sum")
        w = self.rows.index_select(0, touched)
        self.update(touched, w, g)
        self.rows.index_copy_(0, touched, w)

    def update(self, touched, w, g):
        if O.row_optimizer == "sgd":
            w.sub_(g, alpha=O.row_lr)
            return
        states = [s.index_select(0, touched) for s in self.states]
        if O.row_optimizer == "adagrad":
            states[0].addcmul_(g, g)
        else:
            states[0].lerp_(g, 0.1)
            states[1].mul_(0.999).addcmul_(g, g, value=0.001)
        for whole, part in zip(self.states, states):
            whole.index_copy_(0, touched, part)
        if O.row_optimizer == "adagrad":
            w.addcdiv_(g, states[0].sqrt_().add_(1e-10), value=-O.row_lr)
        else:
            rate = O.row_lr * (1 - 0.999**self.steps) ** 0.5 / (1 - 0.9**self.steps)
            w.addcdiv_(states[0], states[1].sqrt_().add_(1e-8), value=-rate)


# ---- models --------------------------------------------------------------------------------------

# The dense parts: gathered rows [b, 26, width] and dense features [b, 13] to logits [b].

def mlp(*widths):
    pairs = zip(widths, widths[1:])
    return nn.Sequential(*(m for a, b in pairs for m in (nn.Linear(a, b), nn.ReLU())))


class Wide(nn.Module):
    """lr, fm, wide_deep and deepfm."""

    def __init__(self):
        super().__init__()
        self.wide = nn.Linear(DENSE, 1)
        if O.model == "fm":
            # As ours: a short training would not forget random weights.
            nn.init.zeros_(self.wide.weight)
            nn.init.zeros_(self.wide.bias)
        if O.model not in ("lr", "fm"):
            hidden = mlp(SLOTS * O.dim + DENSE, *HIDDEN)
            self.deep = nn.Sequential(*hidden, nn.Linear(HIDDEN[-1], 1))

    def forward(self, gathered, x):
        z = gathered[..., -1].sum(1) + self.wide(x).squeeze(1)
        if O.model == "lr":
            return z
        v = gathered[..., :-1]
        if O.model != "fm":
            z = z + self.deep(torch.cat([v.flatten(1), x], 1)).squeeze(1)
        if O.model in ("fm", "deepfm"):
            z = z + 0.5 * (v.sum(1).square() - v.square().sum(1)).sum(1)
        return z


class Dcn(nn.Module):
    def __init__(self):
        super().__init__()
        width = SLOTS * O.dim + DENSE
        self.cross = nn.ModuleList(nn.Linear(width, width) for _ in range(CROSS_LAYERS))
        self.deep = mlp(width, *HIDDEN)
        self.logit = nn.Linear(width + HIDDEN[-1], 1)

    def forward(self, v, x):
        base = torch.cat([v.flatten(1), x], 1)
        crossed = base
        for layer in self.cross:
            crossed = torch.addcmul(crossed, base, layer(crossed))
        return self.logit(torch.cat([crossed, self.deep(base)], 1)).squeeze(1)


class DcnV1(Dcn):
    def __init__(self):
        super().__init__()
        width, bound = SLOTS * O.dim + DENSE, (SLOTS * O.dim + DENSE)**-0.5
        draw = lambda: nn.Parameter(torch.empty(width).uniform_(-bound, bound))
        self.cross = nn.ParameterList(draw() for _ in range(2 * CROSS_LAYERS))

    def forward(self, v, x):
        base = torch.cat([v.flatten(1), x], 1)
        crossed = base
        for weight, bias in zip(self.cross[::2], self.cross[1::2]):
            crossed = base * (crossed @ weight).unsqueeze(1) + bias + crossed
        return self.logit(torch.cat([crossed, self.deep(base)], 1)).squeeze(1)


class MaskNet(nn.Module):
    def __init__(self):
        super().__init__()
        lanes = SLOTS * O.dim
        self.norms = nn.ModuleList(nn.LayerNorm(O.dim) for _ in range(SLOTS))
        self.masks = nn.ModuleList(
            nn.Sequential(nn.Linear(lanes + DENSE, MASK_RATIO * lanes), nn.ReLU(),
                          nn.Linear(MASK_RATIO * lanes, lanes)) for _ in range(MASK_BLOCKS))
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(lanes, MASK_DIM, bias=False), nn.LayerNorm(MASK_DIM), nn.ReLU())
            for _ in range(MASK_BLOCKS))
        self.deep = mlp(MASK_BLOCKS * MASK_DIM + DENSE, *HIDDEN)
        self.logit = nn.Linear(HIDDEN[-1], 1)

    def forward(self, v, x):
        normed = torch.cat([norm(v[:, i]) for i, norm in enumerate(self.norms)], 1)
        whole = torch.cat([v.flatten(1), x], 1)
        blocks = [block(normed * mask(whole)) for block, mask in zip(self.blocks, self.masks)]
        return self.logit(self.deep(torch.cat([*blocks, x], 1))).squeeze(1)


class Experts(nn.Module):
    """MMoE and PLE for one label."""

    def __init__(self):
        super().__init__()
        levels, own = (LEVELS, LABEL_EXPERTS) if O.model == "ple" else (1, 0)
        self.shared, self.own = nn.ModuleList(), nn.ModuleList()
        self.gates, self.shared_gates = nn.ModuleList(), nn.ModuleList()
        width = SLOTS * O.dim + DENSE
        for level in range(levels):
            self.shared.append(nn.ModuleList(mlp(width, *HIDDEN) for _ in range(EXPERTS)))
            self.own.append(nn.ModuleList(mlp(width, *HIDDEN) for _ in range(own)))
            self.gates.append(nn.Linear(width, EXPERTS + own))
            if level + 1 < levels:
                self.shared_gates.append(nn.Linear(width, EXPERTS + own))
            width = HIDDEN[-1]
        self.tower = mlp(width, *TOWER)
        self.logit = nn.Linear(TOWER[-1], 1)

    def forward(self, v, x):
        shared = own = torch.cat([v.flatten(1), x], 1)
        for level, gate in enumerate(self.gates):
            experts = [expert(shared) for expert in self.shared[level]]
            experts = torch.stack(experts + [expert(own) for expert in self.own[level]], 1)
            mix = lambda gate, at: (gate(at).softmax(1).unsqueeze(2) * experts).sum(1)
            if level < len(self.shared_gates):
                shared, own = mix(self.shared_gates[level], shared), mix(gate, own)
            else:
                own = mix(gate, own)
        return self.logit(self.tower(own)).squeeze(1)


class Dlrm(nn.Module):
    def __init__(self):
        super().__init__()
        vectors = SLOTS + 1
        rows, columns = torch.tril_indices(vectors, vectors, -1)
        self.register_buffer("pairs", rows * vectors + columns)
        self.bottom = mlp(DENSE, *BOTTOM, O.dim)
        self.top = mlp(O.dim + len(self.pairs), *HIDDEN)
        self.logit = nn.Linear(HIDDEN[-1], 1)

    def forward(self, v, x):
        bottom = self.bottom(x)
        vectors = torch.cat([bottom.unsqueeze(1), v], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        # On the CPU, index_select is fastest, backward too.
        pairs = products.flatten(1).index_select(1, self.pairs)
        return self.logit(self.top(torch.cat([bottom, pairs], 1))).squeeze(1)


class FinalMlp(nn.Module):
    def __init__(self):
        super().__init__()
        width = SLOTS * O.dim + DENSE
        self.streams = nn.ModuleList(mlp(width, *HIDDEN) for _ in range(2))
        self.form = nn.Linear(HIDDEN[-1], HIDDEN[-1], bias=False)
        self.linear = nn.Linear(2 * HIDDEN[-1], 1)

    def forward(self, v, x):
        whole = torch.cat([v.flatten(1), x], 1)
        first, second = (stream(whole) for stream in self.streams)
        linear = self.linear(torch.cat([first, second], 1)).squeeze(1)
        return linear + (self.form(first) * second).sum(1)


class Trainer:
    def __init__(self):
        torch.backends.cuda.matmul.allow_tf32 = O.tf32
        self.rows = {"torch": TorchRows, "manual": ManualRows}[O.rows_by]()
        model = dict(zip(DEEP, [Dcn, DcnV1, Dlrm, FinalMlp, MaskNet, Experts, Experts]))
        self.plain = model.get(O.model, Wide)().to(O.device)
        self.dense = torch.compile(self.plain) if O.compile else self.plain
        self.optimizer = torch.optim.Adam(self.plain.parameters(), lr=O.dense_lr, fused=True)

    def step(self, labels, x, ids):
        gathered = self.rows.lookup(ids)
        # A short last mini-batch must not recompile the model.
        dense = self.dense if len(labels) == O.mini_batch else self.plain
        with torch.autocast(O.device, torch.bfloat16, enabled=O.bf16):
            z = dense(gathered, x)
        loss = F.binary_cross_entropy_with_logits(z.float(), labels)
        loss.backward()
        self.rows.step(ids, gathered)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    @torch.no_grad()
    def evaluate(self, test):
        z, y = [], []
        for labels, x, ids in mini_batches(test, 8192):
            with torch.autocast(O.device, torch.bfloat16, enabled=O.bf16):
                z.append(self.plain(self.rows.lookup(ids), x).float())
            y.append(labels)
        z, y = torch.cat(z).double(), torch.cat(y).double()
        loss = F.binary_cross_entropy_with_logits(z, y).item()
        return {"auc": auc(z.numpy(), y.numpy()), "logloss": loss, "examples": len(y)}


def auc(scores, labels):
    """Area under the ROC curve; equal scores share their mean rank."""
    _, group, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[group]
    positive = labels.sum()
    below = ranks[labels == 1].sum() - positive * (positive + 1) / 2
    return float(below / (positive * (len(labels) - positive)))


# ---- the run -------------------------------------------------------------------------------------

def train(trainer):
    train_count, test = O.examples_max or 1 << 62, None
    if O.test_fraction:
        total = line_count(O.data)
        train_count, test = min(total - test_part(total), train_count), []
    kept = [] if O.epochs > 1 else None
    epochs = []
    for epoch in range(O.epochs):
        begin = time.perf_counter()
        source = kept if epoch else split(chunks(O.data), train_count, kept, test)
        count, loss, step_s, end = 0, 0.0, 0.0, begin
        for batch in mini_batches(source, O.mini_batch):
            start = time.perf_counter()
            loss += trainer.step(*batch).item() * len(batch[0])
            end = time.perf_counter()
            step_s += end - start
            count += len(batch[0])
        report = {"examples": count, "wall_s": end - begin, "step_s": step_s,
                  "train_logloss": loss / count}
        epochs.append(report | {"eval": trainer.evaluate(test) if test else None})
    return epochs


# ---- drawn mini-batches --------------------------------------------------------------------------

def vocabularies():
    """Ids of each slot: those of a real sample, scaled to --draw-rows in total."""
    total = sum(clicks.VOCABULARY)
    return [max(1, ids * O.draw_rows // total) for ids in clicks.VOCABULARY]


def draw():
    generator, mini = np.random.default_rng(O.seed), O.mini_batch
    sizes = vocabularies()
    offsets = np.cumsum([0, *sizes[:-1]])
    for _ in range(O.draw):
        slots = [clicks.zipf_ranks(generator, mini * O.ids_per_slot, size, 1.05).astype(np.int64)
                 .reshape(mini, -1) + offset for size, offset in zip(sizes, offsets)]
        labels = (generator.random(mini) < 0.25).astype(np.float32)
        dense = generator.random((mini, DENSE), dtype=np.float32)
        yield tuple(map(torch.from_numpy, (labels, dense, np.concatenate(slots, axis=1))))


def drawn(trainer):
    """Times only steps: the first pass touches memory and compiles, the second counts."""
    batches = list(draw())
    if O.device != "cpu":
        batches = [tuple(t.pin_memory() for t in batch) for batch in batches]
    passed(trainer, batches)
    seconds = passed(trainer, batches)
    fastest = {} if O.device != "cpu" else {
        "fastest_step_examples_per_second": O.mini_batch / min(seconds)}
    print(json.dumps({
        "settings": vars(O),
        "versions": {m.__name__: m.__version__ for m in VERSIONS},
        "step_examples_per_second": O.draw * O.mini_batch / sum(seconds),
    } | fastest), flush=True)


def passed(trainer, batches):
    """Seconds of each step, or of all steps together on a device."""
    if O.device != "cpu":
        begin = time.perf_counter()
        for batch in batches:
            trainer.step(*(t.to(O.device, non_blocking=True) for t in batch))
        torch.cuda.synchronize()
        return [time.perf_counter() - begin]
    seconds = []
    for batch in batches:
        begin = time.perf_counter()
        trainer.step(*batch).item()
        seconds.append(time.perf_counter() - begin)
    return seconds


def main():
    torch.set_num_threads(O.train_threads)
    if not O.draw:
        pa.set_cpu_count(PARSE_THREADS)
    torch.manual_seed(O.seed)
    torch.set_flush_denormal(True)
    warnings.filterwarnings("ignore", "Sparse invariant checks")
    trainer = Trainer()
    if O.draw:
        return drawn(trainer)
    if O.warm:
        first = mini_batches([parse(next(pieces(O.data)))], O.mini_batch)
        for _, batch in zip(range(O.warm), first):
            trainer.step(*batch)
    epochs = train(trainer)
    examples = sum(e["examples"] for e in epochs)
    print(json.dumps({
        "settings": vars(O),
        "versions": {m.__name__: m.__version__ for m in VERSIONS},
        "examples": examples,
        "examples_per_second": examples / sum(e["wall_s"] for e in epochs),
        "step_examples_per_second": examples / sum(e["step_s"] for e in epochs),
        "epochs": epochs,
        "eval": epochs[-1]["eval"],
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
    }), flush=True)


if __name__ == "__main__":
    main()
