//! Where the time of steps goes: seconds, flops and bytes by kernel, and by layer.
//!
//! Seconds are processor time of all compute threads, each measured around its own part of the
//! work; waiting for the slowest thread at the end of a part is not counted.

mod laps;
mod layers;
mod sums;

use std::sync::Arc;

use serde::Serialize;
use stepwell_base::clock::Clock;
use stepwell_nn::Graph;

pub(crate) use self::layers::Direction;
use self::layers::Layer;
pub use self::layers::{LayerReport, PassReport};
pub use self::sums::Bound;
use self::sums::{Sum, rate};

/// A part of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// Copies rows into the input of the graph.
    Gather,
    /// The graph's forward pass.
    Forward,
    /// Loss and its gradients.
    Loss,
    /// The graph's backward pass.
    Backward,
    /// Gradients by row, and the row optimizer.
    Rows,
    /// Gradients over blocks, and the dense optimizer.
    Dense,
}

impl Kernel {
    const ALL: [Self; 6] =
        [Self::Gather, Self::Forward, Self::Loss, Self::Backward, Self::Rows, Self::Dense];

    fn name(self) -> &'static str {
        match self {
            Self::Gather => "gather",
            Self::Forward => "forward",
            Self::Loss => "loss",
            Self::Backward => "backward",
            Self::Rows => "rows",
            Self::Dense => "dense",
        }
    }
}

/// Work and time of a kernel in a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct KernelReport {
    /// Name of the kernel.
    pub name: String,
    /// Seconds of processor time, of all threads.
    pub seconds: f64,
    /// Floating-point operations, if they are the kernel's main work.
    pub flops: u64,
    /// Bytes of rows, or of parameters, that the kernel reads and writes.
    pub bytes: u64,
    /// Operations per second and thread.
    pub flops_per_second: f64,
    /// Bytes per second and thread.
    pub bytes_per_second: f64,
    /// The limit that bounds it; `None` if none was measured.
    pub limit: Option<Bound>,
}

impl KernelReport {
    /// The difference to `before`, an earlier report of the same kernel.
    pub fn since(&self, before: &Self) -> Self {
        Self::new(
            self.name.clone(),
            self.seconds - before.seconds,
            self.flops - before.flops,
            self.bytes - before.bytes,
        )
    }

    fn new(name: String, seconds: f64, flops: u64, bytes: u64) -> Self {
        Self {
            name,
            seconds,
            flops,
            bytes,
            flops_per_second: rate(flops, seconds),
            bytes_per_second: rate(bytes, seconds),
            limit: None,
        }
    }
}

/// Sums by kernel and by layer; threads add to it.
#[derive(Debug)]
pub(crate) struct Profile {
    clock: Arc<dyn Clock>,
    sums: [Sum; Kernel::ALL.len()],
    layers: Vec<Layer>,
}

impl Profile {
    /// An empty profile of steps of a model whose dense part is `graph`.
    pub(crate) fn new(clock: Arc<dyn Clock>, graph: &Graph<f32>) -> Self {
        Self { clock, sums: Default::default(), layers: layers::of(graph) }
    }

    /// Seconds of processor time of the calling thread.
    pub(crate) fn now(&self) -> f64 {
        self.clock.thread_seconds()
    }

    /// Counts work that began at `begin` and read and wrote `bytes`.
    pub(crate) fn over(&self, kernel: Kernel, begin: f64, bytes: u64) {
        self.sums[kernel as usize].time(begin, self.now());
        self.count(kernel, 0, bytes);
    }

    /// Runs `work` and counts its time.
    pub(crate) fn time<R>(&self, kernel: Kernel, work: impl FnOnce() -> R) -> R {
        let begin = self.now();
        let result = work();
        self.sums[kernel as usize].time(begin, self.now());
        result
    }

    /// Counts completed work.
    pub(crate) fn count(&self, kernel: Kernel, flops: u64, bytes: u64) {
        self.sums[kernel as usize].count(flops, bytes);
    }

    /// Reports of the kernels so far.
    pub(crate) fn kernels(&self) -> Vec<KernelReport> {
        let of = |kernel: Kernel| {
            let sum = &self.sums[kernel as usize];
            let name = kernel.name().to_owned();
            KernelReport::new(name, sum.seconds(), sum.flops(), sum.bytes())
        };
        Kernel::ALL.into_iter().map(of).collect()
    }

    /// Reports of the layers so far.
    pub(crate) fn layers(&self) -> Vec<LayerReport> {
        self.layers.iter().map(Layer::report).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use stepwell_nn::{
        Activation, Block, GraphBuilder, InputShape, Linear, Matrix, NodeId, PassObserver, Source,
        Workspace,
    };

    use super::*;

    #[derive(Debug, Default)]
    struct Busy(Mutex<f64>);

    impl Busy {
        fn work(&self, seconds: f64) {
            *self.0.lock().unwrap() += seconds;
        }
    }

    impl Clock for Busy {
        fn seconds(&self) -> f64 {
            0.0
        }

        fn thread_seconds(&self) -> f64 {
            *self.0.lock().unwrap()
        }
    }

    fn graph() -> Graph<f32> {
        let linear = |inputs, outputs| Linear {
            inputs,
            outputs,
            bias: false,
            activation: Activation::Identity,
        };
        let mut builder = GraphBuilder::new(InputShape { embedding: 2, dense: 0 });
        let hidden = builder.add("hidden", linear(2, 3), &[Source::Columns(0..2)]).unwrap();
        builder.add("top", linear(3, 1), &[Source::Node(hidden)]).unwrap();
        builder.build().unwrap()
    }

    fn profile() -> (Arc<Busy>, Profile) {
        let clock = Arc::new(Busy::default());
        let profile = Profile::new(Arc::clone(&clock) as Arc<dyn Clock>, &graph());
        (clock, profile)
    }

    #[test]
    fn kernels_have_their_own_sums() {
        let (clock, profile) = profile();
        for _ in 0..2 {
            profile.time(Kernel::Rows, || clock.work(0.25));
            profile.count(Kernel::Rows, 0, 3);
        }
        let report = profile.kernels();
        let rows = &report[Kernel::Rows as usize];
        assert_eq!((rows.name.as_str(), rows.bytes), ("rows", 6));
        assert!((rows.seconds - 0.5).abs() < 1e-6 && (rows.bytes_per_second - 12.0).abs() < 1e-3);
        assert_eq!(report[Kernel::Gather as usize].seconds, 0.0);
    }

    #[test]
    fn layers_get_the_time_since_the_layer_before() {
        let (clock, profile) = profile();
        let mut laps = profile.laps(Direction::Forward, 10);
        clock.work(0.5);
        laps.passed(NodeId(0));
        clock.work(0.25);
        laps.passed(NodeId(1));
        let mut laps = profile.laps(Direction::Backward, 10);
        clock.work(2.0);
        laps.passed(NodeId(1));
        clock.work(1.0);
        laps.passed(NodeId(0));
        let [hidden, top] = &profile.layers()[..] else { panic!("two layers") };
        assert_eq!((&*hidden.name, &*top.name), ("hidden", "top"));
        let is = |pass: &PassReport, seconds: f64, flops: u64| {
            assert!((pass.seconds - seconds).abs() < 1e-6, "{pass:?}");
            assert!((pass.flops_per_second - flops as f64 / seconds).abs() < 1e-3, "{pass:?}");
            assert_eq!(pass.flops, flops);
        };
        is(&hidden.forward, 0.5, 10 * 12);
        is(&top.forward, 0.25, 10 * 6);
        is(&hidden.backward, 1.0, 10 * 24);
        is(&top.backward, 2.0, 10 * 12);
        let later = profile.layers()[0].since(hidden);
        assert_eq!((later.forward.flops, later.backward.seconds), (0, 0.0));
    }

    #[test]
    fn empty_blocks_count_time_alone() {
        let (_, profile) = profile();
        let (graph, mut workspace) = (graph(), Workspace::new(&graph(), 1));
        let parameters = graph.initial_parameters(1);
        let block = Block { x: Matrix::packed(&[], 0, 2), first_order: &[] };
        let laps = &mut profile.laps(Direction::Forward, 0);
        graph.watched(laps).forward(&parameters, &block, &mut workspace, &mut []);
        assert!(profile.layers().iter().all(|layer| layer.forward.flops == 0));
    }
}
