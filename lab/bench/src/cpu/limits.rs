//! Measures the limits of the machine.

use std::hint::black_box;

use pulp::{Arch, Simd, WithSimd};
use stepwell_base::huge::HugeSlice;
use stepwell_base::prefetch::prefetch_row;
use stepwell_base::random::Stream;
use stepwell_nn::{
    Activation, Block, GraphBuilder, InputShape, Linear, Matrix, Precision, Source, Workspace,
};
use stepwell_train::Limits;

use crate::measure::{Stopwatch, median, over};
use crate::{Error, Result};

/// Number of rounds; the median counts.
const ROUNDS: usize = 5;
/// Multiplications and additions per vector accumulator and round.
const FMA_STEPS: usize = 20_000_000;
/// Number of accumulators, enough to hide the latency of two units.
const FMA_ACCUMULATORS: usize = 12;
/// Side of the matrices.
const SIDE: usize = 1024;
/// Lanes that each thread copies, and lanes from which it reads rows.
const COPY_LANES: usize = 32 << 20;
const GATHER_LANES: usize = 256 << 20;
/// Lanes of a row: an embedding of 16 and a wide weight.
const ROW_LANES: usize = 17;
/// Rows that each thread reads per round.
const ROWS: usize = 4_000_000;
/// Prefetch distance in rows.
const AHEAD: usize = 24;

/// Bytes that `threads` threads allocate while their limits are measured.
pub(super) fn bytes_max(threads: usize) -> u64 {
    const _: () = assert!(GATHER_LANES > 2 * COPY_LANES + 8 * SIDE * SIDE);
    let of_one = GATHER_LANES * size_of::<f32>() + ROWS * size_of::<u32>();
    (threads as u64).saturating_mul(of_one as u64)
}

/// Measures the limits of `threads` threads.
///
/// # Errors
/// The matrix product can't be set up.
pub(super) fn measure(threads: usize) -> Result<Limits> {
    let flops = (2 * FMA_STEPS * FMA_ACCUMULATORS) as f64;
    let fma = rate(threads, || (), |()| flops * Arch::new().dispatch(MultiplyAdd) as f64);
    let gemm = |precision| -> Result<f64> {
        let product = Product::new(precision)?;
        Ok(rate(threads, || product.operands(), |operands| product.multiply(operands)))
    };
    let copy = rate(threads, Copied::new, Copied::copy);
    let gather = rate(threads, Gathered::new, Gathered::read);
    Ok(Limits {
        threads,
        fma_flops_per_second: fma,
        gemm_flops_per_second: gemm(Precision::F32)?,
        bf16_gemm_flops_per_second: gemm(Precision::Bf16)?,
        memcpy_bytes_per_second: copy,
        gather_bytes_per_second: gather,
    })
}

/// Rate of `threads` threads: each calls `make`, then `work` in rounds, all concurrently. `work`
/// returns the amount of work done.
fn rate<T>(
    threads: usize,
    make: impl Fn() -> T + Sync,
    work: impl Fn(&mut T) -> f64 + Sync,
) -> f64 {
    let barrier = std::sync::Barrier::new(threads);
    let run = || {
        let mut made = make();
        work(&mut made);
        let round = |_| {
            barrier.wait();
            let watch = Stopwatch::start();
            let done = work(&mut made);
            over(done, watch.seconds())
        };
        median((0..ROUNDS).map(round).collect())
    };
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let join = |handle: std::thread::ScopedJoinHandle<'_, f64>| match handle.join() {
            Ok(rate) => rate,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        handles.into_iter().map(join).sum()
    })
}

/// Returns the lanes of a vector.
struct MultiplyAdd;

impl WithSimd for MultiplyAdd {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> usize {
        let mut sums = [simd.splat_f32s(black_box(0.5)); FMA_ACCUMULATORS];
        let (factor, term) = (simd.splat_f32s(black_box(0.9)), simd.splat_f32s(black_box(0.1)));
        for _ in 0..FMA_STEPS {
            for sum in &mut sums {
                *sum = simd.mul_add_f32s(*sum, factor, term);
            }
        }
        black_box(sums);
        size_of::<S::f32s>() / size_of::<f32>()
    }
}

/// A graph that is one matrix product.
struct Product {
    graph: stepwell_nn::Graph<f32>,
    parameters: Vec<f32>,
}

struct Operands {
    workspace: Workspace<f32>,
    x: Vec<f32>,
    logits: Vec<f32>,
}

impl Product {
    fn new(precision: Precision) -> Result<Self> {
        let refused = |error: stepwell_nn::GraphError| Error::Arguments(error.to_string());
        let linear = |outputs| Linear {
            inputs: SIDE,
            outputs,
            bias: false,
            activation: Activation::Identity,
        };
        let mut builder = GraphBuilder::new(InputShape { embedding: SIDE, dense: 0 });
        let wide = builder.add("product", linear(SIDE), &[Source::Columns(0..SIDE)]);
        let wide = wide.map_err(refused)?;
        builder.add("logit", linear(1), &[Source::Node(wide)]).map_err(refused)?;
        let graph = builder.build().map_err(refused)?.with_precision(precision);
        let parameters = graph.initial_parameters(1);
        Ok(Self { graph, parameters })
    }

    fn operands(&self) -> Operands {
        let mut stream = Stream::from_state(3);
        Operands {
            workspace: Workspace::new(&self.graph, SIDE),
            x: (0..SIDE * SIDE).map(|_| stream.next_symmetric(1.0)).collect(),
            logits: vec![0.0; SIDE],
        }
    }

    /// Returns the number of operations.
    fn multiply(&self, operands: &mut Operands) -> f64 {
        let Operands { workspace, x, logits } = operands;
        let block = Block { x: Matrix::packed(x, SIDE, SIDE), first_order: &[] };
        const TIMES: usize = 10;
        for _ in 0..TIMES {
            self.graph.forward(&self.parameters, &block, workspace, logits);
        }
        black_box(logits);
        (TIMES * SIDE) as f64 * self.graph.flops_per_example().forward as f64
    }
}

struct Copied {
    from: HugeSlice<f32>,
    to: HugeSlice<f32>,
}

impl Copied {
    fn new() -> Self {
        let mut from = HugeSlice::zeroed(COPY_LANES);
        from.fill(1.0);
        Self { from, to: HugeSlice::zeroed(COPY_LANES) }
    }

    /// Returns the number of bytes copied.
    fn copy(&mut self) -> f64 {
        self.to.copy_from_slice(&self.from);
        black_box(&mut self.to);
        (COPY_LANES * size_of::<f32>()) as f64
    }
}

struct Gathered {
    rows: HugeSlice<f32>,
    order: Vec<u32>,
}

impl Gathered {
    fn new() -> Self {
        let mut rows = HugeSlice::zeroed(GATHER_LANES);
        rows.fill(1.0);
        let mut stream = Stream::from_state(5);
        let count = (GATHER_LANES / ROW_LANES) as u64;
        let order = (0..ROWS).map(|_| (stream.next_u64() % count) as u32).collect();
        Self { rows, order }
    }

    /// Returns the number of bytes read.
    fn read(&mut self) -> f64 {
        let row = |number: u32| &self.rows[number as usize * ROW_LANES..][..ROW_LANES];
        let mut sum = [0.0f32; ROW_LANES];
        for (number, at) in self.order.iter().enumerate() {
            if let Some(ahead) = self.order.get(number + AHEAD) {
                prefetch_row(row(*ahead));
            }
            sum.iter_mut().zip(row(*at)).for_each(|(sum, lane)| *sum += lane);
        }
        black_box(sum);
        (ROWS * ROW_LANES * size_of::<f32>()) as f64
    }
}
