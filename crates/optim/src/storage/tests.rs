//! The formats compared to another crate's, and the rounding to its definition.

use half::{bf16, f16};
use stepwell_base::{Key, TableId};

use super::*;

const SMALL: [Storage; 2] = [Storage::F16, Storage::Bf16];

fn bits(storage: Storage, x: f32, random: u32) -> u16 {
    if storage == Storage::F16 { to_f16(x, random) } else { to_bf16(x, random) }
}

fn value(storage: Storage, bits: u16) -> f32 {
    if storage == Storage::F16 { from_f16(bits) } else { from_bf16(bits) }
}

fn peer(storage: Storage, bits: u16) -> f32 {
    match storage {
        Storage::F16 => f16::from_bits(bits).to_f32(),
        _ => bf16::from_bits(bits).to_f32(),
    }
}

fn peer_nearest(storage: Storage, x: f32) -> u16 {
    match storage {
        Storage::F16 => f16::from_f32(x).to_bits(),
        _ => bf16::from_f32(x).to_bits(),
    }
}

/// Numbers of every exponent, some of which neither format can represent.
fn samples(count: usize) -> impl Iterator<Item = (f32, u32)> {
    let mut dice = Stream::from_state(11);
    std::iter::repeat_with(move || dice.next_u64())
        .map(|word| (f32::from_bits(word as u32), (word >> 32) as u32))
        .filter(|(x, _)| x.is_finite())
        .take(count)
}

#[test]
fn names_are_those_that_checkpoints_say() {
    assert_eq!(Storage::ALL.map(Storage::name), ["f32", "f16", "bf16"]);
}

#[test]
fn every_pattern_is_read_as_it_should_be_and_stays() {
    for storage in SMALL {
        for pattern in 0..=u16::MAX {
            let (x, theirs) = (value(storage, pattern), peer(storage, pattern));
            for random in [0, 1, 0x7fff_ffff, u32::MAX] {
                let again = bits(storage, x, random);
                if theirs.is_nan() {
                    assert!(x.is_nan() && value(storage, again).is_nan(), "{pattern:04x}");
                } else {
                    assert_eq!(x.to_bits(), theirs.to_bits(), "{pattern:04x}");
                    assert_eq!(again, pattern, "{storage:?}");
                }
            }
        }
    }
}

#[test]
fn only_the_two_neighbours_come_out() {
    for storage in SMALL {
        for (x, random) in samples(200_000) {
            let [down, up, got] = [0, u32::MAX, random].map(|random| bits(storage, x, random));
            let [low, high] = [down, up].map(|half| value(storage, half).abs());
            assert!(up - down <= 1 && (got == down || got == up), "{x:e}");
            if storage == Storage::F16 && x.abs() >= 65536.0 {
                assert_eq!(low, f32::INFINITY, "{x:e}");
            } else if storage == Storage::F16 && x.abs() <= 2f32.powi(-56) {
                assert_eq!(high, 0.0, "{x:e}");
            } else {
                assert!(low <= x.abs() && x.abs() <= high, "{x:e}");
                assert_eq!(up == down, low == x.abs(), "{x:e}");
            }
            assert_eq!(value(storage, got).is_sign_negative(), x.is_sign_negative());
        }
    }
}

#[test]
fn the_middle_of_all_random_bits_rounds_to_the_nearest() {
    for storage in SMALL {
        for (x, _) in samples(200_000) {
            let (below, above) = (bits(storage, x, (1 << 31) - 1), bits(storage, x, 1 << 31));
            // The two differ only at ties, where the peer takes the even one.
            let nearest = peer_nearest(storage, x);
            assert!(nearest == below || nearest == above, "{storage:?} {x:e}");
        }
    }
}

#[test]
fn every_chance_is_exact() {
    // All values of the 13 and 16 bits that normal numbers lose.
    for (storage, lost) in [(Storage::F16, 13), (Storage::Bf16, 16)] {
        for x in [0.1f32, -0.013_37, 1.0, 3.75, 1234.567, 6.2e-5] {
            let part = x.to_bits() & ((1 << lost) - 1);
            let down = bits(storage, x, 0);
            let up = (0..1u32 << lost).filter(|r| bits(storage, x, r << (32 - lost)) != down);
            assert_eq!(up.count() as u32, part, "{storage:?} {x}");
        }
    }
    // A subnormal f16: adjacent ones are 2^-24 apart.
    let x = 3.25 * 2f32.powi(-24);
    let up = (0..1024u32).filter(|r| bits(Storage::F16, x, r << 22) == 4);
    assert_eq!(up.count(), 256);
    assert_eq!(bits(Storage::F16, 2f32.powi(-57), u32::MAX), 0);
    assert_eq!(bits(Storage::F16, 2f32.powi(-55), u32::MAX), 1);
}

#[test]
fn what_is_expected_is_the_value_itself() {
    for storage in SMALL {
        for x in [0.01f32, -0.3, 7.123_456e-6, -1e-7, 2.718_281_7, 0.0, 1000.1] {
            let (rounds, width) = (4000, 17);
            let weights = vec![x; width];
            let mut lanes = vec![0.0; storage.lanes(width)];
            let mut decoded = vec![0.0; width];
            let mut sum = 0.0;
            for step in 0..rounds {
                let random = Stream::of_rounding(3, TableId(0), Key(5), step);
                storage.encode(&weights, &mut lanes, random);
                storage.view(&lanes, width).copy_to(&mut decoded);
                sum += decoded.iter().map(|w| f64::from(*w)).sum::<f64>();
            }
            let mean = sum / (rounds * width as u64) as f64;
            let [low, high] = [0, u32::MAX].map(|r| f64::from(value(storage, bits(storage, x, r))));
            let (x, step) = (f64::from(x), (high - low).abs());
            // Five standard deviations of the mean.
            let deviation = ((x - low) * (high - x)).abs().sqrt().min(step / 2.0);
            let bound = 5.0 * deviation / ((rounds * width as u64) as f64).sqrt();
            assert!((mean - x).abs() <= bound, "{storage:?} {x}: {mean}, {bound:e} at most");
        }
    }
}

#[test]
fn what_is_too_large_is_infinite_and_what_is_no_number_stays_so() {
    for random in [0, u32::MAX] {
        assert_eq!(from_f16(to_f16(65504.0, random)), 65504.0);
        assert_eq!(from_f16(to_f16(-65536.0, random)), f32::NEG_INFINITY);
        assert_eq!(from_f16(to_f16(f32::MAX, random)), f32::INFINITY);
        for storage in SMALL {
            let kept = |x| value(storage, bits(storage, x, random));
            assert_eq!(kept(f32::INFINITY), f32::INFINITY);
            assert_eq!(kept(f32::NEG_INFINITY), f32::NEG_INFINITY);
            for payload in [0x7f80_0001, 0x7fc0_0000, 0xffff_ffff, 0xff80_ffff] {
                assert!(kept(f32::from_bits(payload)).is_nan(), "{storage:?} {payload:08x}");
            }
        }
    }
    assert_eq!(from_f16(to_f16(65520.0, 0)), 65504.0);
    assert_eq!(from_f16(to_f16(65520.0, u32::MAX)), f32::INFINITY);
}

#[test]
fn rows_of_any_width_are_kept() {
    for storage in Storage::ALL {
        for width in [0, 1, 2, 3, 16, 17, 33] {
            let weights: Vec<f32> = (0..width).map(|lane| lane as f32 / 7.0 - 1.0).collect();
            let mut lanes = vec![f32::NAN; storage.lanes(width)];
            let random = Stream::of_rounding(1, TableId(2), Key(width as u64), 9);
            storage.encode(&weights, &mut lanes, random);
            let view = storage.view(&lanes, width);
            let mut rounded = weights.clone();
            storage.round(&mut rounded, random);
            let mut copied = vec![f32::NAN; width];
            view.copy_to(&mut copied);
            assert_eq!(copied, rounded);
            let mut sum = vec![1.0; width];
            view.add_to(&mut sum);
            for lane in 0..width {
                let bits = random.at(lane as u64 / 2) >> (lane % 2 * 32);
                let alone = match storage {
                    Storage::F32 => weights[lane],
                    _ => value(storage, self::bits(storage, weights[lane], bits as u32)),
                };
                assert_eq!(view.get(lane), alone);
                assert_eq!(copied[lane], alone);
                assert_eq!(sum[lane], 1.0 + alone);
            }
            if storage != Storage::F32 && width % 2 == 1 {
                assert_eq!(lanes[width / 2].to_bits() >> 16, 0, "the last half is zero");
            }
        }
    }
}

#[test]
fn rounded_rows_are_what_they_were() {
    let weights: Vec<f32> = (0..5).map(|lane| lane as f32 / 9.0 - 0.2).collect();
    let kept = |storage: Storage| {
        let mut lanes = vec![0.0; 3];
        let random = Stream::of_rounding(7, TableId(1), Key(0x0123_4567_89ab_cdef), 42);
        storage.encode(&weights, &mut lanes, random);
        lanes.iter().map(|lane| lane.to_bits()).collect::<Vec<u32>>()
    };
    assert_eq!(kept(Storage::F16), PUBLISHED[0]);
    assert_eq!(kept(Storage::Bf16), PUBLISHED[1]);
}

/// Computed once; other values would change the model of every seed.
const PUBLISHED: [[u32; 3]; 2] =
    [[0xadb0_b267, 0x3044_25b0, 0x0000_33d2], [0xbdb6_be4d, 0x3e09_3cb6, 0x0000_3e7a]];
