//! Streams of ordered operations.

use std::ops::Range;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytemuck::Pod;
use stepwell_kernels::{Kernel, Kind as KernelKind};

use crate::access::{Access, Mode, Touched};
use crate::capture::Capture;
use crate::check::{Actor, Clash, Place};
use crate::device::Device;
use crate::driver::{Keeps, Operation, What};
use crate::event::Event;
use crate::launch::Arg;
use crate::memory::{Buffer, Flight, Kind, Pinned, Region};
use crate::product::{Product, Shape};
use crate::shared::Shared;
use crate::{Error, Result};

/// Maximum number of blocks of lanes in a launch; with more items, threads process several.
const BLOCKS_MAX: usize = 16 * 1024;

/// Start of a product's matrices: a buffer and the index of an element.
pub type Matrices<'a> = (&'a Buffer<f32>, usize);

/// Operations that run in order, concurrently with other streams.
#[derive(Debug)]
pub struct Stream {
    pub(crate) device: Arc<Shared>,
    pub(crate) number: u64,
    pub(crate) name: &'static str,
    actor: Actor,
    /// Collects operations while they are captured.
    captures: Mutex<Option<Capture>>,
    /// Memory for products of this stream, allocated by the first one.
    workspace: OnceLock<Arc<Region>>,
}

impl Device {
    /// Creates a stream; messages contain its name.
    ///
    /// # Errors
    /// If the device refuses.
    pub fn stream(&self, name: &'static str) -> Result<Stream> {
        Stream::new(Arc::clone(&self.0), name)
    }
}

impl Stream {
    pub(crate) fn new(device: Arc<Shared>, name: &'static str) -> Result<Self> {
        let number = device.driver.stream(name)?;
        let actor = device.checker.as_ref().map_or(Actor::HOST, |checker| checker.actor(name));
        let (captures, workspace) = (Mutex::default(), OnceLock::new());
        Ok(Self { device, number, name, actor, captures, workspace })
    }

    /// Name for messages.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Copies elements `range` of `from` to `to`, from element `at` on.
    ///
    /// # Errors
    /// Earlier failures, and unordered accesses.
    #[track_caller]
    pub fn up<T: Pod>(
        &self,
        from: &Pinned<T>,
        range: Range<usize>,
        to: &Buffer<T>,
        at: usize,
    ) -> Result<()> {
        let into = to.bytes(at..at + range.len());
        let ends = [(&from.region, from.bytes(range)), (&to.region, into)];
        let up = |[from, to]: [u64; 2], bytes| What::Up { from, to, bytes };
        self.copy(up, ends, Some(from.fly(Mode::Read)), self.place("copy up"))
    }

    /// Copies elements `range` of `from` to `to`, from element `at` on.
    ///
    /// # Errors
    /// As for [`Stream::up`].
    #[track_caller]
    pub fn down<T: Pod>(
        &self,
        from: &Buffer<T>,
        range: Range<usize>,
        to: &Pinned<T>,
        at: usize,
    ) -> Result<()> {
        let into = to.bytes(at..at + range.len());
        let ends = [(&from.region, from.bytes(range)), (&to.region, into)];
        let down = |[from, to]: [u64; 2], bytes| What::Down { from, to, bytes };
        self.copy(down, ends, Some(to.fly(Mode::Write)), self.place("copy down"))
    }

    /// Copies elements `range` of `from`, on any device, to `to` on this device, from element `at`
    /// on.
    ///
    /// # Errors
    /// As for [`Stream::up`].
    #[track_caller]
    pub fn across<T: Pod>(
        &self,
        from: &Buffer<T>,
        range: Range<usize>,
        to: &Buffer<T>,
        at: usize,
    ) -> Result<()> {
        let into = to.bytes(at..at + range.len());
        let ends = [(&from.region, from.bytes(range)), (&to.region, into)];
        let from_device = from.region.device.driver.about().number;
        let across = |[from, to]: [u64; 2], bytes| What::Across { from, from_device, to, bytes };
        self.copy(across, ends, None, self.place("copy across"))
    }

    /// Copies the bytes of the first of `ends` to the second; `flight` is set if one is pinned
    /// memory.
    fn copy(
        &self,
        what: impl FnOnce([u64; 2], usize) -> What,
        ends: [(&Arc<Region>, Range<usize>); 2],
        flight: Option<Flight>,
        place: Place,
    ) -> Result<()> {
        let bytes = ends[0].1.len();
        let addresses = [0, 1].map(|end: usize| ends[end].0.address + ends[end].1.start as u64);
        let mut keeps: Keeps = ends.iter().map(|(region, _)| Arc::clone(region) as _).collect();
        keeps.extend(flight.map(|flight| Arc::new(flight) as _));
        let [(from, read), (to, written)] = ends;
        let accesses = [
            from.access(Mode::Read, Touched::Bytes(read)),
            to.access(Mode::Write, Touched::Bytes(written)),
        ];
        self.submit(what(addresses, bytes), keeps, &accesses, place)
    }

    /// Sets elements `range` of `to` to zero bytes.
    ///
    /// # Errors
    /// As for [`Stream::up`].
    #[track_caller]
    pub fn clear<T: Pod>(&self, to: &Buffer<T>, range: Range<usize>) -> Result<()> {
        let into = to.bytes(range);
        let address = to.region.address + into.start as u64;
        let what = What::Fill { to: address, bytes: into.len(), with: 0 };
        let accesses = [to.region.access(Mode::Write, Touched::Bytes(into))];
        self.submit(what, vec![Arc::clone(&to.region) as _], &accesses, self.place("clear"))
    }

    /// Launches `kernel` with a thread for each of `items`, up to the maximum grid, or, for kernels
    /// whose threads synchronize, with a block for each; does nothing without items.
    ///
    /// # Errors
    /// As for [`Stream::up`].
    ///
    /// # Panics
    /// If arguments don't match the kernel's parameters.
    #[track_caller]
    pub fn launch(&self, kernel: &'static Kernel, items: usize, args: Vec<Arg<'_>>) -> Result<()> {
        if items == 0 {
            return Ok(());
        }
        let (what, keeps, accesses) = bind(kernel, items, args);
        self.submit(what, keeps, &accesses, self.place(kernel.name))
    }

    /// Multiplies matrices that begin at elements of `left`, `right` and `into`; the first product
    /// of a stream allocates memory for intermediate results from the device's pool.
    ///
    /// # Errors
    /// As for [`Stream::up`], and if there is no room.
    ///
    /// # Panics
    /// If matrices exceed their buffers, rows or results overlap, or the result overlaps an
    /// operand.
    #[track_caller]
    pub fn product(
        &self,
        product: &Product,
        left: Matrices<'_>,
        right: Matrices<'_>,
        into: Matrices<'_>,
    ) -> Result<()> {
        product.check();
        let target = into;
        let spans = product.spans();
        let parts = [(left, spans[0]), (right, spans[1]), (into, spans[2])];
        let parts = parts.map(|((buffer, at), span)| (&buffer.region, buffer.bytes(at..at + span)));
        let [left, right, into] = parts;
        for (region, range) in [&left, &right] {
            let overlap = range.start < into.1.end && into.1.start < range.end;
            assert!(region.id != into.0.id || !overlap, "a result overlaps operands: {product:?}");
        }
        if product.is_empty() {
            return Ok(());
        }
        if product.shape.depth == 0 {
            // An empty sum.
            let Shape { batches, rows, columns, .. } = product.shape;
            let starts = (0..batches).flat_map(|batch| (0..rows).map(move |row| (batch, row)));
            return starts
                .map(|(batch, row)| target.1 + product.into.at(batch, row, 0))
                .try_for_each(|start| self.clear(target.0, start..start + columns));
        }
        let workspace = self.workspace()?;
        let address =
            |(region, range): &(&Arc<Region>, Range<usize>)| region.address + range.start as u64;
        let what = What::Product {
            product: Box::new(*product),
            left: address(&left),
            right: address(&right),
            into: address(&into),
            workspace: workspace.address,
        };
        let accesses = [(&left, Mode::Read), (&right, Mode::Read), (&into, Mode::Write)]
            .map(|((region, range), mode)| region.access(mode, Touched::Bytes(range.clone())));
        let keeps = [left.0, right.0, into.0, &workspace].map(|region| Arc::clone(region) as _);
        self.submit(what, keeps.into(), &accesses, self.place("product"))
    }

    fn workspace(&self) -> Result<Arc<Region>> {
        if let Some(workspace) = self.workspace.get() {
            return Ok(Arc::clone(workspace));
        }
        let bytes = self.device.driver.workspace_bytes()?;
        let device = Device(Arc::clone(&self.device));
        let region = device.region(Some(bytes), "products of a stream", Kind::Device)?;
        // The first thread wins.
        Ok(Arc::clone(self.workspace.get_or_init(|| region)))
    }

    /// Records `event` after all operations submitted so far.
    ///
    /// # Errors
    /// As for [`Stream::up`].
    pub fn record(&self, event: &Event) -> Result<()> {
        self.assert_not_captured();
        self.device.driver.record(self.number, event.number)?;
        if let Some(checker) = &self.device.checker {
            *event.clock() = Some(checker.record(self.actor));
        }
        Ok(())
    }

    /// Makes later operations of this stream wait for the last recording of `event`.
    ///
    /// # Errors
    /// As for [`Stream::up`].
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.assert_not_captured();
        self.device.driver.wait_in(self.number, event.number)?;
        if let (Some(checker), Some(clock)) = (&self.device.checker, &*event.clock()) {
            checker.stream_waited(self.actor, clock);
        }
        Ok(())
    }

    /// Waits until all operations submitted so far are over.
    ///
    /// # Errors
    /// Failures of these operations.
    pub fn finish(&self) -> Result<()> {
        let event = Event::new(Arc::clone(&self.device))?;
        self.record(&event)?;
        event.wait()
    }

    #[track_caller]
    fn place(&self, what: &'static str) -> Place {
        Place { what, stream: self.name, at: Location::caller() }
    }

    fn submit(&self, what: What, keeps: Keeps, accesses: &[Access], place: Place) -> Result<()> {
        if let Some(capture) = &mut *self.capturing() {
            capture.add(what, keeps, accesses, place);
            return Ok(());
        }
        self.check(accesses, &keeps, place)?;
        self.device.driver.submit(self.number, Operation { what, keeps })
    }

    /// Records `accesses` if they are ordered.
    pub(crate) fn check(&self, accesses: &[Access], keeps: &Keeps, place: Place) -> Result<()> {
        let Some(checker) = &self.device.checker else { return Ok(()) };
        checker.operation(self.actor, accesses, place).map_err(|clash| Error::Unordered {
            device: self.device.name().to_owned(),
            what: touched(&clash, keeps),
            later: place.to_string(),
            earlier: clash.earlier.to_string(),
        })
    }

    pub(crate) fn capturing(&self) -> MutexGuard<'_, Option<Capture>> {
        self.captures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn assert_not_captured(&self) {
        assert!(self.capturing().is_none(), "events of stream {} while it is captured", self.name);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.device.driver.end_stream(self.number);
    }
}

/// The memory that both accesses of `clash` touch; the later one's operation has `keeps`.
fn touched(clash: &Clash, keeps: &Keeps) -> String {
    let mut regions = keeps.iter().filter_map(|kept| kept.downcast_ref::<Region>());
    let what = regions.find(|region| region.id == clash.region).map(|region| region.what);
    format!("byte {} of {}", clash.byte, what.unwrap_or("memory"))
}

/// Makes a launch of `kernel` with its arguments.
fn bind(kernel: &'static Kernel, items: usize, args: Vec<Arg<'_>>) -> (What, Keeps, Vec<Access>) {
    assert_eq!(args.len(), kernel.params.len(), "arguments of kernel {}", kernel.name);
    let (mut accesses, mut keeps) = (Vec::new(), Keeps::new());
    let bind = |(arg, param): (Arg<'_>, _)| arg.bind(kernel.name, param, &mut accesses, &mut keeps);
    let values = args.into_iter().zip(kernel.params).map(bind).collect();
    let (blocks, threads) = match kernel.kind {
        KernelKind::Lanes => {
            let threads = KernelKind::LANES_THREADS_MAX;
            (items.div_ceil(threads as usize).clamp(1, BLOCKS_MAX), threads)
        }
        KernelKind::Block { threads } => (items, threads),
    };
    let fits = u32::try_from(blocks).ok().filter(|blocks| *blocks <= i32::MAX as u32);
    let Some(blocks) = fits else { panic!("kernel {}: {blocks} blocks", kernel.name) };
    let shared_bytes = 0;
    (What::Launch { kernel, blocks, threads, shared_bytes, values }, keeps, accesses)
}
