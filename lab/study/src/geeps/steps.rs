//! Accesses of a deep model on a device: one list for both the application and the cost model.
//!
//! ```text
//!   forward  l   Read w[l]                v[l] (fetch)   v[l + 1] (save)
//!   backward l   Read w[l], PreUpdate     v[l] (fetch)   e[l + 1] (fetch)   e[l] (save)
//! ```
//!
//! Values v and their errors e are local data. Data that is overwritten isn't fetched, and data
//! that was only read isn't saved.

use stepwell_base::{Key, TableId};
use stepwell_geeps::{
    Access, Applies, Fetch, Geeps, Initial, LocalId, LocalSettings, Request, Result, Save,
    Settings, Staleness, TableSettings,
};

/// Examples of the mini-batch.
pub(super) const ROWS: usize = 192;
/// Columns of each layer's input, and the number of classes: nine hidden layers after an image of 7
/// x 7.
pub(super) const COLUMNS: [usize; 11] = [49, 96, 96, 96, 96, 96, 96, 96, 96, 96, 10];
/// Number of layers.
pub(super) const LAYERS: usize = COLUMNS.len() - 1;
/// Floats per row of parameters.
const ROW_FLOATS: usize = 96;

/// One access of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Accessed {
    Read(TableId),
    PreUpdate(TableId),
    Local(LocalId, Fetch, Save),
}

impl Accessed {
    /// Requests the data from a server.
    pub(super) fn ask(self, server: &Geeps, settings: &Settings) -> Result<Request> {
        let table = |table: TableId| &settings.tables[table.0 as usize].keys;
        match self {
            Self::Read(of) => server.read(of, table(of), Staleness::BSP),
            Self::PreUpdate(of) => server.pre_update(of, table(of)),
            Self::Local(local, fetch, _) => {
                server.local_access(local, &settings.locals[local.0 as usize].keys, fetch)
            }
        }
    }

    /// Releases the buffer.
    pub(super) fn give(self, server: &Geeps, access: Access) -> Result<()> {
        match self {
            Self::Read(_) => server.post_read(access),
            Self::PreUpdate(_) => server.update(access),
            Self::Local(_, _, save) => server.post_local_access(access, save),
        }
    }

    /// Number of floats.
    pub(super) fn floats(self, settings: &Settings) -> usize {
        let (keys, row_floats) = match self {
            Self::Read(table) | Self::PreUpdate(table) => {
                let of = &settings.tables[table.0 as usize];
                (&of.keys, of.row_floats)
            }
            Self::Local(local, ..) => {
                let of = &settings.locals[local.0 as usize];
                (&of.keys, of.row_floats)
            }
        };
        keys.len() * row_floats
    }
}

impl Step {
    /// Requests all buffers and waits for them.
    pub(super) fn acquire(&self, server: &Geeps, settings: &Settings) -> Result<Vec<Access>> {
        let asked = self.accesses.iter().map(|accessed| accessed.ask(server, settings));
        let asked = asked.collect::<Result<Vec<_>>>()?;
        asked.into_iter().map(Request::wait).collect()
    }

    /// Releases all buffers; a layer's updates are complete after its backward pass.
    pub(super) fn release(&self, server: &Geeps, held: Vec<Access>) -> Result<()> {
        let pairs = self.accesses.iter().zip(held);
        pairs.into_iter().try_for_each(|(accessed, access)| accessed.give(server, access))?;
        match (self.pass, self.accesses[0]) {
            (Pass::Backward(_), Accessed::Read(table)) => server.table_clock(table),
            _ => Ok(()),
        }
    }
}

/// Pass of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    Forward(usize),
    Backward(usize),
}

/// The work between acquiring buffers and releasing them.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) pass: Pass,
    /// Share of an iteration's time.
    pub(super) share: f64,
    pub(super) accesses: Vec<Accessed>,
}

/// Whether to fetch data that is overwritten anyway, and save data that was only read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Needless {
    pub(super) fetches: bool,
    pub(super) saves: bool,
}

/// Number of weights and biases of a layer.
pub(super) fn parameters(layer: usize) -> usize {
    COLUMNS[layer] * COLUMNS[layer + 1] + COLUMNS[layer + 1]
}

fn value(layer: usize) -> LocalId {
    LocalId(layer as u32)
}

fn error(layer: usize) -> LocalId {
    LocalId((LAYERS + layer) as u32)
}

/// The steps of an iteration.
pub(super) fn steps(needless: Needless) -> Vec<Step> {
    let flops: Vec<f64> = (0..LAYERS).map(|layer| parameters(layer) as f64).collect();
    // A backward pass multiplies twice.
    let all = 3.0 * flops.iter().sum::<f64>();
    let fetch = if needless.fetches { Fetch::Fetch } else { Fetch::NoFetch };
    let save = if needless.saves { Save::Save } else { Save::NoSave };
    let made = |local| Accessed::Local(local, fetch, Save::Save);
    let read = |local| Accessed::Local(local, Fetch::Fetch, save);
    let table = |layer: usize| TableId(layer as u32);
    let mut steps = Vec::new();
    for (layer, flops) in flops.iter().enumerate() {
        let input = if layer == 0 { made(value(0)) } else { read(value(layer)) };
        let mut accesses = vec![Accessed::Read(table(layer)), input];
        if layer + 1 == LAYERS {
            // The loss is computed immediately, so the logits aren't needed later.
            accesses.push(Accessed::Local(value(LAYERS), fetch, save));
            accesses.push(made(error(LAYERS)));
        } else {
            accesses.push(made(value(layer + 1)));
        }
        steps.push(Step { pass: Pass::Forward(layer), share: flops / all, accesses });
    }
    for layer in (0..LAYERS).rev() {
        let mut accesses = vec![Accessed::Read(table(layer)), Accessed::PreUpdate(table(layer))];
        accesses.extend([read(value(layer)), read(error(layer + 1))]);
        if layer > 0 {
            accesses.push(made(error(layer)));
        }
        let share = 2.0 * flops[layer] / all;
        steps.push(Step { pass: Pass::Backward(layer), share, accesses });
    }
    steps
}

/// Tables and local data of the model.
pub(super) fn data(seed: u64) -> Settings {
    let table = |layer: usize| TableSettings {
        name: format!("layer {layer}"),
        row_floats: ROW_FLOATS,
        keys: (0..parameters(layer).div_ceil(ROW_FLOATS) as u64).map(Key).collect(),
        initial: Initial::Uniform { seed, range: libm::sqrtf(6.0 / COLUMNS[layer] as f32) },
        applies: Applies::ByClock,
    };
    let local = |name: &str, layer: usize| LocalSettings {
        name: format!("{name} {layer}"),
        row_floats: COLUMNS[layer],
        keys: (0..ROWS as u64).map(Key).collect(),
    };
    let values = (0..=LAYERS).map(|layer| local("values", layer));
    let errors = (1..=LAYERS).map(|layer| local("errors", layer));
    Settings {
        tables: (0..LAYERS).map(table).collect(),
        locals: values.chain(errors).collect(),
        ..Settings::default()
    }
}

/// All data, each entry once, as read accesses.
pub(super) fn entries(settings: &Settings) -> impl Iterator<Item = Accessed> {
    let tables = (0..settings.tables.len() as u32).map(|table| Accessed::Read(TableId(table)));
    let local = |local| Accessed::Local(LocalId(local), Fetch::Fetch, Save::Save);
    tables.chain((0..settings.locals.len() as u32).map(local))
}
