//! Memory of a device, and the streams that move data while others compute.
//!
//! ```text
//!   up       caches, swapped-out data ──► access buffers       (allocator)
//!   down     access buffers ──► swapped-out data, updates      (reclaimer)
//!   refresh  rows of shards ──► pinned caches                  (puller)
//! ```
//!
//! - **Order.** Memory used by operations has a list of events; an operation's stream waits for all
//!   of them, and then the operation's event replaces them. The application does the same with its
//!   own stream: [`crate::Access::on`], [`crate::Access::done_on`].
//! - **Staging.** Values from or for the host go through pinned memory, kept by size: there are at
//!   most [`STAGED_MAX`] pieces of a size, and the next one waits.

use std::sync::Arc;

use stepwell_device::{Arg, Buffer, Device, Error as DeviceError, Event, Pinned, Stream};

use super::{Moved, host};
use crate::Result;
use crate::hazard_rules::{Rule, Rules};
use crate::layout::{Chosen, Index};

/// The most pieces of staging memory of a size.
pub(crate) const STAGED_MAX: usize = 4;

/// A piece with this many events drops the ones that are over. The application's streams bound the
/// number of the others by the operations that they hold.
const EVENTS_MAX: usize = 8;

/// An access buffer, or pinned data, of a device.
#[derive(Debug)]
pub(crate) struct DevicePiece {
    pub(crate) buffer: Buffer<f32>,
    /// Events to wait for before it is used.
    pub(crate) after: Vec<Arc<Event>>,
}

impl DevicePiece {
    pub(crate) fn floats(&self) -> usize {
        self.buffer.len()
    }

    /// Records a use until `event`. Completed events need not be waited for.
    pub(crate) fn add(&mut self, event: Arc<Event>) -> Result<()> {
        if self.after.len() >= EVENTS_MAX {
            let mut left = Vec::new();
            for event in self.after.drain(..) {
                if !event.is_over()? {
                    left.push(event);
                }
            }
            self.after = left;
        }
        self.after.push(event);
        Ok(())
    }

    pub(crate) fn under_way(&self) -> Result<Option<Arc<Event>>> {
        first_under_way(&self.after)
    }
}

fn first_under_way(events: &[Arc<Event>]) -> Result<Option<Arc<Event>>> {
    for event in events {
        if !event.is_over()? {
            return Ok(Some(Arc::clone(event)));
        }
    }
    Ok(None)
}

/// Local data in memory of the host.
#[derive(Debug)]
pub(crate) struct Swap {
    memory: Pinned<f32>,
    after: Vec<Arc<Event>>,
}

/// Values on their way to or from the host.
#[derive(Debug)]
pub(crate) struct Staged {
    memory: Pinned<f32>,
    /// Event of the last operation that uses it.
    event: Arc<Event>,
}

impl Staged {
    pub(crate) fn event(&self) -> &Arc<Event> {
        &self.event
    }

    /// The values, once its event is over.
    pub(crate) fn values(&mut self) -> Result<&[f32]> {
        let floats = self.memory.len();
        Ok(self.memory.read(floats)?)
    }
}

/// A device, with separate streams.
#[derive(Debug)]
pub(crate) struct DeviceMemory {
    device: Device,
    rules: Rules,
    batched: bool,
    up: Stream,
    down: Stream,
    refresh: Stream,
    /// Staging memory that is not in use.
    kept: Vec<Staged>,
    /// Events of staging memory that the reclaimer holds.
    lent: Vec<Arc<Event>>,
}

impl DeviceMemory {
    pub(crate) fn new(device: &Device, batched: bool, rules: Rules) -> Result<Self> {
        let stream = |name| device.stream(name);
        Ok(Self {
            device: device.clone(),
            rules,
            batched,
            up: stream("geeps up")?,
            down: stream("geeps down")?,
            refresh: stream("geeps refresh")?,
            kept: Vec::new(),
            lent: Vec::new(),
        })
    }

    pub(super) fn piece(&self, floats: usize) -> Result<DevicePiece> {
        let buffer = self.device.buffer(floats, "access buffers and pinned data")?;
        Ok(DevicePiece { buffer, after: Vec::new() })
    }

    pub(super) fn swap(&self, floats: usize) -> Result<Swap> {
        let memory = self.device.pinned(floats, "local data that is not pinned")?;
        Ok(Swap { memory, after: Vec::new() })
    }

    pub(super) fn clear(&mut self, to: &mut DevicePiece) -> Result<()> {
        self.begin(&self.up, &to.after)?;
        self.up.clear(&to.buffer, 0..to.floats())?;
        to.after = vec![self.end(&self.up)?];
        Ok(())
    }

    /// Makes `stream` wait for these events before it uses their memory.
    fn begin(&self, stream: &Stream, after: &[Arc<Event>]) -> Result<()> {
        if self.rules.hold(Rule::EventBeforeReuse) {
            after.iter().try_for_each(|event| stream.wait(event))?;
        }
        Ok(())
    }

    /// The event of all operations that `stream` has so far.
    fn end(&self, stream: &Stream) -> Result<Arc<Event>> {
        let event = self.device.event()?;
        stream.record(&event)?;
        Ok(Arc::new(event))
    }

    /// Copies rows of a cache on the host, through staging.
    pub(super) fn raise(
        &mut self,
        from: &[f32],
        chosen: Chosen<'_>,
        to: &mut DevicePiece,
    ) -> Result<Moved> {
        let mut memory = match self.staging(chosen.floats())? {
            Moved::Now(memory) => memory,
            Moved::Busy(event) => return Ok(Moved::Busy(event)),
        };
        let floats = memory.len();
        host::gather(from, chosen, memory.write(floats)?, self.batched);
        self.begin(&self.up, &to.after)?;
        self.up.up(&memory, 0..floats, &to.buffer, 0)?;
        let event = self.end(&self.up)?;
        to.after = vec![Arc::clone(&event)];
        self.kept.push(Staged { memory, event });
        Ok(Moved::Now(()))
    }

    pub(super) fn swap_in(
        &mut self,
        from: &mut Swap,
        chosen: Chosen<'_>,
        to: &mut DevicePiece,
    ) -> Result<()> {
        let stream = &self.up;
        self.begin(stream, &from.after)?;
        self.begin(stream, &to.after)?;
        for RowSpan { at, place, floats } in spans(chosen, self.batched) {
            stream.up(&from.memory, place..place + floats, &to.buffer, at)?;
        }
        self.used_by(stream, [&mut from.after, &mut to.after])
    }

    pub(super) fn swap_out(
        &mut self,
        from: &mut DevicePiece,
        chosen: Chosen<'_>,
        to: &mut Swap,
    ) -> Result<()> {
        let stream = &self.down;
        self.begin(stream, &from.after)?;
        self.begin(stream, &to.after)?;
        for RowSpan { at, place, floats } in spans(chosen, self.batched) {
            stream.down(&from.buffer, at..at + floats, &to.memory, place)?;
        }
        self.used_by(stream, [&mut from.after, &mut to.after])
    }

    /// Copies rows of pinned data, by a kernel if it has an index.
    pub(super) fn gather(
        &mut self,
        from: &mut DevicePiece,
        chosen: Chosen<'_>,
        to: &mut DevicePiece,
    ) -> Result<()> {
        let stream = &self.up;
        self.begin(stream, &from.after)?;
        self.begin(stream, &to.after)?;
        let row = chosen.row_floats() as u32;
        match &chosen.index.on_device {
            Some(places) if self.batched && !chosen.index.is_whole => {
                let args = vec![
                    Arg::all(&from.buffer),
                    Arg::all(&to.buffer),
                    Arg::all(places),
                    Arg::u64(0),
                    Arg::u32(0),
                    Arg::u32(chosen.index.places.len() as u32),
                    Arg::u32(row),
                ];
                stream.launch(stepwell_kernels::named("rows_down"), to.floats(), args)?;
            }
            _ => {
                for RowSpan { at, place, floats } in spans(chosen, self.batched) {
                    stream.across(&from.buffer, place..place + floats, &to.buffer, at)?;
                }
            }
        }
        self.used_by(stream, [&mut from.after, &mut to.after])
    }

    /// Copies rows into pinned data that was accessed in part.
    pub(super) fn scatter(
        &mut self,
        from: &mut DevicePiece,
        chosen: Chosen<'_>,
        to: &mut DevicePiece,
    ) -> Result<()> {
        let stream = &self.down;
        self.begin(stream, &from.after)?;
        self.begin(stream, &to.after)?;
        for RowSpan { at, place, floats } in spans(chosen, self.batched) {
            stream.across(&from.buffer, at..at + floats, &to.buffer, place)?;
        }
        self.used_by(stream, [&mut from.after, &mut to.after])
    }

    pub(super) fn refresh(
        &mut self,
        to: &mut DevicePiece,
        at: usize,
        values: &[f32],
    ) -> Result<Moved> {
        let mut memory = match self.staging(values.len())? {
            Moved::Now(memory) => memory,
            Moved::Busy(event) => return Ok(Moved::Busy(event)),
        };
        memory.write(values.len())?.copy_from_slice(values);
        self.begin(&self.refresh, &to.after)?;
        self.refresh.up(&memory, 0..values.len(), &to.buffer, at)?;
        let event = self.end(&self.refresh)?;
        to.after = vec![Arc::clone(&event)];
        self.kept.push(Staged { memory, event });
        Ok(Moved::Now(()))
    }

    pub(super) fn lower(&mut self, from: &mut DevicePiece) -> Result<Moved<Staged>> {
        let memory = match self.staging(from.floats())? {
            Moved::Now(memory) => memory,
            Moved::Busy(event) => return Ok(Moved::Busy(event)),
        };
        self.begin(&self.down, &from.after)?;
        self.down.down(&from.buffer, 0..from.floats(), &memory, 0)?;
        let event = self.end(&self.down)?;
        from.after = vec![Arc::clone(&event)];
        self.lent.push(Arc::clone(&event));
        Ok(Moved::Now(Staged { memory, event }))
    }

    pub(super) fn give_back(&mut self, staged: Staged) {
        self.lent.retain(|event| !Arc::ptr_eq(event, &staged.event));
        self.kept.push(staged);
    }

    /// Records that both are used until the operations of `stream` are over.
    fn used_by(&self, stream: &Stream, lists: [&mut Vec<Arc<Event>>; 2]) -> Result<()> {
        let event = self.end(stream)?;
        lists.into_iter().for_each(|list| *list = vec![Arc::clone(&event)]);
        Ok(())
    }

    /// Host memory for `floats` floats that no operation uses.
    fn staging(&mut self, floats: usize) -> Result<Moved<Pinned<f32>>> {
        let mut same = (0, None);
        for at in 0..self.kept.len() {
            let Staged { memory, event } = &self.kept[at];
            if memory.len() != floats {
                continue;
            }
            if event.is_over()? {
                return Ok(Moved::Now(self.kept.swap_remove(at).memory));
            }
            same = (same.0 + 1, same.1.or_else(|| Some(Arc::clone(event))));
        }
        if let (STAGED_MAX.., Some(event)) = same {
            return Ok(Moved::Busy(event));
        }
        loop {
            match self.device.pinned(floats, "values between host and device") {
                Ok(memory) => return Ok(Moved::Now(memory)),
                Err(error @ DeviceError::OutOfMemory { .. }) => {
                    if let Some(event) = self.make_room(error)? {
                        return Ok(Moved::Busy(event));
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Frees memory that no operation uses; else returns the event of one; else there is no room.
    fn make_room(&mut self, full: DeviceError) -> Result<Option<Arc<Event>>> {
        for at in 0..self.kept.len() {
            if self.kept[at].event.is_over()? {
                self.kept.swap_remove(at);
                return Ok(None);
            }
        }
        let kept = self.kept.iter().map(|staged| &staged.event);
        match kept.chain(&self.lent).next() {
            Some(event) => Ok(Some(Arc::clone(event))),
            None => Err(full.into()),
        }
    }

    pub(super) fn raise_index(&mut self, index: &mut Index) -> Result<()> {
        if index.is_whole || index.on_device.is_some() {
            return Ok(());
        }
        let count = index.places.len();
        let mut memory = self.device.pinned::<u32>(count, "an index in transit")?;
        memory.write(count)?.copy_from_slice(&index.places);
        let buffer = self.device.buffer::<u32>(count, "indexes")?;
        self.up.up(&memory, 0..count, &buffer, 0)?;
        self.up.finish()?;
        index.on_device = Some(Arc::new(buffer));
        Ok(())
    }

    pub(super) fn event(&self) -> Result<Event> {
        Ok(self.device.event()?)
    }

    pub(super) fn finish(&self) -> Result<()> {
        Ok([&self.up, &self.down, &self.refresh].into_iter().try_for_each(Stream::finish)?)
    }
}

/// Adjacent rows, in floats.
struct RowSpan {
    /// Place in a buffer.
    at: usize,
    /// Place in a store.
    place: usize,
    floats: usize,
}

/// The chosen rows, as spans of adjacent ones if `batched`.
fn spans(chosen: Chosen<'_>, batched: bool) -> Vec<RowSpan> {
    let row = chosen.row_floats();
    let mut spans: Vec<RowSpan> = Vec::new();
    for at in 0..chosen.index.places.len() {
        let place = chosen.index.places[at] as usize * row;
        match spans.last_mut() {
            Some(span) if batched && span.place + span.floats == place => span.floats += row,
            _ => spans.push(RowSpan { at: at * row, place, floats: row }),
        }
    }
    spans
}
