//! Ids of several ranks: keys go to the ranks that have their rows, rows come back, and gradients
//! go the same way. Python exchanges the arrays.
//!
//! - **Layout.** Arrays that ranks exchange are in the order of ranks, then of tables. A rank's
//!   session has one example per rank, with a bag per table: the keys that this rank asked for.
//! - **Determinism.** Gradients of a row are added in the order of ranks.

use pyo3::prelude::*;
use rayon::prelude::*;
use stepwell_base::Key;
use stepwell_base::owner::owner;
use stepwell_engine::{BagsRef, Columns, DenseView, Field, Grouper, ModelDigest, Pooling, Purpose};
use stepwell_engine::{Request, Turn};

use crate::arrays::{Array, ArrayMut};
use crate::engine::Engine;
use crate::errors::{failed, wrong};
use crate::ids::{IdArrays, Ids};
use crate::pushing::{current, lock};

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Route>()?;
    module.add_function(wrap_pyfunction!(feed_keys, module)?)?;
    module.add_function(wrap_pyfunction!(answer, module)?)?;
    module.add_function(wrap_pyfunction!(push_answers, module)?)?;
    module.add_function(wrap_pyfunction!(read_keys, module)?)?;
    module.add_function(wrap_pyfunction!(write_keys, module)?)?;
    module.add_function(wrap_pyfunction!(digest_rows, module)?)?;
    module.add_function(wrap_pyfunction!(digest_of, module)?)
}

/// Columns of a session whose `tables` tables are unpooled.
pub(crate) fn columns(tables: usize) -> Columns {
    let field = Field { column: 0, pooling: Pooling::None };
    Columns { of_fields: vec![vec![field]; tables], count: 0 }
}

/// The keys of a table, and where each id finds its row.
#[derive(Default)]
struct TableRoute {
    /// Keys, by the rank that has their rows.
    keys: Vec<Vec<Key>>,
    /// Row of each id among the table's rows that come back, by feature of the table.
    places: Vec<Vec<i64>>,
}

/// The keys of a mini-batch of this rank.
#[pyclass(frozen, module = "stepwell._stepwell")]
pub(crate) struct Route {
    tables: Vec<TableRoute>,
    /// Table of each feature, and its number in [`TableRoute::places`].
    features: Vec<(usize, usize)>,
    ranks: usize,
}

#[pymethods]
impl Route {
    /// Routes the ids of features, which are given by number, of `examples` examples. Sends each
    /// key once, unless `counts` is set.
    #[new]
    fn new(
        py: Python<'_>,
        engine: &Bound<'_, Engine>,
        ids: Vec<(usize, Ids<'_>)>,
        examples: usize,
        counts: bool,
    ) -> PyResult<Self> {
        let engine = engine.get();
        let mut arrays: Vec<Option<IdArrays>> = engine.features.iter().map(|_| None).collect();
        for (number, ids) in &ids {
            let name = &engine.feature(*number)?.name;
            arrays[*number] = Some(IdArrays::of(ids, name, examples)?);
        }
        Ok(py.detach(|| Self::of(engine, &arrays, (examples, counts))))
    }

    /// Number of keys for each rank, by table. // (ranks * tables)
    #[getter]
    fn counts(&self) -> Vec<usize> {
        let of_rank =
            |rank: usize| self.tables.iter().map(move |table: &TableRoute| table.keys[rank].len());
        (0..self.ranks).flat_map(of_rank).collect()
    }

    /// Copies the keys for all ranks to `keys`.
    fn keys(&self, keys: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut keys = ArrayMut::<i64>::of(keys, "keys")?;
        let of_rank =
            |rank| self.tables.iter().flat_map(move |table: &TableRoute| &table.keys[rank]);
        let all = (0..self.ranks).flat_map(of_rank);
        keys.elements().iter_mut().zip(all).for_each(|(to, key)| *to = key.0 as i64);
        Ok(())
    }

    /// Copies the row of each id of a feature to `places`.
    fn places(&self, feature: usize, places: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut places = ArrayMut::<i64>::of(places, "places")?;
        let Some((table, number)) = self.features.get(feature) else {
            return Err(wrong(format!("there is no feature {feature}")));
        };
        let (found, places) = (&self.tables[*table].places[*number], places.elements());
        if found.len() != places.len() {
            return Err(wrong(format!("give {} places, not {}", found.len(), places.len())));
        }
        places.copy_from_slice(found);
        Ok(())
    }
}

impl Route {
    fn of(engine: &Engine, ids: &[Option<IdArrays>], (examples, counts): (usize, bool)) -> Self {
        let numbers = engine.of_tables.par_iter().enumerate();
        let tables = engine.pool.install(|| {
            numbers.map(|(table, _)| table_route(engine, table, ids, (examples, counts))).collect()
        });
        let mut features = vec![(0, 0); engine.features.len()];
        for (table, of_table) in engine.of_tables.iter().enumerate() {
            for (number, feature) in of_table.iter().enumerate() {
                features[*feature] = (table, number);
            }
        }
        Self { tables, features, ranks: engine.of.ranks }
    }
}

/// The route of the ids of a table's features.
///
/// If `counts` is set and the table admits keys by occurrences, sends every occurrence, in the
/// order of examples, so that owners count as one rank would. Otherwise sends each key once.
fn table_route(
    engine: &Engine,
    table: usize,
    ids: &[Option<IdArrays>],
    (examples, counts): (usize, bool),
) -> TableRoute {
    let (features, salt, ranks) = (&engine.of_tables[table], engine.salts[table], engine.of.ranks);
    let (mut keys, mut of_features) = (Vec::new(), Vec::new());
    for example in 0..examples {
        for (number, feature) in features.iter().enumerate() {
            let Some(ids) = &ids[*feature] else { continue };
            ids.values.keys(ids.bag(example), &engine.features[*feature].namespace, &mut keys);
            of_features.resize(keys.len(), number);
        }
    }
    let mut request = Request::default();
    Grouper::default().group_into(&keys, salt, &mut request);
    let mut of_ranks = vec![Vec::new(); ranks];
    // The rank of each distinct key, and its first place there.
    let mut found = vec![None; request.distinct.len()];
    for row in &request.occurrence_rows {
        let (row, key) = (*row as usize, request.distinct[*row as usize]);
        let rank = found[row].map_or_else(|| owner(key, ranks), |(rank, _)| rank);
        if found[row].is_none() {
            found[row] = Some((rank, of_ranks[rank].len()));
        } else if !counts || engine.admits[table] <= 1 {
            continue;
        }
        of_ranks[rank].push(key.salted(salt));
    }
    let firsts = of_ranks.iter().scan(0, |sum, keys| {
        let first = *sum;
        *sum += keys.len();
        Some(first)
    });
    let firsts: Vec<usize> = firsts.collect();
    let mut places = vec![Vec::new(); features.len()];
    for (row, feature) in request.occurrence_rows.iter().zip(of_features) {
        let (rank, number) = found[*row as usize].unwrap_or_default();
        places[feature].push((firsts[rank] + number) as i64);
    }
    TableRoute { keys: of_ranks, places }
}

/// Keys of every rank and table, from the counts of [`Route::counts`].
struct Received<'a> {
    /// By table, then rank.
    keys: Vec<Vec<&'a [i64]>>,
}

impl<'a> Received<'a> {
    fn of(engine: &Engine, counts: &[i64], mut keys: &'a [i64]) -> PyResult<Self> {
        let (ranks, tables) = (engine.of.ranks, engine.dims.len());
        let total: i64 = counts.iter().sum();
        let is_wrong = counts.iter().any(|count| *count < 0) || u32::try_from(total).is_err();
        if is_wrong || counts.len() != ranks * tables || total != keys.len() as i64 {
            return Err(wrong(format!("{} counts of {} keys", counts.len(), keys.len())));
        }
        let mut found = vec![Vec::with_capacity(ranks); tables];
        for of_rank in counts.chunks(tables) {
            for (found, count) in found.iter_mut().zip(of_rank) {
                let (own, rest) = keys.split_at(*count as usize);
                found.push(own);
                keys = rest;
            }
        }
        Ok(Self { keys: found })
    }

    /// The keys of a table, rank by rank.
    fn of_table(&self, table: usize) -> Vec<Key> {
        self.keys[table].iter().flat_map(|keys| *keys).map(|key| Key(*key as u64)).collect()
    }
}

/// Feeds the `keys` that ranks ask for.
#[pyfunction]
fn feed_keys(
    py: Python<'_>,
    engine: &Bound<'_, Engine>,
    counts: &Bound<'_, PyAny>,
    keys: &Bound<'_, PyAny>,
    train: bool,
) -> PyResult<()> {
    let engine = engine.get();
    let (counts, keys) = (Array::<i64>::of(counts, "counts")?, Array::<i64>::of(keys, "keys")?);
    let received = Received::of(engine, counts.elements(), keys.elements())?;
    let purpose = if train { Purpose::Train } else { Purpose::Evaluate };
    let prepared = py.detach(|| {
        let feeder = &mut *lock(&engine.feeder);
        for (bags, of_ranks) in feeder.bags.iter_mut().zip(&received.keys) {
            bags.keys.clear();
            bags.ends.clear();
            for keys in of_ranks {
                bags.keys.extend(keys.iter().map(|key| Key(*key as u64)));
                bags.ends.push(bags.keys.len() as u32);
            }
        }
        let foreign = feeder.bags.iter().zip(&engine.salts).any(|(bags, salt)| {
            let is_foreign =
                |key: &Key| owner(key.salted(*salt), engine.of.ranks) != engine.of.rank;
            bags.keys.iter().any(is_foreign)
        });
        if foreign {
            let why =
                "keys of another rank's rows: ranks have different tables or numbers of ranks";
            return Err(wrong(why.to_owned()));
        }
        let bags: Vec<BagsRef<'_>> = feeder.bags.iter().map(BagsRef::from).collect();
        let prepare = || feeder.preparer.prepare(engine.of.ranks, &bags, None, purpose);
        engine.pool.install(prepare).map_err(failed)
    })?;
    engine.with(py, |session| session.feed_prepared(prepared).map_err(failed))
}

/// Blocks of rows, by table and rank, of an array of `lanes` elements that ranks exchange.
///
/// # Errors
/// If rows of these counts have another number of elements.
fn blocks(counts: &[i64], dims: &[usize], lanes: usize) -> PyResult<Vec<Vec<Block>>> {
    let mut found = vec![Vec::new(); dims.len()];
    let (mut begin, mut first) = (0, vec![0; dims.len()]);
    for of_rank in counts.chunks(dims.len()) {
        for (table, count) in of_rank.iter().enumerate() {
            let rows = *count as usize;
            found[table].push(Block { begin, first: first[table], rows });
            begin += rows * dims[table];
            first[table] += rows;
        }
    }
    if begin == lanes {
        return Ok(found);
    }
    Err(wrong(format!("the rows of all ranks have {begin} elements, not {lanes}")))
}

/// Refuses blocks of other rows than those of the current mini-batch.
fn check_fed(turn: &Turn<'_>, blocks: &[Vec<Block>]) -> PyResult<()> {
    let rows = |of: &Vec<Block>| of.iter().map(|block| block.rows).sum::<usize>();
    let fed = (0..blocks.len()).map(|table| turn.occurrence_rows(table).len());
    if fed.eq(blocks.iter().map(rows)) {
        return Ok(());
    }
    Err(wrong("the counts aren't those of the current mini-batch".to_owned()))
}

/// Rows of one table for one rank.
#[derive(Clone, Copy)]
struct Block {
    /// Position of the first row in the array.
    begin: usize,
    /// Number of the first among the table's keys.
    first: usize,
    rows: usize,
}

/// Copies the current mini-batch's rows to `rows`, for the ranks that asked for them.
#[pyfunction]
fn answer(
    py: Python<'_>,
    engine: &Bound<'_, Engine>,
    counts: &Bound<'_, PyAny>,
    rows: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let engine = engine.get();
    let (counts, mut rows) = (Array::<i64>::of(counts, "counts")?, ArrayMut::of(rows, "rows")?);
    engine.with_turn(py, |turn| {
        let rows = rows.elements();
        let blocks = blocks(counts.elements(), &engine.dims, rows.len())?;
        check_fed(&turn, &blocks)?;
        for (table, (blocks, dim)) in blocks.iter().zip(&engine.dims).enumerate() {
            let mut own = vec![0.0; turn.keys(table).len() * dim];
            turn.copy_rows(table, &mut own);
            let of_keys = turn.occurrence_rows(table);
            for Block { begin, first, rows: count } in blocks {
                let to = rows[*begin..begin + count * dim].chunks_mut(*dim);
                for (to, row) in to.zip(&of_keys[*first..first + count]) {
                    to.copy_from_slice(&own[*row as usize * dim..][..*dim]);
                }
            }
        }
        Ok(())
    })
}

/// Ends the step with the gradients of the rows that ranks asked for.
#[pyfunction]
fn push_answers(
    py: Python<'_>,
    engine: &Bound<'_, Engine>,
    counts: &Bound<'_, PyAny>,
    gradients: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let engine = engine.get();
    let counts = Array::<i64>::of(counts, "counts")?;
    let gradients = Array::<f32>::of(gradients, "gradients")?;
    engine.with(py, |session| {
        let turn = current(session)?;
        if !turn.trains() {
            return Err(wrong("the mini-batch was fed for an evaluation".to_owned()));
        }
        let gradients = gradients.elements();
        let blocks = blocks(counts.elements(), &engine.dims, gradients.len())?;
        check_fed(&turn, &blocks)?;
        let sums = blocks.iter().zip(&engine.dims).enumerate().map(|(table, (blocks, dim))| {
            let mut sums = vec![0.0f32; turn.keys(table).len() * dim];
            let of_keys = turn.occurrence_rows(table);
            for Block { begin, first, rows } in blocks {
                let from = gradients[*begin..begin + rows * dim].chunks(*dim);
                for (from, row) in from.zip(&of_keys[*first..first + rows]) {
                    let sum = &mut sums[*row as usize * dim..][..*dim];
                    sum.iter_mut().zip(from).for_each(|(sum, gradient)| *sum += gradient);
                }
            }
            (table, sums)
        });
        let sums: Vec<(usize, Vec<f32>)> = sums.collect();
        let d_rows: Vec<(usize, &[f32])> =
            sums.iter().map(|(table, sums)| (*table, &sums[..])).collect();
        turn.push_all(&[], &[], &d_rows).map_err(failed)
    })
}

/// Copies the rows of `keys`, which ranks ask for, to `rows`; a row that doesn't exist has initial
/// weights.
#[pyfunction]
fn read_keys(
    py: Python<'_>,
    engine: &Bound<'_, Engine>,
    counts: &Bound<'_, PyAny>,
    keys: &Bound<'_, PyAny>,
    rows: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let engine = engine.get();
    let (counts, keys) = (Array::<i64>::of(counts, "counts")?, Array::<i64>::of(keys, "keys")?);
    let mut rows = ArrayMut::<f32>::of(rows, "rows")?;
    let received = Received::of(engine, counts.elements(), keys.elements())?;
    engine.with(py, |session| {
        let rows = rows.elements();
        let blocks = blocks(counts.elements(), &engine.dims, rows.len())?;
        for (table, blocks) in blocks.iter().enumerate() {
            let (keys, dim) = (received.of_table(table), engine.dims[table]);
            if keys.is_empty() {
                continue;
            }
            let read = session.read(table, &keys).map_err(failed)?;
            for Block { begin, first, rows: count } in blocks {
                let own = &read[first * dim..][..count * dim];
                rows[*begin..begin + count * dim].copy_from_slice(own);
            }
        }
        Ok(())
    })
}

/// Overwrites the rows of `keys`, which ranks give, with `weights`. The last of several ranks'
/// weights stays.
#[pyfunction]
fn write_keys(
    py: Python<'_>,
    engine: &Bound<'_, Engine>,
    counts: &Bound<'_, PyAny>,
    keys: &Bound<'_, PyAny>,
    weights: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let engine = engine.get();
    let (counts, keys) = (Array::<i64>::of(counts, "counts")?, Array::<i64>::of(keys, "keys")?);
    let weights = Array::<f32>::of(weights, "weights")?;
    let received = Received::of(engine, counts.elements(), keys.elements())?;
    engine.with(py, |session| {
        let weights = weights.elements();
        let blocks = blocks(counts.elements(), &engine.dims, weights.len())?;
        // Rank 0 names the checkpoint, whichever rank has the rows.
        session.note_written();
        for (table, blocks) in blocks.iter().enumerate() {
            let (keys, dim) = (received.of_table(table), engine.dims[table]);
            if keys.is_empty() {
                continue;
            }
            let own = blocks.iter().flat_map(|of| &weights[of.begin..of.begin + of.rows * dim]);
            let own: Vec<f32> = own.copied().collect();
            session.write(table, &keys, &own).map_err(failed)?;
        }
        Ok(())
    })
}

/// Digest of the rows of this rank, for [`digest_of`].
#[pyfunction]
fn digest_rows(py: Python<'_>, engine: &Bound<'_, Engine>) -> PyResult<[u64; 3]> {
    engine.get().with(py, |session| Ok(session.digest_rows().map_err(failed)?.of_rows()))
}

/// The digest of the rows of all ranks.
#[pyfunction]
fn digest_of(parts: Vec<[u64; 3]>) -> String {
    let mut digest = ModelDigest::default();
    parts.into_iter().for_each(|part| digest.add_rows(part));
    digest.finish(&DenseView::default())
}
