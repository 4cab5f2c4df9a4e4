//! Graphs: operations that a stream runs repeatedly as one unit.

use std::sync::Arc;

use crate::access::Access;
use crate::capture::Capture;
use crate::check::Place;
use crate::driver::{Keeps, Operation, What};
use crate::shared::Shared;
use crate::stream::Stream;
use crate::{Error, Result};

/// Captured operations of a stream: launches, products, and clears or copies within the device.
/// They are checked, described and, if the driver can, submitted as one unit.
#[derive(Debug)]
pub struct Graph {
    /// Accesses of each operation, and where it was submitted.
    accesses: Vec<(Vec<Access>, Place)>,
    captured: Arc<Captured>,
}

/// Data needed as long as a run is not over.
#[derive(Debug)]
struct Captured {
    device: Arc<Shared>,
    stream: u64,
    operations: Vec<What>,
    /// What each operation keeps alive.
    keeps: Vec<Keeps>,
    /// The driver's number of the graph; `None` if operations are submitted one by one.
    number: Option<u64>,
}

impl Drop for Captured {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.device.driver.end_graph(number);
        }
    }
}

impl Stream {
    /// Captures the operations that `give` submits to this stream, instead of running them.
    ///
    /// # Errors
    /// Errors of `give`, and earlier failures.
    ///
    /// # Panics
    /// If `give` copies from or to the host, waits, or records an event.
    pub fn capture<E: From<Error>>(
        &self,
        give: impl FnOnce() -> std::result::Result<(), E>,
    ) -> std::result::Result<Graph, E> {
        let before = self.capturing().replace(Capture::default());
        assert!(before.is_none(), "stream {} is already being captured", self.name);
        let given = give();
        let Capture { operations } = self.capturing().take().unwrap_or_default();
        given?;
        let (mut whats, mut keeps, mut accesses) = (Vec::new(), Vec::new(), Vec::new());
        for (what, kept, accessed, place) in operations {
            whats.push(what);
            keeps.push(kept);
            accesses.push((accessed, place));
        }
        let number = self.device.driver.graph(self.number, &whats)?;
        let (device, stream) = (Arc::clone(&self.device), self.number);
        let captured = Captured { device, stream, operations: whats, keeps, number };
        Ok(Graph { accesses, captured: Arc::new(captured) })
    }

    /// Runs all operations captured in `graph`, in order.
    ///
    /// # Errors
    /// As for [`Stream::up`].
    ///
    /// # Panics
    /// If `graph` was captured on another stream, as products use their stream's memory.
    pub fn run(&self, graph: &Graph) -> Result<()> {
        let Graph { accesses, captured } = graph;
        let is_own = captured.stream == self.number && Arc::ptr_eq(&captured.device, &self.device);
        assert!(is_own, "the graph belongs to another stream than {}", self.name);
        for ((accesses, place), keeps) in accesses.iter().zip(&captured.keeps) {
            self.check(accesses, keeps, *place)?;
        }
        let driver = &self.device.driver;
        let keeps = || vec![Arc::clone(captured) as _];
        match captured.number {
            Some(number) => driver.run(self.number, number, keeps()),
            None => captured.operations.iter().try_for_each(|what| {
                driver.submit(self.number, Operation { what: what.clone(), keeps: keeps() })
            }),
        }
    }
}
