//! Driver of an NVIDIA device.
//!
//! - **Invariants.** Every call first makes the device's context current in the thread. The line of
//!   a stream ([`super::held`]) holds what operations keep until an event after them is over.
//! - **Failure.** An error after which the device can't be used is permanent: all later calls
//!   return that the device is lost, with the same message.

use std::collections::HashMap;
use std::ffi::{CString, c_int};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use cudarc::driver::sys::CUresult;
use stepwell_base::ByteCount;
use stepwell_kernels::Kernel;

use super::blas::{self, Blas};
use super::calls::{self, Context, Fault, Function, GraphExec, Module, Stream};
use super::compile::{Compiler, Target};
use super::graphs;
use super::held::Lines;
use super::queue::{Moment, Queue};
use super::streams;
use crate::driver::About;
use crate::driver::{Driver, Keeps, Operation, What};
use crate::{Error, Result};

/// State shared by the devices of a process.
#[derive(Debug)]
pub(super) struct Machine {
    /// Number, library handle and retained context of each device.
    contexts: Vec<(usize, c_int, Context)>,
    compiler: Compiler,
    lines: Lines,
    /// Queues of all devices, as streams wait for events of others.
    queues: Numbered<Queue>,
    moments: Numbered<Moment>,
    graphs: Numbered<GraphExec>,
}

impl Machine {
    pub(super) fn new(contexts: Vec<(usize, c_int, Context)>, compiler: Compiler) -> Self {
        let (queues, moments, graphs) = (Numbered::new(), Numbered::new(), Numbered::new());
        Self { contexts, compiler, lines: Lines::default(), queues, moments, graphs }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.contexts.iter().for_each(|(_, device, _)| calls::release(*device));
    }
}

/// One device.
#[derive(Debug)]
pub(super) struct OneDevice {
    about: About,
    machine: Arc<Machine>,
    context: Context,
    target: Target,
    failed: OnceLock<Error>,
    modules: Mutex<HashMap<&'static str, Module>>,
    functions: RwLock<HashMap<&'static str, Function>>,
    blas: OnceLock<std::result::Result<Blas, String>>,
}

/// Things by number.
#[derive(Debug)]
struct Numbered<T>(Mutex<(u64, HashMap<u64, Arc<T>>)>);

impl<T> Numbered<T> {
    fn new() -> Self {
        Self(Mutex::new((0, HashMap::new())))
    }

    fn inner(&self) -> MutexGuard<'_, (u64, HashMap<u64, Arc<T>>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, thing: T) -> u64 {
        let (last, things) = &mut *self.inner();
        *last += 1;
        things.insert(*last, Arc::new(thing));
        *last
    }

    fn get(&self, number: u64) -> Arc<T> {
        let inner = self.inner();
        let thing = inner.1.get(&number);
        thing.map_or_else(|| panic!("number {number} was never assigned, or has ended"), Arc::clone)
    }

    fn remove(&self, number: u64) -> Option<Arc<T>> {
        self.inner().1.remove(&number)
    }
}

/// Why an operation did not begin.
enum Refused {
    Called(Fault),
    Said(&'static str, String),
    Is(Error),
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self::Called(fault)
    }
}

impl OneDevice {
    pub(super) fn new(
        about: About,
        machine: &Arc<Machine>,
        context: Context,
        target: Target,
    ) -> Self {
        Self {
            about,
            machine: Arc::clone(machine),
            context,
            target,
            failed: OnceLock::new(),
            modules: Mutex::default(),
            functions: RwLock::default(),
            blas: OnceLock::new(),
        }
    }

    /// Makes the device's context current in the thread, unless it is lost.
    fn enter(&self) -> Result<()> {
        if let Some(error) = self.failed.get() {
            return Err(error.clone());
        }
        calls::enter(self.context).map_err(|fault| self.failed(fault))
    }

    /// Error for a failed call.
    fn failed(&self, fault: Fault) -> Error {
        let (device, why) = (self.about.name.clone(), fault.why());
        if fault.is_final() {
            return self.failed.get_or_init(|| Error::Lost { device, why }).clone();
        }
        Error::Driver { device, call: fault.call, why }
    }

    /// Error for a failed allocation.
    fn no_memory(&self, fault: Fault, bytes: usize) -> Error {
        if fault.code != CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return self.failed(fault);
        }
        let (free, memory) = calls::memory().unwrap_or((0, self.about.memory_bytes));
        let [wanted, free, memory] = [bytes as u64, free, memory].map(ByteCount);
        Error::OutOfMemory { device: self.about.name.clone(), what: "memory", wanted, free, memory }
    }

    fn kernel_failed(&self, kernel: &'static str, why: String) -> Error {
        Error::Kernel { device: self.about.name.clone(), kernel, why }
    }

    /// The function of a kernel; the first use of a file compiles and loads it.
    fn function(&self, kernel: &'static Kernel) -> Result<Function> {
        let known = self.functions.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(function) = known.get(kernel.name) {
            return Ok(*function);
        }
        drop(known);
        let module = self.module(kernel)?;
        let refused = |why: String| self.kernel_failed(kernel.name, why);
        let name = CString::new(kernel.name).map_err(|error| refused(error.to_string()))?;
        let function = calls::function(module, &name).map_err(|fault| refused(fault.why()))?;
        let mut known = self.functions.write().unwrap_or_else(PoisonError::into_inner);
        Ok(*known.entry(kernel.name).or_insert(function))
    }

    fn module(&self, kernel: &'static Kernel) -> Result<Module> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = modules.get(kernel.file) {
            return Ok(*module);
        }
        let refused = |why: String| self.kernel_failed(kernel.name, why);
        let image = self.machine.compiler.file(kernel.file, self.target).map_err(refused)?;
        let module = calls::load(&image).map_err(|fault| match fault.is_final() {
            true => self.failed(fault),
            false => refused(format!("{}: {}", kernel.file, fault.why())),
        })?;
        modules.insert(kernel.file, module);
        Ok(module)
    }

    fn blas(&self) -> Result<&Blas> {
        let blas = self.blas.get_or_init(Blas::new);
        blas.as_ref().map_err(|why| self.said("cuBLASLt", why.clone()))
    }

    fn said(&self, call: &'static str, why: String) -> Error {
        Error::Driver { device: self.about.name.clone(), call, why }
    }

    /// Begins an operation other than a launch.
    fn begin(&self, what: &What, stream: Stream) -> std::result::Result<(), Refused> {
        match *what {
            What::Up { bytes: 0, .. }
            | What::Down { bytes: 0, .. }
            | What::Across { bytes: 0, .. }
            | What::Fill { bytes: 0, .. }
            | What::Launch { .. } => {}
            What::Up { from, to, bytes } => streams::up(from, to, bytes, stream)?,
            What::Down { from, to, bytes } => streams::down(from, to, bytes, stream)?,
            What::Across { from, from_device, to, bytes } if from_device == self.about.number => {
                streams::within(from, to, bytes, stream)?;
            }
            What::Across { from, from_device, to, bytes } => {
                let mut contexts = self.machine.contexts.iter();
                let there = contexts.find(|(number, ..)| *number == from_device);
                let lacks = || Refused::Said("copy", format!("there is no cuda:{from_device}"));
                let (_, _, there) = there.ok_or_else(lacks)?;
                streams::across(from, *there, to, self.context, bytes, stream)?;
            }
            What::Fill { to, bytes, with } => streams::fill(to, with, bytes, stream)?,
            What::Product { ref product, left, right, into, workspace } => {
                let blas = self.blas.get_or_init(Blas::new).as_ref();
                let said = |why| Refused::Said("product", why);
                let blas = blas.map_err(|why| said(why.clone()))?;
                blas.product(product, [left, right, into], workspace, stream).map_err(said)?;
            }
        }
        Ok(())
    }

    /// Begins an operation, in the thread that captures or submits it.
    fn begin_any(&self, what: &What, stream: Stream) -> std::result::Result<(), Refused> {
        let What::Launch { kernel, blocks, threads, shared_bytes, values } = what else {
            return self.begin(what, stream);
        };
        let function = self.function(kernel).map_err(Refused::Is)?;
        let mut values: Vec<u64> = values.iter().map(|value| value.bits()).collect();
        streams::launch(function, *blocks, *threads, *shared_bytes, &mut values, stream).map_err(
            |fault| match fault.is_final() {
                true => Refused::Called(fault),
                false => Refused::Is(self.kernel_failed(kernel.name, fault.why())),
            },
        )
    }

    fn refused(&self, refused: Refused) -> Error {
        match refused {
            Refused::Called(fault) => self.failed(fault),
            Refused::Said(call, why) => self.said(call, why),
            Refused::Is(error) => error,
        }
    }
}

impl Driver for OneDevice {
    fn about(&self) -> &About {
        &self.about
    }

    fn allocate(&self, bytes: usize) -> Result<u64> {
        self.enter()?;
        calls::allocate(bytes.max(1)).map_err(|fault| self.no_memory(fault, bytes))
    }

    fn free(&self, address: u64, _bytes: usize) {
        // A lost device's memory is freed with its context.
        if self.enter().is_ok() {
            let _ = calls::free(address).map_err(|fault| self.failed(fault));
        }
    }

    fn allocate_pinned(&self, bytes: usize) -> Result<u64> {
        self.enter()?;
        calls::allocate_pinned(bytes.max(1)).map_err(|fault| self.no_memory(fault, bytes))
    }

    fn free_pinned(&self, address: u64, _bytes: usize) {
        // A lost device may still write there, so the memory isn't freed.
        if self.enter().is_ok() {
            let _ = calls::free_pinned(address).map_err(|fault| self.failed(fault));
        }
    }

    fn stream(&self, _name: &'static str) -> Result<u64> {
        self.enter()?;
        Queue::new().map(|queue| self.machine.queues.add(queue)).map_err(|fault| self.failed(fault))
    }

    fn workspace_bytes(&self) -> Result<usize> {
        self.enter()?;
        self.blas().map(|_| blas::WORKSPACE_BYTES)
    }

    fn end_stream(&self, stream: u64) {
        let _ = self.enter();
        if let Some(queue) = self.machine.queues.remove(stream) {
            queue.end(&self.machine.lines);
        }
    }

    fn submit(&self, stream: u64, mut operation: Operation) -> Result<()> {
        self.enter()?;
        let queue = self.machine.queues.get(stream);
        let nothing = What::Fill { to: 0, bytes: 0, with: 0 };
        let what = std::mem::replace(&mut operation.what, nothing);
        let begin = |stream| self.begin_any(&what, stream);
        let given = queue.give(&self.machine.lines, operation.keeps, begin);
        given.map_err(|refused| self.refused(refused))
    }

    fn graph(&self, stream: u64, operations: &[What]) -> Result<Option<u64>> {
        self.enter()?;
        // Compile and load everything now, as that isn't possible during capture.
        for what in operations {
            match what {
                What::Launch { kernel, .. } => drop(self.function(kernel)?),
                What::Product { .. } => drop(self.blas()?),
                _ => {}
            }
        }
        let queue = self.machine.queues.get(stream);
        let captured = queue.alone(|stream| {
            let mut each = operations.iter();
            graphs::capture(stream, || each.try_for_each(|what| self.begin_any(what, stream)))
        });
        let captured = captured.map_err(|refused| self.refused(refused))?;
        Ok(Some(self.machine.graphs.add(captured)))
    }

    fn run(&self, stream: u64, graph: u64, keeps: Keeps) -> Result<()> {
        self.enter()?;
        let (queue, graph) = (self.machine.queues.get(stream), self.machine.graphs.get(graph));
        let given = queue.give(&self.machine.lines, keeps, |stream| graphs::launch(*graph, stream));
        given.map_err(|fault: Fault| self.failed(fault))
    }

    fn end_graph(&self, graph: u64) {
        let graph = self.machine.graphs.remove(graph);
        if let (Ok(()), Some(graph)) = (self.enter(), graph) {
            graphs::end(*graph);
        }
    }

    fn event(&self) -> Result<u64> {
        self.enter()?;
        Moment::new()
            .map(|moment| self.machine.moments.add(moment))
            .map_err(|fault| self.failed(fault))
    }

    fn end_event(&self, event: u64) {
        let _ = self.enter();
        if let Some(moment) = self.machine.moments.remove(event) {
            streams::end_event(moment.event);
        }
    }

    fn record(&self, stream: u64, event: u64) -> Result<()> {
        self.enter()?;
        let (moment, queue) = (self.machine.moments.get(event), self.machine.queues.get(stream));
        moment.record(&queue, &self.machine.lines).map_err(|fault| self.failed(fault))
    }

    fn wait_in(&self, stream: u64, event: u64) -> Result<()> {
        self.enter()?;
        let (moment, queue) = (self.machine.moments.get(event), self.machine.queues.get(stream));
        moment.wait_in(&queue, &self.machine.lines).map_err(|fault| self.failed(fault))
    }

    fn is_over(&self, event: u64) -> Result<bool> {
        self.enter()?;
        let moment = self.machine.moments.get(event);
        moment.is_over(&self.machine.lines).map_err(|fault| self.failed(fault))
    }

    fn wait(&self, event: u64) -> Result<()> {
        self.enter()?;
        let moment = self.machine.moments.get(event);
        moment.wait(&self.machine.lines).map_err(|fault| self.failed(fault))
    }
}

impl Drop for OneDevice {
    fn drop(&mut self) {
        let _ = calls::enter(self.context);
        let modules = self.modules.get_mut().unwrap_or_else(PoisonError::into_inner);
        modules.drain().for_each(|(_, module)| calls::unload(module));
        drop(self.blas.take());
    }
}
