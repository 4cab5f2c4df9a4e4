//! A session for Python.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use stepwell_base::owner::RankOf;
use stepwell_engine::{
    Bags, BagsRef, Next, Pooled, Prepared, Preparer, Purpose, SavedSession, Session, TableSpec,
    Turn, Waiting,
};

use crate::arrays::{Array, ArrayMut};
use crate::errors::{failed, wrong};
use crate::ids::{IdArrays, Ids, Values};
use crate::pushing::{Gradients, Pushing, current, lock, with_session};
use crate::ranks;
use crate::specs::{Feature, FeatureArgs, TableArgs, features, shape};
use crate::tiers::{Expected, TierArgs};

/// Longest wait before signals, such as Ctrl-C, are looked for.
const PATIENCE: Duration = Duration::from_millis(50);
/// Examples that a thread pools at once; their embeddings stay in its second-level cache.
const GRAIN: usize = 128;

/// A checkpoint, which stays until it is opened or dropped.
#[pyclass(frozen, module = "stepwell._stepwell")]
pub(crate) struct Saved(Mutex<Option<SavedSession>>);

#[pymethods]
impl Saved {
    /// Opens the newest checkpoint in a directory, or the one at `path`.
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let saved = py.detach(|| SavedSession::open(&path)).map_err(failed)?;
        Ok(Self(Mutex::new(Some(saved))))
    }

    /// The caller's bytes.
    #[getter]
    fn extra<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let saved = lock(&self.0);
        PyBytes::new(py, saved.as_ref().map_or(&[], |saved| &saved.extra))
    }

    /// The checkpoint's directory; `None` once the checkpoint was opened.
    #[getter]
    fn path(&self) -> Option<PathBuf> {
        lock(&self.0).as_ref().map(|saved| saved.path().to_owned())
    }

    /// Steps trained; 0 once the checkpoint was opened.
    #[getter]
    fn steps(&self) -> u64 {
        lock(&self.0).as_ref().map_or(0, SavedSession::step)
    }
}

/// Mini-batches that were taken out.
#[pyclass(frozen, module = "stepwell._stepwell")]
pub(crate) struct SetAside(Mutex<Option<Waiting>>);

/// Makes mini-batches of ids.
pub(crate) struct Feeder {
    pub(crate) preparer: Preparer,
    /// Bags of each table, whose memory is used again.
    pub(crate) bags: Vec<Bags>,
}

/// Tables and the mini-batches that use them.
#[pyclass(frozen, module = "stepwell._stepwell")]
pub(crate) struct Engine {
    /// `None` once closed.
    session: Arc<Mutex<Option<Session>>>,
    /// A step that hasn't ended yet; every other use of the session waits for it.
    pushing: Mutex<Option<Pushing>>,
    /// Whether the session has room for a mini-batch, also while a step ends.
    room: AtomicBool,
    pub(crate) feeder: Mutex<Feeder>,
    pub(crate) features: Vec<Feature>,
    /// Features of each table.
    pub(crate) of_tables: Vec<Vec<usize>>,
    /// Weights of a row, by table.
    pub(crate) dims: Vec<usize>,
    /// Salts of the tables' keys.
    pub(crate) salts: Vec<u64>,
    /// Occurrences after which the tables admit a key.
    pub(crate) admits: Vec<u8>,
    /// The rank that has these rows.
    pub(crate) of: RankOf,
    /// Columns of the pooled embeddings.
    width: usize,
    pub(crate) pool: ThreadPool,
    /// The process that may use it: a child made by fork has none of its threads.
    process: u32,
}

impl Engine {
    /// Calls `work` with the session, without the GIL.
    pub(crate) fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Session) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        self.check_process()?;
        self.settle(py)?;
        py.detach(|| {
            with_session(&self.session, |session| {
                let done = work(session);
                self.room.store(session.has_room(), Ordering::Relaxed);
                done
            })
        })
    }

    /// Waits for the end of a step, if one is ending, and returns its error.
    fn settle(&self, py: Python<'_>) -> PyResult<()> {
        let pushed = py.detach(|| {
            // Other threads wait here, so that none overtakes the step.
            let mut pushing = lock(&self.pushing);
            pushing.take().map(|pushing| (pushing.outcome(), pushing))
        });
        pushed.map_or(Ok(()), |(outcome, _)| outcome)
    }

    /// Calls `work` with the current mini-batch, without the GIL.
    pub(crate) fn with_turn<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(Turn<'_>) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        self.with(py, |session| work(current(session)?))
    }

    fn check_process(&self) -> PyResult<()> {
        if std::process::id() == self.process {
            return Ok(());
        }
        Err(PyRuntimeError::new_err(format!(
            "these embeddings belong to process {}: use them there, and only ids in workers",
            self.process
        )))
    }

    /// Writes the bags of a table's `features` to `bags`.
    fn fill(&self, bags: &mut Bags, features: &[usize], ids: &[IdArrays], examples: usize) {
        bags.keys.clear();
        bags.ends.clear();
        bags.weights.clear();
        if let [feature] = features
            && ids[*feature].weights.is_none()
        {
            let (ids, namespace) = (&ids[*feature], &self.features[*feature].namespace);
            ids.values.keys(0..ids.values.count(), namespace, &mut bags.keys);
            match &ids.offsets {
                None => bags.ends.extend(1..=examples as u32),
                Some(offsets) => {
                    bags.ends.extend(offsets.elements()[1..].iter().map(|end| *end as u32));
                }
            }
            return;
        }
        let weighs = features.iter().any(|feature| ids[*feature].weights.is_some());
        for example in 0..examples {
            for feature in features {
                let (ids, namespace) = (&ids[*feature], &self.features[*feature].namespace);
                let bag = ids.bag(example);
                ids.values.keys(bag.clone(), namespace, &mut bags.keys);
                match &ids.weights {
                    Some(weights) => bags.weights.extend_from_slice(&weights.elements()[bag]),
                    None if weighs => bags.weights.resize(bags.keys.len(), 1.0),
                    None => {}
                }
                bags.ends.push(bags.keys.len() as u32);
            }
        }
    }

    /// Makes a mini-batch of the ids of each feature. Threads divide the tables among them.
    fn prepare(
        &self,
        ids: &[IdArrays],
        examples: usize,
        purpose: Purpose,
    ) -> stepwell_engine::Result<Prepared> {
        // Locked outside the pool, whose threads may take up another mini-batch while they wait.
        let Feeder { preparer, bags } = &mut *lock(&self.feeder);
        self.pool.install(|| {
            let of_tables = bags.par_iter_mut().zip(&self.of_tables);
            of_tables.for_each(|(bags, features)| self.fill(bags, features, ids, examples));
            let bags: Vec<BagsRef<'_>> = bags.iter().map(BagsRef::from).collect();
            preparer.prepare(examples, &bags, None, purpose)
        })
    }
}

#[pymethods]
impl Engine {
    /// Opens tables, or resumes them from the checkpoint `saved`. `expected` is the number of
    /// examples of a mini-batch, and by table of their ids and of distinct ones, if known.
    #[new]
    #[pyo3(signature = (tables, features_of, tiers, expected, saved = None))]
    fn new(
        py: Python<'_>,
        tables: Vec<TableArgs>,
        features_of: Vec<FeatureArgs>,
        tiers: TierArgs,
        expected: Expected,
        saved: Option<&Saved>,
    ) -> PyResult<Self> {
        let specs = tables.iter().enumerate().map(|(number, table)| table.spec(number));
        let mut specs = specs.collect::<PyResult<Vec<_>>>()?;
        let dims: Vec<usize> = specs.iter().map(|spec| spec.dim).collect();
        let (features, mut columns) = features(features_of, &dims)?;
        if tiers.ranks > 1 {
            columns = ranks::columns(dims.len());
        }
        let mut of_tables = vec![Vec::new(); specs.len()];
        for (number, feature) in features.iter().enumerate() {
            of_tables[feature.table].push(number);
        }
        let salts = specs.iter().map(TableSpec::salt).collect();
        let (width, shape, wanted) =
            (columns.count, shape(&tables), tiers.tiers(&tables, expected));
        let saved = saved.map(|saved| {
            let used = || wrong("the checkpoint was used already: open it again".to_owned());
            lock(&saved.0).take().ok_or_else(used)
        });
        let saved = saved.transpose()?;
        let opened = py.detach(|| match saved {
            None => Session::open(specs, columns, shape, &wanted),
            Some(mut saved) => {
                for (spec, was) in specs.iter_mut().zip(&saved.tables) {
                    spec.shared = was.shared;
                }
                saved.tables = specs;
                Session::resume(saved, columns, shape, &wanted)
            }
        });
        let session = opened.map_err(failed)?;
        let bags = of_tables.iter().map(|_| Bags::default()).collect();
        let feeder = Feeder { preparer: session.preparer(), bags };
        let pool = ThreadPoolBuilder::new().num_threads(tiers.threads).build();
        let pool = pool.map_err(|error| crate::Error::new_err(error.to_string()))?;
        Ok(Self {
            feeder: Mutex::new(feeder),
            session: Arc::new(Mutex::new(Some(session))),
            pushing: Mutex::new(None),
            room: AtomicBool::new(true),
            features,
            of_tables,
            dims,
            salts,
            admits: tables.iter().map(|table| table.admit_after).collect(),
            of: RankOf { rank: tiers.rank, ranks: tiers.ranks },
            width,
            pool,
            process: std::process::id(),
        })
    }

    /// Columns of the pooled embeddings.
    #[getter]
    fn width(&self) -> usize {
        self.width
    }

    /// Whether another mini-batch may be fed; can be asked while a step is ending.
    fn has_room(&self) -> bool {
        self.room.load(Ordering::Relaxed)
    }

    /// Feeds ids, by feature.
    fn feed(
        &self,
        py: Python<'_>,
        ids: Vec<Ids<'_>>,
        examples: usize,
        train: bool,
    ) -> PyResult<()> {
        self.check_process()?;
        if ids.len() != self.features.len() {
            let (given, wanted) = (ids.len(), self.features.len());
            return Err(wrong(format!("ids of {given} features: give {wanted}")));
        }
        let arrays = ids.iter().zip(&self.features);
        let arrays = arrays.map(|(ids, feature)| IdArrays::of(ids, &feature.name, examples));
        let arrays = arrays.collect::<PyResult<Vec<_>>>()?;
        let purpose = if train { Purpose::Train } else { Purpose::Evaluate };
        let prepared = py.detach(|| self.prepare(&arrays, examples, purpose)).map_err(failed)?;
        self.with(py, |session| session.feed_prepared(prepared).map_err(failed))
    }

    /// Waits for the end of a step, if one is ending.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        self.check_process()?;
        self.settle(py)
    }

    /// Takes out the mini-batches fed ahead, untrained, and ends the current one.
    fn drain(&self, py: Python<'_>) -> PyResult<SetAside> {
        let waiting = self.with(py, |session| session.drain().map_err(failed))?;
        Ok(SetAside(Mutex::new(Some(waiting))))
    }

    /// Feeds mini-batches that were taken out.
    fn feed_again(&self, py: Python<'_>, aside: &SetAside) -> PyResult<()> {
        let waiting = lock(&aside.0).take();
        let Some(waiting) = waiting else { return Ok(()) };
        self.with(py, |session| session.feed_again(waiting).map_err(failed))
    }

    /// Makes the next mini-batch the current one, once its rows are loaded; `False` after the last.
    fn ready(&self, py: Python<'_>) -> PyResult<bool> {
        loop {
            match self.with(py, |session| session.ready_within(PATIENCE).map_err(failed))? {
                Next::Ready(()) => return Ok(true),
                Next::End => return Ok(false),
                Next::Late => py.check_signals()?,
            }
        }
    }

    /// Pools the current mini-batch's rows into `x` (examples, width).
    fn gather(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<()> {
        let (mut x, width) = (ArrayMut::of(x, "x")?, self.width);
        self.with_turn(py, |turn| {
            let (examples, x) = (turn.examples(), x.elements());
            if x.len() != examples * width {
                return Err(wrong(format!("x has {} elements, not {examples} x {width}", x.len())));
            }
            self.pool.install(|| {
                x.par_chunks_mut(GRAIN * width.max(1)).enumerate().for_each(|(number, x)| {
                    let first = number * GRAIN;
                    let range = first..first + x.len() / width.max(1);
                    let mut first_order = vec![0.0; range.len()];
                    turn.gather(range, Pooled { x, width, first_order: &mut first_order });
                });
            });
            Ok(())
        })
    }

    /// Number of distinct rows and of ids of a table in the current mini-batch.
    fn counts(&self, py: Python<'_>, table: usize) -> PyResult<(usize, usize)> {
        self.check_table(table)?;
        self.with_turn(py, |turn| Ok((turn.keys(table).len(), turn.occurrence_rows(table).len())))
    }

    /// Copies the distinct rows of a table to `rows` (rows, dim), and the row of each id to
    /// `places` (ids).
    fn rows(
        &self,
        py: Python<'_>,
        table: usize,
        rows: &Bound<'_, PyAny>,
        places: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.check_table(table)?;
        let mut rows = ArrayMut::<f32>::of(rows, "rows")?;
        let mut places = ArrayMut::<i64>::of(places, "places")?;
        self.with_turn(py, |turn| {
            let (rows, places) = (rows.elements(), places.elements());
            let found = turn.occurrence_rows(table);
            let lanes = turn.keys(table).len() * self.dims[table];
            if (places.len(), rows.len()) != (found.len(), lanes) {
                return Err(wrong(format!(
                    "give {lanes} elements for rows and {} for places",
                    found.len()
                )));
            }
            turn.copy_rows(table, rows);
            places.iter_mut().zip(found).for_each(|(place, row)| *place = i64::from(*row));
            Ok(())
        })
    }

    /// Ends the step with the gradients of `x` and of distinct rows, by table. Unless it `waits`,
    /// returns before rows are updated: the gradients must not change until then, and the next call
    /// returns any error.
    fn push(
        &self,
        py: Python<'_>,
        d_x: Option<&Bound<'_, PyAny>>,
        d_rows: Vec<(usize, Bound<'_, PyAny>)>,
        waits: bool,
    ) -> PyResult<()> {
        let d_x = d_x.map(|d_x| Array::<f32>::of(d_x, "gradient")).transpose()?;
        for (table, _) in &d_rows {
            self.check_table(*table)?;
        }
        let d_rows = d_rows.iter().map(|(table, rows)| Ok((*table, Array::of(rows, "gradient")?)));
        let gradients = Arc::new(Gradients { d_x, d_rows: d_rows.collect::<PyResult<_>>()? });
        self.check_process()?;
        self.settle(py)?;
        let (sender, done) = mpsc::sync_channel(1);
        let (session, of_thread) = (Arc::clone(&self.session), Arc::clone(&gradients));
        let (width, dims) = (self.width, self.dims.clone());
        self.pool.spawn(move || {
            let push = |session: &mut Session| of_thread.push(session, width, &dims);
            let outcome = catch_unwind(AssertUnwindSafe(|| with_session(&session, push)));
            if outcome.is_err() {
                // Some rows may be updated and others not.
                *lock(&session) = None;
            }
            // The caller drops the gradients, with the GIL, and the session.
            drop((of_thread, session));
            if let Ok(outcome) = outcome {
                let _ = sender.send(outcome);
            }
        });
        *lock(&self.pushing) = Some(Pushing { done, _gradients: gradients });
        if waits { self.settle(py) } else { Ok(()) }
    }

    fn set_learning_rate(&self, py: Python<'_>, table: usize, lr: f64) -> PyResult<()> {
        self.with(py, |session| session.set_learning_rate(table, lr).map_err(failed))
    }

    #[getter]
    fn steps(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |session| Ok(session.steps()))
    }

    /// Saves a checkpoint. Among several ranks, `meet` gives every rank the bytes of all.
    #[pyo3(signature = (directory, keep, extra, meet = None))]
    fn save(
        &self,
        py: Python<'_>,
        directory: PathBuf,
        keep: usize,
        extra: &[u8],
        meet: Option<Py<PyAny>>,
    ) -> PyResult<PathBuf> {
        let Some(meet) = meet else {
            return self.with(py, |session| session.save(&directory, keep, extra).map_err(failed));
        };
        self.with(py, |session| {
            let mut failure = None;
            let saved = session.save_with(&directory, keep, extra, &mut |bytes| {
                let all = Python::attach(|py| {
                    meet.call1(py, (PyBytes::new(py, &bytes),))?.extract::<Vec<Vec<u8>>>(py)
                });
                all.map_err(|error| {
                    let why = error.to_string();
                    failure = Some(error);
                    stepwell_engine::Error::Refused(why)
                })
            });
            saved.map_err(|error| failure.unwrap_or_else(|| failed(error)))
        })
    }

    /// The most mini-batches that are fed at once.
    fn fed_max(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |session| Ok(session.fed_max()))
    }

    fn digest(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |session| session.digest().map_err(failed))
    }

    /// Copies the rows of a feature's ids to `rows` (ids, dim).
    fn read(
        &self,
        py: Python<'_>,
        feature: usize,
        ids: &Bound<'_, PyAny>,
        rows: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let of = self.feature(feature)?;
        let (ids, mut rows) = (Values::of(ids, &of.name)?, ArrayMut::of(rows, "rows")?);
        self.with(py, |session| {
            let keys = ids.all_keys(&of.namespace);
            let read = session.read(of.table, &keys).map_err(failed)?;
            let rows = rows.elements();
            if rows.len() != read.len() {
                return Err(wrong(format!(
                    "rows have {} elements, not {}",
                    rows.len(),
                    read.len()
                )));
            }
            rows.copy_from_slice(&read);
            Ok(())
        })
    }

    /// Overwrites the rows of a feature's ids with `weights` (ids, dim).
    fn write(
        &self,
        py: Python<'_>,
        feature: usize,
        ids: &Bound<'_, PyAny>,
        weights: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let of = self.feature(feature)?;
        let (ids, weights) = (Values::of(ids, &of.name)?, Array::of(weights, "weights")?);
        self.with(py, |session| {
            let keys = ids.all_keys(&of.namespace);
            session.write(of.table, &keys, weights.elements()).map_err(failed)
        })
    }

    /// Counters since the session was opened.
    fn stats(&self, py: Python<'_>) -> PyResult<Vec<(&'static str, u64)>> {
        self.with(py, |session| {
            let of = session.figures();
            Ok(vec![
                ("steps", session.steps()),
                ("rows_fit", of.rows_fit),
                ("rows_hit", of.planned.hits),
                ("rows_loaded", of.planned.misses),
                ("rows_evicted", of.planned.evictions),
                ("rows_initialized", of.rows_initialized),
                ("rows_read", of.rows_read),
                ("rows_written", of.rows_written),
                ("rows_on_disk", of.rows_on_disk),
                ("bytes_read", of.bytes_read),
                ("bytes_written", of.bytes_written),
                ("bytes_on_disk", of.bytes_on_disk),
            ])
        })
    }

    /// Ends the session and frees its memory and temporary files.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.check_process()?;
        let settled = self.settle(py);
        py.detach(|| drop(lock(&self.session).take()));
        settled
    }
}

impl Engine {
    pub(crate) fn feature(&self, number: usize) -> PyResult<&Feature> {
        self.features.get(number).ok_or_else(|| wrong(format!("there is no feature {number}")))
    }

    fn check_table(&self, table: usize) -> PyResult<()> {
        let count = self.of_tables.len();
        if table < count { Ok(()) } else { Err(wrong(format!("there is no table {table}"))) }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let pushing = self.pushing.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if std::process::id() == self.process {
            // Threads read the gradients until the step has ended, and may need the GIL.
            let ended = Python::attach(|py| {
                py.detach(|| pushing.map(|pushing| (pushing.outcome(), pushing)))
            });
            return drop(ended);
        }
        // A child made by fork has no threads to join, and the files are its parent's. Another
        // thread may have had the lock at the fork.
        std::mem::forget(pushing);
        std::mem::forget(Arc::clone(&self.session));
    }
}
