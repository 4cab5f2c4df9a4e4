//! A machine's emulated devices, and faults for tests.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use stepwell_base::NO_THREAD;

use super::events::Events;
use super::memory::{self, Content};
use super::run::Failed;
use super::stream::{StreamState, Work};
use super::{Settings, Time};
use crate::check::Checker;
use crate::device::Device;
use crate::driver::About;
use crate::driver::{Driver, Operation, What};
use crate::{Error, Result};

/// Maximum number of steps made when a caller asks whether an event is over.
const STEPS_ASKED_MAX: u64 = 4;

/// Emulated devices in one process.
#[derive(Debug)]
pub struct Machine {
    inner: Arc<Inner>,
    devices: Vec<Device>,
}

/// State shared by the devices of a machine.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) settings: Settings,
    pub(super) devices: Vec<DeviceState>,
    /// Current state of the random numbers.
    pub(super) drawn: AtomicU64,
    streams: Mutex<Vec<(usize, Arc<StreamState>)>>,
    events: Events,
    threads: Mutex<HashMap<u64, JoinHandle<()>>>,
    last_stream: AtomicU64,
}

/// State of one device.
#[derive(Debug)]
pub(super) struct DeviceState {
    pub(super) about: About,
    failed: Mutex<Option<Error>>,
    /// A kernel that must fail, and after how many launches.
    fault: Mutex<Option<(&'static str, u64)>>,
}

impl DeviceState {
    pub(super) fn failure(&self) -> Option<Error> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn fail(&self, error: Error) {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    /// The failure of `what` that a test requested, if any.
    pub(super) fn fault_for(&self, what: &What) -> Option<Failed> {
        let What::Launch { kernel, .. } = what else { return None };
        let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        let (name, left) = fault.as_mut()?;
        if *name != kernel.name {
            return None;
        }
        if *left > 0 {
            *left -= 1;
            return None;
        }
        Some((kernel.name, "an illegal memory access was encountered".to_owned()))
    }
}

impl Machine {
    /// A machine with these settings.
    pub fn new(settings: Settings) -> Self {
        let about = |number: usize| About {
            name: format!("emulated:{number}"),
            model: "emulated on the processor".to_owned(),
            number,
            memory_bytes: settings.memory_bytes,
            processors: settings.workers as u32,
        };
        let device = |number| DeviceState {
            about: about(number),
            failed: Mutex::default(),
            fault: Mutex::default(),
        };
        let (memory, pinned) = (settings.memory_bytes, settings.pinned_bytes);
        let inner = Arc::new(Inner {
            devices: (0..settings.devices).map(device).collect(),
            drawn: AtomicU64::new(settings.seed),
            settings,
            streams: Mutex::default(),
            events: Events::default(),
            threads: Mutex::default(),
            last_stream: AtomicU64::new(0),
        });
        let checker = Arc::new(Checker::new());
        let device = |number: usize| {
            let driver = OneDevice { machine: Arc::clone(&inner), number };
            Device::new(Arc::new(driver), memory, pinned, Some(Arc::clone(&checker)))
        };
        let devices = (0..inner.devices.len()).map(device).collect();
        Self { inner, devices }
    }

    /// The devices.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Makes device `number` fail as lost.
    pub fn lose(&self, number: usize) {
        let state = &self.inner.devices[number];
        let why = "it has fallen off the bus".to_owned();
        state.fail(Error::Lost { device: state.about.name.clone(), why });
    }

    /// Makes a launch of `kernel` on device `number` fail, after `launches` more.
    pub fn fail_launch(&self, number: usize, kernel: &'static str, launches: u64) {
        let fault = &self.inner.devices[number].fault;
        *fault.lock().unwrap_or_else(PoisonError::into_inner) = Some((kernel, launches));
    }
}

impl Inner {
    pub(super) fn streams(&self) -> MutexGuard<'_, Vec<(usize, Arc<StreamState>)>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stream(&self, number: u64) -> Arc<StreamState> {
        let streams = self.streams();
        let stream = streams.iter().find(|(_, stream)| stream.number == number);
        stream.map_or_else(|| panic!("no stream {number}"), |(_, stream)| Arc::clone(stream))
    }

    pub(super) fn has_threads(&self) -> bool {
        self.settings.time == Time::Threads
    }
}

/// One device of a machine.
#[derive(Debug)]
struct OneDevice {
    machine: Arc<Inner>,
    number: usize,
}

impl OneDevice {
    fn state(&self) -> &DeviceState {
        &self.machine.devices[self.number]
    }

    fn alive(&self) -> Result<()> {
        self.state().failure().map_or(Ok(()), Err)
    }

    fn push(&self, stream: u64, mut work: Work) {
        let stream = self.machine.stream(stream);
        if self.machine.has_threads() {
            return stream.push(work);
        }
        while let Err(full) = stream.try_push(work) {
            work = full;
            assert!(self.machine.step(), "stream '{}' is full and waits forever", stream.name);
        }
    }

    fn no_memory(&self, call: &'static str) -> Error {
        let (device, why) = (self.state().about.name.clone(), "the host has no memory".to_owned());
        Error::Driver { device, call, why }
    }
}

impl Driver for OneDevice {
    fn about(&self) -> &About {
        &self.state().about
    }

    fn allocate(&self, bytes: usize) -> Result<u64> {
        self.alive()?;
        memory::allocate(bytes, Content::Poison).ok_or_else(|| self.no_memory("allocate"))
    }

    fn free(&self, address: u64, bytes: usize) {
        memory::free(address, bytes);
    }

    fn allocate_pinned(&self, bytes: usize) -> Result<u64> {
        self.alive()?;
        memory::allocate(bytes, Content::Zeros).ok_or_else(|| self.no_memory("allocate_pinned"))
    }

    fn free_pinned(&self, address: u64, bytes: usize) {
        memory::free(address, bytes);
    }

    fn stream(&self, name: &'static str) -> Result<u64> {
        self.alive()?;
        let machine = &self.machine;
        let number = machine.last_stream.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let stream = Arc::new(StreamState::new(number, name));
        machine.streams().push((self.number, Arc::clone(&stream)));
        if machine.has_threads() {
            let (inner, device) = (Arc::clone(machine), self.number);
            let thread = std::thread::Builder::new().name(format!("device {name}"));
            let thread = thread.spawn(move || inner.drive(device, &stream));
            let thread = thread.map_err(|error| Error::Driver {
                device: self.state().about.name.clone(),
                call: "stream",
                why: format!("no thread: {error}{NO_THREAD}"),
            })?;
            let mut threads = machine.threads.lock().unwrap_or_else(PoisonError::into_inner);
            threads.insert(number, thread);
        }
        Ok(number)
    }

    fn end_stream(&self, stream: u64) {
        let state = self.machine.stream(stream);
        state.end();
        let thread = {
            let mut threads = self.machine.threads.lock();
            threads.as_mut().map_or(None, |threads| threads.remove(&stream))
        };
        match thread {
            // The stream's own thread may be the last to release memory.
            Some(thread) if thread.thread().id() != std::thread::current().id() => {
                drop(thread.join());
            }
            Some(_) => {}
            None => while !state.is_done() && self.machine.step() {},
        }
        self.machine.streams().retain(|(_, other)| other.number != stream);
    }

    fn submit(&self, stream: u64, operation: Operation) -> Result<()> {
        self.alive()?;
        self.push(stream, Work::Do(operation));
        Ok(())
    }

    fn event(&self) -> Result<u64> {
        self.alive()?;
        Ok(self.machine.events.add())
    }

    fn end_event(&self, event: u64) {
        self.machine.events.remove(event);
    }

    fn record(&self, stream: u64, event: u64) -> Result<()> {
        self.alive()?;
        let event = self.machine.events.get(event);
        let number = event.record();
        self.push(stream, Work::Signal(event, number));
        Ok(())
    }

    fn wait_in(&self, stream: u64, event: u64) -> Result<()> {
        self.alive()?;
        let event = self.machine.events.get(event);
        let number = event.last();
        if !event.is_over(number) {
            self.push(stream, Work::Await(event, number));
        }
        Ok(())
    }

    fn is_over(&self, event: u64) -> Result<bool> {
        let event = self.machine.events.get(event);
        if !self.machine.has_threads() {
            // A random amount of work happens between two queries.
            let steps = self.machine.draw() % (STEPS_ASKED_MAX + 1);
            (0..steps).all(|_| self.machine.step());
        }
        let over = event.is_over(event.last());
        self.alive()?;
        Ok(over)
    }

    fn wait(&self, event: u64) -> Result<()> {
        let event = self.machine.events.get(event);
        let last = event.last();
        if self.machine.has_threads() {
            event.wait(last);
        }
        while !event.is_over(last) {
            assert!(self.machine.step(), "an event that is waited for never comes");
        }
        self.alive()
    }
}
