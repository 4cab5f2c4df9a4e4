"""Embeddings of several ranks over `torch.distributed`. Each rank has a part of the rows. A key goes
to the rank that has its row, the row comes back, and its gradient goes the same way.

All ranks make the same calls in the same order: those of `Ranks` wait for each other."""

from __future__ import annotations

import dataclasses
import weakref
from typing import Any, Callable

import numpy as np

from . import _program, _stepwell
from ._ids import Ids
from ._torch import torch
from ._turn import Fed, RowsTurn, taken


@dataclasses.dataclass
class RankFed(Fed):
    """A mini-batch as all ranks fed it."""

    places: dict[str, Any]
    """Row of each id of a feature, among the rows of its table that come back."""
    asked: Any
    """Number of keys that this rank asks of each rank, by table (ranks, tables)."""
    wanted: Any
    """Number of keys that each rank asks of this one, by table (ranks, tables)."""


@dataclasses.dataclass
class ByKey:
    """Keys whose rows all ranks read or write."""

    table: int
    places: Any
    """Row of each id, among the rows of the table."""
    asked: Any
    wanted: Any
    keys: Any
    """Keys that all ranks ask of this one."""


class Ranks:
    """The ranks of the embeddings `emb`, which are those of `group`."""

    def __init__(self, emb: Any, group: Any):
        if torch is None or not torch.distributed.is_initialized():
            raise RuntimeError("group needs torch.distributed: call init_process_group first")
        dist: Any = torch.distributed
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        if self.rank < 0:
            raise ValueError("this process is not in the group")
        if self.size > 256:
            raise ValueError(f"the group has {self.size} ranks: give at most 256")
        members = dist.get_process_group_ranks(group)
        # A group of its own: its calls don't mix with the model's, and arrays are in host memory.
        self._group = dist.new_group(members, backend="gloo", use_local_synchronization=True)
        # The embeddings have the ranks, so that neither keeps the other alive in a circle.
        self._owner = weakref.ref(emb)
        self._is_open = False
        self._turn: RankTurn | None = None
        self._depth: int | None = None

    @property
    def _emb(self) -> Any:
        return self._owner()

    def close(self) -> None:
        """Leaves the group."""
        if self._group is not None and torch.distributed.is_initialized():
            torch.distributed.destroy_process_group(self._group)
        self._group = None

    # Collectives

    def _exchange(self, array: Any, given: Any, wanted: Any) -> Any:
        """Sends `given` elements to each rank and returns `wanted` elements of each."""
        given, wanted = [int(n) for n in given], [int(n) for n in wanted]
        found = np.empty(sum(wanted), array.dtype)
        to, of = torch.from_numpy(found), torch.from_numpy(np.ascontiguousarray(array))
        torch.distributed.all_to_all_single(to, of, wanted, given, group=self._group)
        return found

    def _least(self, value: int) -> int:
        """The smallest `value` of all ranks."""
        least = torch.tensor([value])
        op = torch.distributed.ReduceOp.MIN
        torch.distributed.all_reduce(least, op, group=self._group)
        return int(least.item())

    def meet(self, mine: Any) -> list[Any]:
        """Every rank's object."""
        found: list[Any] = [None] * self.size
        torch.distributed.all_gather_object(found, mine, group=self._group)
        return found

    def by_all(self, work: Callable[[], Any]) -> Any:
        """The result of `work`; if it fails on one rank, raises the failure on all ranks."""
        found = failure = None
        try:
            found = work()
        except Exception as error:
            failure = error
        if self._least(0 if failure else 1):
            return found
        said = self.meet(None if failure is None else f"{type(failure).__name__}: {failure}")
        if failure is not None:
            raise failure
        rank, why = next((rank, why) for rank, why in enumerate(said) if why is not None)
        raise RuntimeError(f"rank {rank}: {why}")

    # Mini-batches

    def room(self, fed: int) -> bool:
        """Whether another mini-batch may be fed, if `fed` wait; the same on all ranks."""
        return self._depth is None or fed < self._depth

    def feed(self, found: dict[str, Ids] | None, train: bool) -> RankFed | None:
        """Feeds the ids of all features; None, on all ranks, if a rank has none."""
        emb, tables = self._emb, len(self._emb.tables)
        if not self._is_open:
            if not self._least(0 if found is None else 1):
                return None
            self._open(found)
        route = failure = None
        examples = 0 if found is None else next(iter(found.values())).examples()
        try:
            if found is not None:
                ids = list(enumerate(found.values()))
                route = _stepwell.Route(emb._engine, ids, examples, train)
        except Exception as error:
            failure = error
        if not self._least(0 if route is None else 1):
            if failure is not None:
                raise failure
            return None
        assert route is not None and found is not None
        asked = np.reshape(np.array(route.counts, np.int64), (self.size, tables))
        wanted = self._counts(asked)
        self._feed_keys(route, asked, wanted, train)
        places = {}
        for number, (name, of) in enumerate(found.items()):
            places[name] = np.empty(of.total(), np.int64)
            route.places(number, places[name])
        if self._depth is None:
            self._depth = self._least(emb._engine.fed_max() - 1)
        bags = {name: of.bags() for name, of in found.items()}
        return RankFed(bags, examples, train, places, asked, wanted)

    def _open(self, found: dict[str, Ids] | None) -> None:
        """Makes the engine, sized for the first mini-batch."""
        emb = self._emb

        def make() -> None:
            emb._drop_provisional()
            emb._session(None if found is None else (self.size, emb._counted(found), []))

        self.by_all(make)
        self._is_open = True

    def _counts(self, asked: Any) -> Any:
        """Exchanges a row of counts with every rank."""
        width = [asked.shape[1]] * self.size
        return self._exchange(asked.ravel(), width, width).reshape(asked.shape)

    def _feed_keys(self, route: Any, asked: Any, wanted: Any, train: bool) -> None:
        keys, engine = self._keys(route, asked, wanted), self._emb._engine
        self.by_all(lambda: _stepwell.feed_keys(engine, wanted, keys, train))

    def _keys(self, route: Any, asked: Any, wanted: Any) -> Any:
        """The keys that all ranks ask of this one."""
        keys = np.empty(int(asked.sum()), np.int64)
        route.keys(keys)
        return self._exchange(keys, asked.sum(1), wanted.sum(1))

    def _dims(self) -> Any:
        return np.array([table.dim for table in self._emb.tables.values()])

    def ready(self, fed: RankFed) -> list[Any]:
        """Makes `fed` the current mini-batch; its rows, by table (rows, dim)."""
        engine, dims = self._emb._engine, self._dims()
        own = np.empty(int((fed.wanted @ dims).sum()), np.float32)

        def answer() -> None:
            if not engine.ready():
                raise RuntimeError("no mini-batch is left")
            _stepwell.answer(engine, fed.wanted, own)

        self.by_all(answer)
        return self._of_tables(self._exchange(own, fed.wanted @ dims, fed.asked @ dims), fed.asked)

    def _of_tables(self, lanes: Any, asked: Any) -> list[Any]:
        """Rows by table, from those of all ranks."""
        dims = self._dims()
        parts = np.split(lanes, np.cumsum((asked * dims).ravel())[:-1])
        tables = len(dims)
        of_table = [np.concatenate(parts[table::tables]) for table in range(tables)]
        return [rows.reshape(-1, dim) for rows, dim in zip(of_table, dims)]

    def begin(self, turn: RankTurn) -> None:
        """Makes `turn` the current mini-batch."""
        self._turn = turn if turn.train else None

    def settle(self) -> None:
        """Ends the current mini-batch's step, if all ranks made it."""
        turn, self._turn = self._turn, None
        if turn is None:
            return
        made = 0.0 if turn.gradients is None else 1.0
        least = torch.tensor([made, turn.lr, -turn.lr], dtype=torch.float64)
        op = torch.distributed.ReduceOp.MIN
        torch.distributed.all_reduce(least, op, group=self._group)
        if least[0] == 0:
            return
        if least[1] != -least[2]:
            rates = f"{least[1]:g} and {-least[2]:g}"
            raise ValueError(f"the ranks' learning rates are {rates}: give all ranks the same")
        emb, fed, dims = self._emb, turn.fed, self._dims()
        parts = []
        for gradient, asked in zip(turn.gradients or [], fed.asked.T):
            parts.append(np.split(gradient, np.cumsum(asked)[:-1]))
        lanes = [part[rank].ravel() for rank in range(self.size) for part in parts]
        # The loss is the mean of all ranks', as with DistributedDataParallel.
        mean = np.concatenate(lanes) / np.float32(self.size)
        found = self._exchange(mean, fed.asked @ dims, fed.wanted @ dims)

        def push() -> None:
            if turn.lr != emb._rate():
                emb._set_rate(turn.lr)
            _stepwell.push_answers(emb._engine, fed.wanted, found)

        self.by_all(push)

    # Rows

    def _by_key(self, feature: int, values: Any, count: int) -> ByKey:
        """The keys of a feature's ids; each rank gives its own."""
        emb = self._emb
        if not self._is_open:
            self._open(None)
            # The first mini-batch makes the engine anew.
            self._is_open = not emb._is_provisional
        ids = [(feature, (values, None, None))]
        route = self.by_all(lambda: _stepwell.Route(emb._engine, ids, count, False))
        asked = np.reshape(np.array(route.counts, np.int64), (self.size, len(emb.tables)))
        wanted = self._counts(asked)
        keys = self._keys(route, asked, wanted)
        places = np.empty(count, np.int64)
        route.places(feature, places)
        table = emb._numbers[list(emb.features.values())[feature].table]
        return ByKey(table, places, asked, wanted, keys)

    def read(self, feature: int, values: Any, count: int) -> Any:
        """Rows (ids, dim) of a feature's ids."""
        of, dims = self._by_key(feature, values, count), self._dims()
        own = np.empty(int((of.wanted @ dims).sum()), np.float32)
        engine = self._emb._engine
        self.by_all(lambda: _stepwell.read_keys(engine, of.wanted, of.keys, own))
        rows = self._exchange(own, of.wanted @ dims, of.asked @ dims)
        return self._of_tables(rows, of.asked)[of.table][of.places]

    def write(self, feature: int, values: Any, weights: Any) -> None:
        """Overwrites the rows of a feature's ids; if an id repeats, the last rank's last row wins."""
        of, dims = self._by_key(feature, values, len(weights)), self._dims()
        rows = np.empty((int(of.asked[:, of.table].sum()), dims[of.table]), np.float32)
        for place, row in zip(of.places, weights):
            rows[place] = row
        given = self._exchange(rows.ravel(), of.asked @ dims, of.wanted @ dims)
        engine = self._emb._engine
        self.by_all(lambda: _stepwell.write_keys(engine, of.wanted, of.keys, given))

    def export(self, own: str, args: list[str]) -> None:
        """Exports the rows of all ranks: rank 0 does, from a checkpoint in its directory `own`."""
        saved = self.meet(own)[0]
        self._emb.save(saved)
        export = ["export", saved, *args]
        self.by_all(lambda: _program.run(export, shows=False) if self.rank == 0 else None)

    def digest(self) -> str:
        """A digest of the rows of all ranks."""
        emb = self._emb
        part = self.by_all(lambda: _stepwell.digest_rows(emb._session()))
        return _stepwell.digest_of(self.meet(part))


class RankTurn(RowsTurn):
    """The current mini-batch of embeddings of several ranks."""

    fed: RankFed

    def __init__(self, emb: Any, fed: RankFed):
        super().__init__(emb, fed)
        self.gradients: list[Any] | None = None
        """Gradients of the tables' rows, once the step was made."""
        self.lr = 0.0

    def _load(self) -> dict[str, Any]:
        for name, rows in zip(self.emb.tables, self.emb._ranks.ready(self.fed)):
            self.leaves[name] = self._leaf(rows)
        return self.fed.places

    def _fill(self, found: dict[str, Any]) -> None:
        super()._fill(found)
        self.emb._ranks.begin(self)

    def record(self, lr: float) -> None:
        """Takes the gradients that PyTorch recorded, until all ranks have made the step."""
        gradients = [(leaf, taken(leaf)) for leaf in self.leaves.values()]
        self.gradients = [
            np.zeros(tuple(leaf.shape), np.float32) if gradient is None else gradient
            for leaf, gradient in gradients
        ]
        self.lr = lr
