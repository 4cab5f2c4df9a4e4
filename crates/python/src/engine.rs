//! A session for Python.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use stepwell_base::{ByteCount, Key, Namespace};
use stepwell_engine::{
    Bags, BagsRef, Error, Next, Pooled, Preparer, Purpose, SavedSession, Session, Shape, Tiers,
    Turn, Waiting,
};

use crate::arrays::{Array, ArrayMut};
use crate::specs::{Feature, FeatureArgs, TableArgs, features};

/// Longest wait before signals, such as Ctrl-C, are looked for.
const PATIENCE: Duration = Duration::from_millis(50);
/// Fewest examples that a thread pools.
const GRAIN: usize = 64;

/// Names of settings and flags of the program, and their counterparts in Python.
const NAMES: [(&str, &str); 5] = [
    (
        "set them aside with --force, continue from a checkpoint with --resume, or choose",
        "delete it, or choose",
    ),
    ("name a directory that `--checkpoint` wrote", "name a directory that `save` wrote"),
    ("tiers.ssd", "path"),
    ("tiers.dram", "memory"),
    ("tiers.index", "index"),
];

/// Text of an error, with the names that Python has.
fn text(error: &Error) -> String {
    NAMES.iter().fold(error.to_string(), |text, (name, here)| text.replace(name, here))
}

/// The Python error for an error of the engine that ended nothing.
fn failed(error: Error) -> PyErr {
    let said = text(&error);
    match error {
        Error::Ended(_) => crate::Error::new_err(said),
        Error::Refused(_)
        | Error::Settings(_)
        | Error::NoCheckpoint { .. }
        | Error::Checkpoint { .. } => PyValueError::new_err(said),
        _ => PyOSError::new_err(said),
    }
}

fn wrong(why: String) -> PyErr {
    PyValueError::new_err(why)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory and disk: attributes of the Python class.
#[derive(Debug, FromPyObject)]
pub(crate) struct TierArgs {
    memory: String,
    index: String,
    path: Option<PathBuf>,
    lookahead: usize,
    threads: usize,
}

impl TierArgs {
    fn tiers(&self) -> PyResult<Tiers> {
        let bytes = |name: &str, text: &str| {
            let bytes = text.parse::<ByteCount>();
            bytes.map_err(|error| wrong(format!("{name}: {error}")))
        };
        Ok(Tiers {
            memory: bytes("memory", &self.memory)?,
            index: bytes("index", &self.index)?,
            directory: self.path.clone(),
            lookahead: self.lookahead,
            ..Tiers::default()
        })
    }
}

/// Ids of a feature: values, offsets of bags (absent for one id an example), and weights.
type Ids<'py> = (Bound<'py, PyAny>, Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>);

/// Ids of a feature as arrays.
struct IdArrays {
    values: Array<i64>,
    offsets: Option<Array<i64>>,
    weights: Option<Array<f32>>,
}

impl IdArrays {
    fn of((values, offsets, weights): &Ids<'_>, name: &str, examples: usize) -> PyResult<Self> {
        let offsets = offsets.as_ref().map(|offsets| Array::of(offsets, name)).transpose()?;
        let weights = weights.as_ref().map(|weights| Array::of(weights, name)).transpose()?;
        let ids = Self { values: Array::of(values, name)?, offsets, weights };
        ids.check(name, examples)?;
        Ok(ids)
    }

    fn check(&self, name: &str, examples: usize) -> PyResult<()> {
        let count = self.values.elements().len();
        let fail = |why: String| Err(wrong(format!("feature '{name}': {why}")));
        match self.offsets.as_ref().map(Array::elements) {
            None if count != examples => {
                return fail(format!("{count} ids for {examples} examples: give offsets of bags"));
            }
            Some(offsets) if offsets.len() != examples + 1 => {
                let given = offsets.len();
                return fail(format!("{given} offsets for {examples} examples: give one more"));
            }
            Some(offsets)
                if offsets.first() != Some(&0)
                    || !offsets.is_sorted()
                    || offsets.last().is_none_or(|last| *last as usize != count) =>
            {
                return fail(format!("offsets must ascend from 0 to {count}, the number of ids"));
            }
            _ => {}
        }
        match self.weights.as_ref().map(|weights| weights.elements().len()) {
            Some(given) if given != count => fail(format!("{given} weights for {count} ids")),
            _ => Ok(()),
        }
    }

    /// The occurrences of an example.
    fn bag(&self, example: usize) -> std::ops::Range<usize> {
        match &self.offsets {
            Some(offsets) => {
                let offsets = offsets.elements();
                offsets[example] as usize..offsets[example + 1] as usize
            }
            None => example..example + 1,
        }
    }
}

/// Appends the key of an id, which is hashed as the text of the number, as in data files.
fn push_key(keys: &mut Vec<Key>, namespace: &Namespace, id: i64) {
    let mut digits = [0; 20];
    let (mut at, mut rest) = (digits.len(), id.unsigned_abs());
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if id < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    keys.push(namespace.key_of(&digits[at..]));
}

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
}

/// Mini-batches that were taken out.
#[pyclass(frozen, module = "stepwell._stepwell")]
pub(crate) struct SetAside(Mutex<Option<Waiting>>);

/// Tables and the mini-batches that use them.
#[pyclass(frozen, module = "stepwell._stepwell")]
pub(crate) struct Engine {
    /// `None` once closed.
    session: Mutex<Option<Session>>,
    preparer: Mutex<Preparer>,
    features: Vec<Feature>,
    /// Features of each table.
    of_tables: Vec<Vec<usize>>,
    /// Weights of a row, by table.
    dims: Vec<usize>,
    /// Columns of the pooled embeddings.
    width: usize,
    pool: ThreadPool,
    /// The process that may use it: a child made by fork has none of its threads.
    process: u32,
}

impl Engine {
    /// Calls `work` with the session, without the GIL.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Session) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        self.check_process()?;
        py.detach(|| {
            let mut session = lock(&self.session);
            let Some(session) = &mut *session else {
                return Err(PyRuntimeError::new_err("the embeddings are closed"));
            };
            let done = work(session);
            match done {
                Err(error) if session.has_ended() => Err(crate::Error::new_err(error.to_string())),
                done => done,
            }
        })
    }

    /// Calls `work` with the current mini-batch, without the GIL.
    fn with_turn<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(Turn<'_>) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        let none = "no mini-batch is current: feed one, and ask for the next";
        self.with(py, |session| match session.turn().map_err(failed)? {
            Some(turn) => work(turn),
            None => Err(PyRuntimeError::new_err(none)),
        })
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

    /// The bags of each table.
    fn bags(&self, ids: &[IdArrays], examples: usize) -> Vec<Bags> {
        let of_table = |features: &Vec<usize>| {
            let mut bags = Bags::default();
            let weighs = features.iter().any(|feature| ids[*feature].weights.is_some());
            for example in 0..examples {
                for feature in features {
                    let (ids, namespace) = (&ids[*feature], &self.features[*feature].namespace);
                    let bag = ids.bag(example);
                    for id in &ids.values.elements()[bag.clone()] {
                        push_key(&mut bags.keys, namespace, *id);
                    }
                    match &ids.weights {
                        Some(weights) => {
                            bags.weights.extend_from_slice(&weights.elements()[bag]);
                        }
                        None if weighs => bags.weights.resize(bags.keys.len(), 1.0),
                        None => {}
                    }
                    bags.ends.push(bags.keys.len() as u32);
                }
            }
            bags
        };
        self.of_tables.iter().map(of_table).collect()
    }
}

#[pymethods]
impl Engine {
    /// Opens tables, or resumes them from the checkpoint `saved`.
    #[new]
    #[pyo3(signature = (tables, features_of, tiers, saved = None))]
    fn new(
        py: Python<'_>,
        tables: Vec<TableArgs>,
        features_of: Vec<FeatureArgs>,
        tiers: TierArgs,
        saved: Option<&Saved>,
    ) -> PyResult<Self> {
        let specs = tables.iter().enumerate().map(|(number, table)| table.spec(number));
        let mut specs = specs.collect::<PyResult<Vec<_>>>()?;
        let dims: Vec<usize> = specs.iter().map(|spec| spec.dim).collect();
        let (features, columns) = features(features_of, &dims)?;
        let mut of_tables = vec![Vec::new(); specs.len()];
        for (number, feature) in features.iter().enumerate() {
            of_tables[feature.table].push(number);
        }
        let (width, shape, wanted) = (columns.count, Shape::default(), tiers.tiers()?);
        let saved = saved.and_then(|saved| lock(&saved.0).take());
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
        let pool = ThreadPoolBuilder::new().num_threads(tiers.threads).build();
        let pool = pool.map_err(|error| crate::Error::new_err(error.to_string()))?;
        Ok(Self {
            preparer: Mutex::new(session.preparer()),
            session: Mutex::new(Some(session)),
            features,
            of_tables,
            dims,
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

    fn has_room(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |session| Ok(session.has_room()))
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
        let prepared = py.detach(|| {
            let bags = self.bags(&arrays, examples);
            let bags: Vec<BagsRef<'_>> = bags.iter().map(BagsRef::from).collect();
            lock(&self.preparer).prepare(examples, &bags, None, purpose)
        });
        let prepared = prepared.map_err(failed)?;
        self.with(py, |session| session.feed_prepared(prepared).map_err(failed))
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
            let grain = examples.div_ceil(4 * self.pool.current_num_threads()).max(GRAIN);
            self.pool.install(|| {
                x.par_chunks_mut(grain * width.max(1)).enumerate().for_each(|(number, x)| {
                    let first = number * grain;
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

    /// Ends the step by the gradients of `x` and of distinct rows, by table.
    #[pyo3(signature = (d_x, d_rows))]
    fn push(
        &self,
        py: Python<'_>,
        d_x: Option<&Bound<'_, PyAny>>,
        d_rows: Vec<(usize, Bound<'_, PyAny>)>,
    ) -> PyResult<()> {
        let d_x = d_x.map(|d_x| Array::<f32>::of(d_x, "gradient")).transpose()?;
        let arrays = d_rows.iter().map(|(table, rows)| Ok((*table, Array::of(rows, "gradient")?)));
        let arrays = arrays.collect::<PyResult<Vec<_>>>()?;
        self.with_turn(py, |turn| {
            if !turn.trains() {
                return Err(wrong("the mini-batch was fed for an evaluation".to_owned()));
            }
            let lanes = turn.examples() * self.width;
            let zeros = vec![0.0; if d_x.is_none() { lanes } else { 0 }];
            let d_x = d_x.as_ref().map_or(&zeros[..], Array::elements);
            if d_x.len() != lanes {
                let given = d_x.len();
                return Err(wrong(format!("the gradient has {given} elements, not {lanes}")));
            }
            for (table, rows) in &arrays {
                self.check_table(*table)?;
                let wanted = turn.keys(*table).len() * self.dims[*table];
                let given = rows.elements().len();
                if given != wanted {
                    let of = format!("the gradient of the rows of table {table}");
                    return Err(wrong(format!("{of} has {given} elements, not {wanted}")));
                }
            }
            let d_rows: Vec<(usize, &[f32])> =
                arrays.iter().map(|(table, rows)| (*table, rows.elements())).collect();
            self.pool.install(|| turn.push_all(d_x, &[], &d_rows)).map_err(failed)
        })
    }

    fn set_learning_rate(&self, py: Python<'_>, table: usize, lr: f64) -> PyResult<()> {
        self.with(py, |session| session.set_learning_rate(table, lr).map_err(failed))
    }

    #[getter]
    fn steps(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |session| Ok(session.steps()))
    }

    fn save(
        &self,
        py: Python<'_>,
        directory: PathBuf,
        keep: usize,
        extra: &[u8],
    ) -> PyResult<PathBuf> {
        self.with(py, |session| session.save(&directory, keep, extra).map_err(failed))
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
        let Some(of) = self.features.get(feature) else {
            return Err(wrong(format!("there is no feature {feature}")));
        };
        let (ids, mut rows) = (Array::<i64>::of(ids, "ids")?, ArrayMut::of(rows, "rows")?);
        self.with(py, |session| {
            let mut keys = Vec::new();
            ids.elements().iter().for_each(|id| push_key(&mut keys, &of.namespace, *id));
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

    /// Ends the session and frees its memory and temporary files.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.check_process()?;
        py.detach(|| drop(lock(&self.session).take()));
        Ok(())
    }
}

impl Engine {
    fn check_table(&self, table: usize) -> PyResult<()> {
        let count = self.of_tables.len();
        if table < count { Ok(()) } else { Err(wrong(format!("there is no table {table}"))) }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if std::process::id() != self.process {
            // A child made by fork has no threads to join, and the files are its parent's. Another
            // thread may have had the lock at the fork.
            let session = self.session.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(session.take());
        }
    }
}
