//! A step during training allocates almost nothing.
//!
//! Products are in bf16, whose operands are packed in persistent memory. In f32, the matrix library
//! allocates and frees memory for each product.

use std::sync::Arc;

use stepwell_base::Key;
use stepwell_base::clock::SystemClock;
use stepwell_base::random::Stream;
use stepwell_engine::Bags;
use stepwell_nn::{Precision, bf16_kernel};
use stepwell_settings::ModelKind;
use stepwell_train::{Config, StepInput, Steps};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const SLOTS: usize = 26;
const DENSE: usize = 13;
const MINI_BATCH: usize = 512;

fn examples(random: &mut Stream) -> StepInput {
    let count = MINI_BATCH * SLOTS;
    StepInput {
        labels: (0..MINI_BATCH).map(|number| (number % 4 / 3) as f32).collect(),
        dense: (0..MINI_BATCH * DENSE).map(|_| random.next_symmetric(1.0)).collect(),
        bags: Bags {
            keys: (0..count).map(|_| Key(random.next_u64() % 5000)).collect(),
            ends: (1..=count as u32).collect(),
            ..Bags::default()
        },
    }
}

#[test]
fn a_step_takes_its_memory_from_the_one_before() {
    const WARM_UP: usize = 40;
    const STEPS: usize = 20;
    let _profiler = dhat::Profiler::builder().testing().build();
    // Without a bf16 unit, the f32 library multiplies rounded numbers.
    let packs = bf16_kernel().name != "portable";
    // Gates have few columns, and such products are the library's, too.
    let mixes = |kind: &ModelKind| matches!(kind, ModelKind::Mmoe | ModelKind::Ple);
    let is_own = |kind: &ModelKind| if packs { !mixes(kind) } else { *kind == ModelKind::Lr };
    for kind in ModelKind::OF_ANY_DATA.into_iter().filter(is_own) {
        let mut config = Config { threads: 2, ..Config::default() };
        (config.model.kind, config.model.precision) = (kind, Precision::Bf16);
        // Each layer has lists of its own.
        config.model.mask_blocks = 1;
        config.data.mini_batch = MINI_BATCH;
        let mut steps = Steps::new(&config, 50_000, Arc::new(SystemClock::new())).unwrap();
        let mut random = Stream::named(1, b"allocations");
        let drawn: Vec<StepInput> = (0..WARM_UP + STEPS).map(|_| examples(&mut random)).collect();
        let mut before = dhat::HeapStats::get();
        for (number, examples) in drawn.into_iter().enumerate() {
            if number == WARM_UP {
                before = dhat::HeapStats::get();
            }
            steps.step(examples).unwrap();
        }
        let after = dhat::HeapStats::get();
        let bytes = (after.total_bytes - before.total_bytes) / STEPS as u64;
        let blocks = (after.total_blocks - before.total_blocks) / STEPS as u64;
        // Lists of tasks and views, which do not grow with the mini-batch: its ids are 100 KiB.
        println!("{}: {bytes} bytes in {blocks} blocks a step", kind.name());
        assert!(bytes <= 20 << 10, "{}: {bytes} bytes a step", kind.name());
    }
}
