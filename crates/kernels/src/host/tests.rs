//! Faults that the shim detects in deliberately wrong kernels, and its results for correct ones.

use super::*;
use crate::kernel::{Access, Param, ScalarType};

include!(concat!(env!("OUT_DIR"), "/faulty.rs"));

const SEEDS: std::ops::Range<u64> = 0..20;

fn faulty(name: &str) -> &'static Kernel {
    FAULTY.iter().find(|kernel| kernel.name == name).unwrap()
}

/// Launches a kernel, with arguments `outputs` followed by `numbers`.
fn launch(
    name: &str,
    shape: (u32, u32, u32),
    outputs: &mut [Vec<u32>],
    numbers: &[u32],
    schedule: Schedule,
) -> Result<(), Fault> {
    let pointers: Vec<*mut u32> = outputs.iter_mut().map(|out| out.as_mut_ptr()).collect();
    let pointers = pointers.iter().map(|pointer| (&raw const *pointer).cast());
    let args: Vec<*const c_void> =
        pointers.chain(numbers.iter().map(|number| (&raw const *number).cast())).collect();
    let (blocks, threads, shared_bytes) = shape;
    let launch = Launch { blocks, threads, shared_bytes };
    // SAFETY: the kernels of this file take outputs of words and then numbers, and every test
    // provides as many words as they write.
    #[expect(unsafe_code, reason = "a launch")]
    unsafe {
        run(faulty(name), launch, &args, schedule)
    }
}

fn schedule(seed: u64) -> Schedule {
    Schedule { seed, workers: 1 + seed as usize % 2 }
}

fn fault(name: &str, threads: u32, numbers: &[u32], outputs: usize, seed: u64) -> Fault {
    let mut outputs = vec![vec![0; 64]; outputs];
    launch(name, (1, threads, 0), &mut outputs, numbers, schedule(seed)).unwrap_err()
}

/// The lines of the barriers in a kernel's source.
fn barriers_of(name: &str) -> Vec<u32> {
    let lines = include_str!("../../cuda/faults/faults.cu").lines().enumerate();
    let of_kernel = lines.skip_while(|(_, line)| !line.contains(&format!("({name},")));
    let of_kernel = of_kernel.take_while(|(_, line)| *line != "}");
    let barriers = of_kernel.filter(|(_, line)| line.contains("__syncthreads"));
    barriers.map(|(index, _)| index as u32 + 1).collect()
}

#[test]
fn a_missing_barrier_gives_a_wrong_value_in_every_order() {
    let right: Vec<u32> = (0..64).map(|i| (i + 1) % 64 + (i + 63) % 64).collect();
    for seed in SEEDS {
        let mut to = [vec![0; 64]];
        launch("missing_barrier", (1, 64, 0), &mut to, &[], schedule(seed)).unwrap();
        assert_ne!(to[0], right);
        launch("with_barrier", (1, 64, 0), &mut to, &[], schedule(seed)).unwrap();
        assert_eq!(to[0], right);
    }
}

#[test]
fn a_barrier_that_some_do_not_reach_is_named_by_file_and_line() {
    for seed in SEEDS {
        let fault = fault("barrier_of_some", 64, &[40], 0, seed);
        let places = barriers_of("barrier_of_some");
        assert_eq!((fault.kind, &[fault.line][..]), (FaultKind::DivergentBarrier, &places[..]));
        assert_eq!(fault.file, "cuda/faults/faults.cu");
        assert!(fault.message.contains("40 of 64 threads wait"), "{fault}");
        let fault = self::fault("two_barriers", 64, &[], 1, seed);
        assert_eq!(fault.kind, FaultKind::DivergentBarrier);
        assert!(barriers_of("two_barriers").contains(&fault.line), "{fault}");
        assert!(fault.to_string().starts_with("two_barriers: block 0, thread "), "{fault}");
    }
    let all = launch("barrier_of_some", (3, 64, 0), &mut [], &[64], schedule(1));
    assert_eq!(all, Ok(()));
}

#[test]
fn threads_that_wait_for_each_other_are_a_deadlock() {
    for seed in SEEDS {
        let fault = fault("barrier_against_warp", 64, &[], 1, seed);
        let divergent = fault.kind == FaultKind::DivergentBarrier;
        assert!(divergent || fault.kind == FaultKind::Deadlock, "{fault}");
    }
}

#[test]
fn lanes_of_a_warp_take_the_same_operation_under_masks_of_those_there() {
    let faults = [
        ("mixed_operations", 32, FaultKind::MixedWarp),
        ("mask_of_the_ended", 32, FaultKind::BadMask),
        ("mask_of_others", 32, FaultKind::BadMask),
        ("mask_of_nobody", 16, FaultKind::BadMask),
    ];
    for seed in SEEDS {
        for (name, threads, kind) in faults {
            let fault = fault(name, threads, &[], 1, seed);
            assert_eq!(fault.kind, kind, "{fault}");
            assert!(fault.line > 0 && fault.file.ends_with("faults.cu"), "{fault}");
        }
    }
}

#[test]
fn a_shuffle_takes_its_value_from_who_takes_part() {
    for seed in SEEDS {
        for source in [16, 31, 32, u32::MAX] {
            let fault = fault("source_outside", 32, &[source], 1, seed);
            assert_eq!(fault.kind, FaultKind::BadSource, "{fault}");
        }
        let mut to = [vec![0; 32]];
        launch("source_outside", (1, 32, 0), &mut to, &[3], schedule(seed)).unwrap();
        assert_eq!(to[0][..16], [3; 16]);
    }
}

#[test]
fn shared_memory_is_stale_at_first_and_has_ends() {
    // AddressSanitizer ends the process at the access.
    let is_watched = option_env!("STEPWELL_SANITIZE") == Some("address");
    for seed in SEEDS {
        let mut to = [vec![0; 64]];
        launch("stale_shared", (2, 32, 0), &mut to, &[], schedule(seed)).unwrap();
        assert_eq!(to[0], [u32::MAX; 64]);
        let inside = launch("shared_overrun", (1, 32, 0), &mut to, &[31], schedule(seed));
        assert_eq!(inside, Ok(()));
        let over = launch("too_much_shared", (1, 32, 0), &mut to, &[], schedule(seed));
        assert_eq!(over.unwrap_err().kind, FaultKind::SharedSize);
        let over = launch("stale_shared", (1, 32, 0), &mut to, &[], schedule(seed));
        assert_eq!(over, Ok(()));
        if is_watched {
            continue;
        }
        for index in [32, 33, 95] {
            let fault = fault("shared_overrun", 32, &[index], 1, seed);
            assert_eq!(fault.kind, FaultKind::SharedOverrun, "{fault}");
        }
        let below = launch("shared_below", (1, 32, 128), &mut to, &[], schedule(seed));
        assert_eq!(below.unwrap_err().kind, FaultKind::SharedOverrun);
    }
    let mut to = [vec![0; 64]];
    let over = launch("shared_below", (1, 32, 49_153), &mut to, &[], schedule(0)).unwrap_err();
    assert_eq!(over.kind, FaultKind::SharedSize);
}

#[test]
fn lanes_do_not_meet() {
    for seed in SEEDS {
        let fault = fault("lanes_with_barrier", 32, &[], 1, seed);
        assert_eq!(fault.kind, FaultKind::LanesMeet, "{fault}");
    }
}

#[test]
fn a_launch_is_one_that_a_device_takes() {
    let shapes = [
        ("with_barrier", (0, 64, 0), "0 blocks"),
        ("with_barrier", (1, 32, 0), "32 threads: the kernel is written for blocks of 64"),
        ("with_barrier", (1, 0, 0), "0 threads: a block has 1 to 1024"),
        ("with_barrier", (1, 1025, 0), "1025 threads"),
        ("with_barrier", (u32::MAX, 64, 0), "4294967295 blocks"),
        ("lanes_with_barrier", (1, 257, 0), "257 threads: blocks of this kernel have 256 at most"),
        ("lanes_with_barrier", (1, 32, 4), "4 bytes of shared memory"),
    ];
    for (name, shape, message) in shapes {
        let fault = launch(name, shape, &mut [vec![0; 64]], &[], schedule(0)).unwrap_err();
        assert_eq!(fault.kind, FaultKind::Launch);
        assert!(fault.message.starts_with(message), "{fault}");
    }
    let fault = launch("with_barrier", (1, 64, 0), &mut [], &[], schedule(0)).unwrap_err();
    assert_eq!(fault.to_string(), "with_barrier: block 0, thread 0: 0 arguments for 1 parameters");
}

#[test]
fn operations_of_a_warp_give_what_a_device_gives() {
    for seed in SEEDS {
        let mut out = [vec![0; 512], vec![0; 2]];
        launch("operations", (1, 64, 0), &mut out, &[], schedule(seed)).unwrap();
        for thread in 0..64 {
            let lane = thread as u32 % 32;
            let up = if lane < 3 { lane } else { lane - 3 };
            let down = if lane + 4 > 31 { lane } else { lane + 4 };
            let ballot =
                (0..32).filter(|lane| lane % 3 == 0).fold(0, |bits, lane| bits | 1 << lane);
            let last = if lane < 8 { lane ^ 1 } else { 8 };
            let right = [(lane + 5) % 32, up, down, lane ^ 9, ballot, 2, 34, last];
            assert_eq!(out[0][thread * 8..thread * 8 + 8], right);
        }
        assert_eq!(out[1], [64, 64]);
    }
}

#[test]
fn orders_are_drawn_by_the_seed_and_all_threads_run() {
    let order = |seed, workers| {
        let mut out = [vec![0; 640], vec![0; 1]];
        let schedule = Schedule { seed, workers };
        launch("order_of_threads", (10, 64, 0), &mut out, &[], schedule).unwrap();
        let mut sorted = out[0].clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..640).collect::<Vec<_>>());
        out[0].clone()
    };
    assert_eq!(order(3, 1), order(3, 1));
    assert_ne!(order(3, 1), order(4, 1));
    order(3, 4);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn arithmetic_that_flushes_is_refused() {
    use std::arch::asm;
    let mut was = 0u32;
    // SAFETY: the control word is restored before anything else is computed.
    #[expect(unsafe_code, reason = "the control word of the processor")]
    unsafe {
        asm!("stmxcsr [{}]", in(reg) &raw mut was);
    }
    for flag in [1 << 15, 1 << 6, 1 << 13] {
        let changed = was | flag;
        // SAFETY: as above.
        #[expect(unsafe_code, reason = "the control word of the processor")]
        unsafe {
            asm!("ldmxcsr [{}]", in(reg) &raw const changed);
        }
        let outcome = launch("with_barrier", (1, 64, 0), &mut [vec![0; 64]], &[], schedule(0));
        // SAFETY: as above.
        #[expect(unsafe_code, reason = "the control word of the processor")]
        unsafe {
            asm!("ldmxcsr [{}]", in(reg) &raw const was);
        }
        assert_eq!(outcome.unwrap_err().kind, FaultKind::Rounding);
    }
}
