//! Cost model: the duration of an iteration, from copied bytes and available buffers.
//!
//! - **How.** Accesses are served in order, as soon as there is space for a buffer. Copies up run
//!   sequentially, and so do copies down. A buffer is reused once the last operation on it is over.
//!   A layer starts when its data has arrived, and takes its given time.
//! - **Not modeled.** Wake-up times of threads, and all work of the host.

use std::collections::VecDeque;

use stepwell_device::emulated::Rate;
use stepwell_geeps::placement::Placement;
use stepwell_geeps::{Fetch, Save, Settings};

use super::steps::{Accessed, Step};

/// Iterations until the state is periodic.
const ITERATIONS: usize = 4;

/// Inputs of the model: a placement, and costs.
#[derive(Debug)]
pub(super) struct Costs<'a> {
    pub(super) settings: &'a Settings,
    pub(super) steps: &'a [Step],
    pub(super) placement: &'a Placement,
    pub(super) rate: Rate,
    pub(super) iteration_seconds: f64,
}

/// A buffer: its size, and when the last operation on it is over.
#[derive(Clone, Copy, Debug)]
struct Piece {
    bytes: u64,
    ready: f64,
    /// Local data that it still contains.
    saved: Option<usize>,
}

/// An access that was served.
#[derive(Clone, Copy, Debug)]
struct Served {
    /// `None` if pinned data is returned directly.
    piece: Option<Piece>,
    /// When the data is available.
    ready: f64,
}

#[derive(Debug)]
struct State<'a> {
    costs: &'a Costs<'a>,
    /// When copies up, copies down, and copies of refreshes are over.
    up: f64,
    down: f64,
    refresh: f64,
    /// When the last access was served.
    served: f64,
    used: u64,
    spares: Vec<Piece>,
    /// Buffers to be released, with the time.
    coming: VecDeque<(f64, Piece)>,
    /// When a table's cache has the last clock; when local data is released, and when it is saved.
    fresh: Vec<f64>,
    back: Vec<f64>,
    saved: Vec<f64>,
}

impl Costs<'_> {
    /// Seconds of an iteration.
    pub(super) fn seconds(&self) -> f64 {
        let (tables, locals) = (self.settings.tables.len(), self.settings.locals.len());
        let mut state = State {
            costs: self,
            up: 0.0,
            down: 0.0,
            refresh: 0.0,
            served: 0.0,
            used: 0,
            spares: Vec::new(),
            coming: VecDeque::new(),
            fresh: vec![0.0; tables],
            back: vec![0.0; locals],
            saved: vec![0.0; locals],
        };
        let (mut now, mut begin) = (0.0, 0.0);
        for _ in 0..ITERATIONS {
            begin = now;
            self.steps.iter().for_each(|step| now = state.step(step, now));
        }
        now - begin
    }

    fn bytes(&self, accessed: Accessed) -> u64 {
        (size_of::<f32>() * accessed.floats(self.settings)) as u64
    }

    fn copy(&self, bytes: u64) -> f64 {
        self.rate.latency.as_secs_f64() + bytes as f64 / self.rate.bytes_per_second
    }

    fn is_pinned(&self, accessed: Accessed) -> bool {
        let entry = match accessed {
            Accessed::Read(table) | Accessed::PreUpdate(table) => table.0 as usize,
            Accessed::Local(local, ..) => self.settings.tables.len() + local.0 as usize,
        };
        self.placement.pinned[entry]
    }
}

impl State<'_> {
    /// End of a step that the application could start at `now`.
    fn step(&mut self, step: &Step, now: f64) -> f64 {
        let serve = |accessed: &Accessed| (*accessed, self.serve(*accessed));
        let served: Vec<(Accessed, Served)> = step.accesses.iter().map(serve).collect();
        let begin = served.iter().fold(now, |begin, (_, served)| begin.max(served.ready));
        let over = begin + step.share * self.costs.iteration_seconds;
        served.into_iter().for_each(|(accessed, served)| self.give(accessed, served, over));
        over
    }

    fn serve(&mut self, accessed: Accessed) -> Served {
        let bytes = self.costs.bytes(accessed);
        let is_pinned = self.costs.is_pinned(accessed);
        match accessed {
            Accessed::Read(table) => {
                self.served = self.served.max(self.fresh[table.0 as usize]);
                let piece = self.take(bytes);
                let begin = self.up.max(self.served).max(piece.ready);
                self.up = begin + if is_pinned { 0.0 } else { self.costs.copy(bytes) };
                Served { piece: Some(piece), ready: self.up }
            }
            Accessed::PreUpdate(_) => {
                let piece = self.take(bytes);
                self.up = self.up.max(self.served).max(piece.ready);
                Served { piece: Some(piece), ready: self.up }
            }
            Accessed::Local(local, fetch, _) => {
                let local = local.0 as usize;
                self.served = self.served.max(self.back[local]);
                if is_pinned {
                    return Served { piece: None, ready: self.served };
                }
                if fetch == Fetch::Fetch
                    && let Some(piece) = self.take_saved(local)
                {
                    let ready = self.served.max(piece.ready);
                    return Served { piece: Some(piece), ready };
                }
                let piece = self.take(bytes);
                let mut ready = self.served.max(piece.ready);
                if fetch == Fetch::Fetch {
                    ready = ready.max(self.up).max(self.saved[local]) + self.costs.copy(bytes);
                    self.up = ready;
                }
                Served { piece: Some(piece), ready }
            }
        }
    }

    /// The buffer that still contains local data, if any.
    fn take_saved(&mut self, local: usize) -> Option<Piece> {
        self.come(0);
        let has = |piece: &Piece| piece.saved == Some(local);
        let at = self.spares.iter().position(has).filter(|_| self.costs.settings.hands_over)?;
        let piece = self.spares.remove(at);
        self.used += piece.bytes;
        Some(Piece { saved: None, ..piece })
    }

    /// Returns buffers that have been released, and further ones until there is space.
    fn come(&mut self, bytes: u64) {
        let room = self.costs.placement.buffer_bytes;
        while let Some((at, piece)) = self.coming.front().copied() {
            if at > self.served && self.used + bytes <= room {
                break;
            }
            self.coming.pop_front();
            self.served = self.served.max(at);
            self.used -= piece.bytes;
            self.spares.push(piece);
        }
    }

    /// Allocates a buffer, as soon as there is space.
    fn take(&mut self, bytes: u64) -> Piece {
        let room = self.costs.placement.buffer_bytes;
        self.come(bytes);
        self.used += bytes;
        // Buffers with useful contents are reused last.
        let fits = |piece: &Piece| piece.bytes == bytes;
        let empty = self.spares.iter().rposition(|piece| fits(piece) && piece.saved.is_none());
        if let Some(at) = empty.or_else(|| self.spares.iter().rposition(fits)) {
            return Piece { saved: None, ..self.spares.remove(at) };
        }
        let kept = |spares: &[Piece]| spares.iter().map(|piece| piece.bytes).sum::<u64>();
        let mut ready = self.served;
        while self.used + kept(&self.spares) > room && !self.spares.is_empty() {
            // Frees the buffer that is available first.
            let first = (0..self.spares.len())
                .min_by(|a, b| self.spares[*a].ready.total_cmp(&self.spares[*b].ready));
            ready = ready.max(self.spares.swap_remove(first.unwrap_or(0)).ready);
        }
        self.served = self.served.max(ready);
        Piece { bytes, ready, saved: None }
    }

    fn give(&mut self, accessed: Accessed, served: Served, over: f64) {
        let bytes = self.costs.bytes(accessed);
        let mut ready = over;
        let is_copied =
            matches!(accessed, Accessed::PreUpdate(_) | Accessed::Local(_, _, Save::Save));
        if is_copied && served.piece.is_some() {
            ready = self.down.max(over) + self.costs.copy(bytes);
            self.down = ready;
        }
        match accessed {
            Accessed::PreUpdate(table) => {
                let mut fresh = ready;
                if self.costs.is_pinned(accessed) {
                    fresh = self.refresh.max(ready) + self.costs.copy(bytes);
                    self.refresh = fresh;
                }
                self.fresh[table.0 as usize] = fresh;
            }
            Accessed::Local(local, ..) => {
                self.back[local.0 as usize] = over;
                self.saved[local.0 as usize] = self.saved[local.0 as usize].max(ready);
            }
            Accessed::Read(_) => {}
        }
        if let Some(piece) = served.piece {
            let saved = match accessed {
                Accessed::Local(local, _, Save::Save) => Some(local.0 as usize),
                _ => None,
            };
            self.coming.push_back((over, Piece { ready, saved, ..piece }));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::memory::place;
    use super::super::steps::{Needless, data, steps};
    use super::*;

    #[test]
    fn copies_cost_nothing_at_any_speed_and_all_of_it_at_none() -> crate::Result<()> {
        let (settings, steps) = (data(1), steps(Needless::default()));
        let seconds = |pins, budget_bytes, bytes_per_second| {
            let limited = Settings { pins, budget_bytes, ..settings.clone() };
            let placement = &place(&limited, &steps)?;
            let rate = Rate { bytes_per_second, latency: Duration::ZERO };
            let (settings, steps) = (&settings, &steps[..]);
            let costs = Costs { settings, steps, placement, rate, iteration_seconds: 2.0 };
            Ok::<_, crate::Error>(costs.seconds())
        };
        let (little, all) = (600_000, 1 << 30);
        assert!((seconds(false, little, 1e15)? - 2.0).abs() < 1e-6);
        assert!((seconds(true, all, 1e9)? - 2.0).abs() < 0.01);
        // About 3 MB per iteration, in both directions concurrently.
        let slow = seconds(false, little, 1e5)?;
        assert!(slow > 15.0 && slow < 40.0, "{slow}");
        assert!(seconds(true, 1_200_000, 1e6)? < seconds(false, 1_200_000, 1e6)?);
        Ok(())
    }
}
