#!/usr/bin/env python3
"""Speed of `stepwell.Embeddings` in a PyTorch loop against `nn.Embedding(sparse=True)` or TorchRec.

Both sides train the same model: one id an example and field, drawn from a Zipf distribution, an MLP
over the joined embeddings, the row optimizer, and Adam for the MLP. The peer's ids are positions in
a table of known size; ours are hashed and have no table size. The sides alternate, each in its own
process and with its own policy for idle threads. A process makes the rows in a first pass over
the mini-batches and measures a second one; ratios are of medians.

Needs the package (`pip install ./crates/python`) and PyTorch; TorchRec (`FusedEmbeddingBagCollection`)
may have its own Python (`--peer-python`), because its releases need earlier ones of PyTorch. A shared machine is noisy;
differences below about 10 % mean nothing.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

OPTIMIZERS = ["sgd", "adagrad", "adam", "row_wise_adagrad"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--fields", type=int, default=26)
    add("--dim", type=int, default=16)
    add("--vocabulary", type=int, default=200_000, help="ids of a field")
    add("--zipf", type=float, default=1.1)
    add("--batches", type=int, nargs="+", default=[4096, 1024], help="examples of a mini-batch")
    add("--mlps", nargs="+", default=["512,256,128", "64"])
    add("--optimizers", nargs="+", default=OPTIMIZERS[:3], choices=OPTIMIZERS,
        help="nn.Embedding has no row_wise_adagrad, and TorchRec no adam")
    add("--peer", choices=["embedding", "torchrec"], default="embedding")
    add("--peer-python", default=sys.executable, help="the peer's Python")
    add("--shares", type=float, nargs="+", default=[1.0, 0.1],
        help="parts of our rows that fit in memory; the peer has all")
    add("--examples", type=int, default=128 * 1024, help="examples of a pass")
    add("--rounds", type=int, default=3)
    add("--threads", type=int, default=2)
    add("--evaluate", action="store_true", help="measure scores, with trained rows")
    add("--horizon", type=int, default=16, help="mini-batches whose ids we know ahead")
    add("--path", help="a directory for our rows (default: a temporary one)")
    add("--json", help="write the figures to this file")
    add("--side", choices=["ours", "peer"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(measured(options)))
        return
    rows = []
    for batch in options.batches:
        for mlp in options.mlps:
            for name in options.optimizers:
                for share in options.shares:
                    of = ["--batches", batch, "--mlps", mlp, "--optimizers", name]
                    rows.append({"batch": batch, "mlp": mlp, "optimizer": name, "share": share,
                                 **compared(options, [*of, "--shares", share])})
                    print("  ".join(f"{key} {value}" for key, value in rows[-1].items()),
                          flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"options": vars(options), "runs": rows}, file, indent=1)


def compared(options, of):
    """Milliseconds of a mini-batch of both sides."""
    args = [*sys.argv[1:], *map(str, of)]
    times, about = {"ours": [], "peer": []}, {}
    for _ in range(options.rounds):
        for side, each in times.items():
            python = sys.executable if side == "ours" else options.peer_python
            command = [python, __file__, *args, "--side", side]
            found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            each.append(found.pop("ms"))
            about.update(found)
    ours, peer = (statistics.median(times[side]) for side in ("ours", "peer"))
    return {**about, "ours_ms": round(ours, 2), "peer_ms": round(peer, 2),
            "ratio": round(peer / ours, 2)}


def measured(options):
    """One process of one side."""
    if options.side == "ours":
        import stepwell  # before PyTorch, so that idle threads of OpenMP sleep
    import torch
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    [batch], [mlp], [name] = options.batches, options.mlps, options.optimizers
    data = drawn(options, batch)
    peers = {"embedding": embedding_side, "torchrec": torchrec_side}
    side = our_side if options.side == "ours" else peers[options.peer]
    run, about = side(options, mlp, name, data)
    run(False)
    begin = time.perf_counter()
    run(options.evaluate)
    ms = (time.perf_counter() - begin) / len(data) * 1e3
    return {"ms": ms, **about()}


def drawn(options, batch):
    """Mini-batches of ids (examples, fields) and labels (examples)."""
    import numpy as np
    import torch
    random = np.random.default_rng(0)
    weights = np.arange(1, options.vocabulary + 1) ** -options.zipf
    until = np.cumsum(weights / weights.sum())
    found = []
    for _ in range(max(1, options.examples // batch)):
        ids = np.searchsorted(until, random.random((batch, options.fields)))
        labels = random.random(batch) < 0.3
        found.append((torch.from_numpy(ids), torch.from_numpy(labels.astype(np.float32))))
    return found


def dense(options, mlp):
    """The MLP, its optimizer, and the loss."""
    import torch
    from torch import nn
    layers, width = [], options.fields * options.dim
    for size in map(int, mlp.split(",")):
        layers += [nn.Linear(width, size), nn.ReLU()]
        width = size
    model = nn.Sequential(*layers, nn.Linear(width, 1))
    loss = nn.BCEWithLogitsLoss()
    return model, torch.optim.Adam(model.parameters()), lambda x, y: loss(model(x).squeeze(1), y)


def our_side(options, mlp, name, data):
    import numpy as np
    import stepwell
    import torch
    model, optimizer, loss = dense(options, mlp)
    kind = {"sgd": stepwell.optim.SGD, "adagrad": stepwell.optim.Adagrad,
            "adam": stepwell.optim.Adam, "row_wise_adagrad": stepwell.optim.RowWiseAdagrad}[name]
    tables = {f"t{field}": stepwell.Table(options.dim) for field in range(options.fields)}
    features = {of: of for of in tables}
    every = np.concatenate([ids.numpy() for ids, _ in data])
    distinct = sum(len(np.unique(every[:, field])) for field in range(options.fields))
    # Bytes of a row with what the engine keeps about it.
    with stepwell.Embeddings(tables, features, dram=64 << 20) as trial:
        kind(trial, lr=0.02)
        row = (64 << 20) / trial.stats()["rows_fit"]
    # Somewhat more than all, so that nothing is evicted.
    [share] = options.shares
    slots = 1.1 * distinct if share >= 1 else share * distinct
    emb = stepwell.Embeddings(tables, features, memory="16GiB", dram=int(slots * row), joined=True,
                              path=options.path, threads=options.threads,
                              horizon=options.horizon)
    rows = kind(emb, lr=0.02)

    def ids(batch):
        return {of: batch[0][:, field] for field, of in enumerate(tables)}

    def run(evaluate):
        if evaluate:
            with torch.no_grad():
                for _, x in emb.ahead(data, ids):
                    model(x)
            return
        for (_, labels), x in emb.ahead(data, ids):
            error = loss(x, labels)
            optimizer.zero_grad()
            error.backward()
            rows.step()
            optimizer.step()

    def about():
        stats = emb.stats()
        read = stats["rows_read"] / 2 / sum(len(labels) for _, labels in data)
        return {"rows": distinct, "read_per_example": round(read, 2)}

    return run, about


def embedding_side(options, mlp, name, data):
    import torch
    from torch import nn
    model, optimizer, loss = dense(options, mlp)
    table = nn.Embedding(options.vocabulary * options.fields, options.dim, sparse=True)
    kind = {"sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad,
            "adam": torch.optim.SparseAdam}[name]
    rows = kind(table.parameters(), lr=0.02)
    offsets = torch.arange(options.fields) * options.vocabulary

    def run(evaluate):
        if evaluate:
            with torch.no_grad():
                for ids, _ in data:
                    model(table(ids + offsets).flatten(1))
            return
        for ids, labels in data:
            error = loss(table(ids + offsets).flatten(1), labels)
            rows.zero_grad()
            optimizer.zero_grad()
            error.backward()
            rows.step()
            optimizer.step()

    return run, lambda: {"torch": torch.__version__}


def torchrec_side(options, mlp, name, data):
    import torch
    from torchrec import EmbeddingBagConfig, KeyedJaggedTensor
    from torchrec.modules.fused_embedding_modules import FusedEmbeddingBagCollection
    from torchrec.optim import RowWiseAdagrad
    model, optimizer, loss = dense(options, mlp)
    kind = {"sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad,
            "row_wise_adagrad": RowWiseAdagrad}[name]
    names = [f"f{field}" for field in range(options.fields)]
    tables = [EmbeddingBagConfig(name=f"t{of}", embedding_dim=options.dim,
                                 num_embeddings=options.vocabulary, feature_names=[of])
              for of in names]
    bags = FusedEmbeddingBagCollection(tables, kind, {"lr": 0.02}, device=torch.device("cpu"))
    lengths = torch.ones(options.fields * len(data[0][0]), dtype=torch.int32)

    def look_up(ids):
        ids = KeyedJaggedTensor(names, ids.T.reshape(-1), lengths=lengths, stride=len(ids))
        return bags(ids).values()

    def run(evaluate):
        if evaluate:
            with torch.no_grad():
                for ids, _ in data:
                    model(look_up(ids))
            return
        for ids, labels in data:
            # The backward pass updates the rows.
            error = loss(look_up(ids), labels)
            optimizer.zero_grad()
            error.backward()
            optimizer.step()

    return run, lambda: {"torch": torch.__version__}


if __name__ == "__main__":
    main()
