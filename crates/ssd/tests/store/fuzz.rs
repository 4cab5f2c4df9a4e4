//! Files with arbitrary changes: nothing panics, and no wrong row is served.
//!
//! - **How.** The fixture of version 2, with bytes changed at random from a seed, is checked,
//!   repaired and opened. With the original checksums, every row served must be right. With
//!   checksums that fit the changes, nothing may panic and nothing large may be allocated.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stepwell_base::random::Stream;
use stepwell_base::{Key, hash};
use stepwell_disk::{Disk, MemDisk, Survival};
use stepwell_ssd::{Error, MANIFEST_NAME, Result, Store, StoreOptions, check, repair};

use crate::harness::{Told, bytes_of, in_threads, is_long, shared};
use crate::old_format::{ROW_BYTES, fixture, key, newest_v2, options_v2, row};

const BLOCK: usize = 4096;
/// Rows of the fixture, and some that it does not have.
const NUMBERS: u64 = 130;

/// Checksums of the files after a change.
#[derive(Clone, Copy, PartialEq)]
enum Sums {
    /// The original checksums, which do not fit the changes.
    Kept,
    /// Checksums that fit the changes.
    Fitted,
}

/// A mutator: changes files of a world.
type Mutate = fn(&mut Dice, &MemDisk);

struct Dice(Stream);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        (self.0.next_u64() % bound.max(1) as u64) as usize
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// Numbers at edge cases, or anywhere.
    fn number(&mut self) -> u64 {
        let edges = [0, 1, 2, 72, 73, 74, 255, 4096, 1 << 30, u64::from(u32::MAX), 1 << 32];
        match self.below(4) {
            0 => *self.pick(&edges),
            1 => u64::MAX >> self.below(64),
            2 => 1 << self.below(64),
            _ => self.0.next_u64() >> self.below(64),
        }
    }

    fn name(&mut self, disk: &MemDisk) -> String {
        self.pick(&disk.list().unwrap()).clone()
    }

    fn segment(&mut self, disk: &MemDisk) -> String {
        let mut names = disk.list().unwrap();
        names.retain(|name| name != MANIFEST_NAME);
        self.pick(&names).clone()
    }
}

/// Reads a world in every way; returns whether it opened.
fn judge(disk: &MemDisk, sums: Sums) -> bool {
    let one_line = |error: &Error| assert!(!error.to_string().contains('\n'), "{error}");
    drop(check(&[shared(disk)]).inspect_err(one_line));
    let to = disk.create_directory(Path::new("/salvaged")).unwrap();
    let options = |table, row_bytes| StoreOptions { table, row_bytes, ..options_v2() };
    match repair(&[shared(disk)], Arc::clone(&to), options) {
        Ok(salvaged) => {
            assert!(salvaged.rows <= 1_000);
            if sums == Sums::Kept {
                visit(&Store::open(to, options_v2()).unwrap(), &|number, bytes| {
                    let known = || (0..4).any(|version| bytes == row(number, version));
                    assert!(number < NUMBERS && known(), "row {number}");
                });
            }
        }
        Err(error) => one_line(&error),
    }
    let store = match Store::open(shared(disk), options_v2()) {
        Ok(store) => store,
        Err(error) => {
            one_line(&error);
            return false;
        }
    };
    for number in 0..NUMBERS {
        let found = get(&store, number);
        if let (Ok(found), Sums::Kept) = (found, sums) {
            let expected = newest_v2(number).map(|version| row(number, version));
            assert!(found == expected, "row {number}");
        }
    }
    if sums == Sums::Kept {
        visit(&store, &|number, bytes| {
            assert_eq!(
                Some(bytes),
                newest_v2(number).map(|version| row(number, version)).as_deref()
            );
        });
    }
    go_on(&store);
    true
}

fn get(store: &Store, number: u64) -> Result<Option<Vec<u8>>> {
    let (mut bytes, mut found) = (vec![0; ROW_BYTES], [false]);
    store.get_many(&[key(number)], &mut bytes, &mut found)?;
    Ok(found[0].then_some(bytes))
}

/// Visits rows until the store finds damage.
fn visit(store: &Store, right: &dyn Fn(u64, &[u8])) {
    let inverse = 0xF1DE_83E1_9937_733D_u64;
    let _ = store.scan_live(&mut |key, _, bytes| {
        right(key.0.wrapping_mul(inverse), bytes);
        Ok(())
    });
}

/// Whatever opened must accept changes or refuse them.
fn go_on(store: &Store) {
    let keys: Vec<Key> = (0..NUMBERS).step_by(3).map(key).collect();
    let rows = vec![7; keys.len() * ROW_BYTES];
    let _ = store.put_many(&keys, &vec![200; keys.len()], &rows);
    let _ = store.delete_many(&keys[..10]);
    for _ in 0..3 {
        let _ = store.compact();
    }
    let _ = store.commit();
}

/// Divides numbers of seeds, unless `STEPWELL_LONG` is set.
fn shortened() -> u64 {
    if is_long() { 1 } else { 4 }
}

/// Judges one world for each of `count` seeds; returns how many of them opened.
fn fuzz(first: u64, count: u64, sums: Sums, mutators: &[Mutate]) -> u64 {
    let image = fixture("v2");
    let opened = AtomicU64::new(0);
    let seeds: Vec<u64> = (first..first + count / shortened()).collect();
    in_threads(&seeds, &|seed| {
        let _told = Told(format!("seed {seed}"));
        let disk = image.crash(Survival::Everything);
        let mut dice = Dice(Stream::named(*seed, b"fuzz"));
        for _ in 0..1 + dice.below(3) {
            dice.pick(mutators)(&mut dice, &disk);
        }
        let opens = judge(&disk, sums);
        opened.fetch_add(opens.into(), Ordering::Relaxed);
    });
    opened.into_inner()
}

fn change_bytes(dice: &mut Dice, disk: &MemDisk) {
    let name = dice.name(disk);
    disk.edit(&name, &mut |bytes| {
        for _ in 0..1 + dice.below(8) {
            // Starts and ends of blocks are more interesting.
            let block = dice.below(bytes.len().div_ceil(BLOCK)) * BLOCK;
            let within = [64, 700, BLOCK][dice.below(3)];
            let within = dice.below(within);
            let within = if dice.below(3) == 0 { BLOCK - 1 - within } else { within };
            if let Some(byte) = bytes.get_mut(block + within) {
                *byte = dice.number() as u8;
            }
        }
    })
    .unwrap();
}

/// Same as [`change_bytes`], but only in pages of rows.
fn change_rows(dice: &mut Dice, disk: &MemDisk) {
    let name = dice.segment(disk);
    disk.edit(&name, &mut |bytes| {
        for _ in 0..1 + dice.below(4) {
            let at = BLOCK + dice.below(BLOCK);
            if let Some(byte) = bytes.get_mut(at) {
                *byte = dice.number() as u8;
            }
        }
    })
    .unwrap();
}

fn move_bytes(dice: &mut Dice, disk: &MemDisk) {
    let from = bytes_of(disk, &dice.name(disk));
    let unit = *dice.pick(&[1, 8, 56, 512, BLOCK]);
    let start = dice.below(from.len() / unit + 1) * unit;
    let part = &from[start.min(from.len())..(start + unit * (1 + dice.below(2))).min(from.len())];
    let name = dice.name(disk);
    disk.edit(&name, &mut |bytes| {
        let at = dice.below(bytes.len() / unit + 1) * unit;
        let end = (at + part.len()).min(bytes.len());
        if at < end {
            bytes[at..end].copy_from_slice(&part[..end - at]);
        }
    })
    .unwrap();
}

fn change_length(dice: &mut Dice, disk: &MemDisk) {
    let name = dice.name(disk);
    disk.edit(&name, &mut |bytes| {
        let unit = *dice.pick(&[1, 128, BLOCK]);
        let change = unit * (1 + dice.below(4));
        let less = bytes.len().saturating_sub(change);
        bytes.resize(if dice.below(2) == 0 { less } else { bytes.len() + change }, 0x5A);
    })
    .unwrap();
}

fn fill_bytes(dice: &mut Dice, disk: &MemDisk) {
    let name = dice.name(disk);
    disk.edit(&name, &mut |bytes| {
        let unit = *dice.pick(&[16, 512, BLOCK]);
        let at = dice.below(bytes.len() / unit + 1) * unit;
        let (end, with) = ((at + unit).min(bytes.len()), *dice.pick(&[0, 0xFF]));
        if let Some(bytes) = bytes.get_mut(at..end) {
            bytes.fill(with);
        }
    })
    .unwrap();
}

fn all_random(dice: &mut Dice, disk: &MemDisk) {
    let name = dice.name(disk);
    let keep = *dice.pick(&[0, 0, 8, 32, 200]);
    disk.edit(&name, &mut |bytes| {
        bytes.iter_mut().skip(keep).for_each(|byte| *byte = dice.0.next_u64() as u8);
    })
    .unwrap();
}

fn mix_files_up(dice: &mut Dice, disk: &MemDisk) {
    let (one, other) = (dice.name(disk), dice.segment(disk));
    match dice.below(3) {
        0 => disk.remove(&one).unwrap(),
        1 => disk.rename(&one, &other).unwrap(),
        _ => {
            let number = dice.below(12);
            disk.rename(&one, &format!("segment-{number:012}.rows")).unwrap();
        }
    }
    if disk.list().unwrap().len() < 2 {
        disk.create("segment-000000000009.rows").unwrap();
    }
}

const BLIND: [Mutate; 6] =
    [change_bytes, move_bytes, change_length, fill_bytes, all_random, mix_files_up];

#[test]
fn changed_files_never_give_a_wrong_row() {
    let opened = fuzz(0, 12_000, Sums::Kept, &BLIND);
    assert!(opened > 200 / shortened(), "{opened} opened");
    // A damaged page does not prevent opening.
    let opened = fuzz(20_000, 4_000, Sums::Kept, &[change_rows]);
    assert!(opened > 3_000 / shortened(), "{opened} opened");
}

/// Changes a number in the manifest, and fits its checksum.
fn change_manifest(dice: &mut Dice, disk: &MemDisk) {
    if !disk.exists(MANIFEST_NAME).unwrap() {
        return;
    }
    let text = String::from_utf8_lossy(&bytes_of(disk, MANIFEST_NAME)).into_owned();
    let Some((_, body)) = text.split_once("\",\n") else { return };
    let mut lines: Vec<String> = body.lines().map(str::to_owned).collect();
    for _ in 0..1 + dice.below(2) {
        let at = dice.below(lines.len());
        let Some((field, _)) = lines[at].split_once(": ") else { continue };
        let comma = if lines[at].ends_with(',') { "," } else { "" };
        let value = match dice.below(8) {
            0 => format!("\"{:016x}\"", dice.number()),
            1 => "null".to_owned(),
            2 => "[]".to_owned(),
            3 => "-1".to_owned(),
            _ => dice.number().to_string(),
        };
        lines[at] = format!("{field}: {value}{comma}");
        if dice.below(12) == 0 {
            lines.remove(at);
        }
    }
    let body = lines.join("\n") + "\n";
    let sum = hash::checksum(body.as_bytes());
    let whole = format!("{{\n  \"checksum\": \"{sum:016x}\",\n{body}");
    disk.edit(MANIFEST_NAME, &mut |bytes| *bytes = whole.clone().into_bytes()).unwrap();
}

/// The place sum of a page, or of a tail.
fn place_sum(segment: u64, page: u32) -> u64 {
    let place = [&5u32.to_le_bytes()[..], &segment.to_le_bytes(), &page.to_le_bytes()].concat();
    hash::checksum(&place)
}

/// Changes a value in the pages, footer or tail of a segment, and fits all checksums, including the
/// manifest's.
fn change_segment(dice: &mut Dice, disk: &MemDisk) {
    let name = dice.segment(disk);
    let number: u64 = name[8..20].parse().unwrap();
    disk.edit(&name, &mut |bytes| {
        if bytes.len() < 3 * BLOCK || !bytes.len().is_multiple_of(BLOCK) {
            return;
        }
        let end = bytes.len();
        let (place, value) = match dice.below(4) {
            // A field of a row's head, or of the header.
            0 => (BLOCK + dice.below(73) * 56 + [0, 8, 12][dice.below(3)], dice.number()),
            1 => (8 + 4 * dice.below(6), dice.number()),
            // A key, a run or a deletion.
            2 => (2 * BLOCK + 4 * dice.below(200), dice.number()),
            // A count, the generation or a use in the tail.
            _ => (end - 128 + 4 * dice.below(28), dice.number()),
        };
        bytes[place..place + 4].copy_from_slice(&(value as u32).to_le_bytes());
        fit_sums(bytes, number);
    })
    .unwrap();
    let whole = bytes_of(disk, &name);
    if let (Some(sum), true) = (whole.last_chunk::<16>(), disk.exists(MANIFEST_NAME).unwrap()) {
        let sum = u64::from_le_bytes(*sum.first_chunk().unwrap());
        tell_manifest(disk, number, sum);
    }
}

/// Fits all sums in a segment of one data page.
fn fit_sums(bytes: &mut [u8], number: u64) {
    let seal = |page: &mut [u8], place: u32| {
        let (body, sum) = page.split_at_mut(BLOCK - 8);
        let value = hash::checksum(body) ^ place_sum(number, place);
        sum.copy_from_slice(&value.to_le_bytes());
        value.to_le_bytes()
    };
    let sums = [seal(&mut bytes[..BLOCK], 0), seal(&mut bytes[BLOCK..2 * BLOCK], 1)].concat();
    let (footer, tail) = bytes[2 * BLOCK..].split_at_mut(BLOCK - 128);
    let count = |at: usize| u32::from_le_bytes(*tail[at..].first_chunk().unwrap()) as usize;
    let length = count(0).saturating_mul(8) + count(4) * 8 + count(8) * 16;
    let footer_sum = hash::checksum(&footer[..length.min(footer.len())]);
    tail[16..24].copy_from_slice(&footer_sum.to_le_bytes());
    tail[24..32].copy_from_slice(&hash::checksum(&sums).to_le_bytes());
    let sum = hash::checksum(&tail[..112]) ^ place_sum(number, u32::MAX);
    tail[112..120].copy_from_slice(&sum.to_le_bytes());
}

/// Writes the sum of a segment's tail into the manifest.
fn tell_manifest(disk: &MemDisk, number: u64, sum: u64) {
    let text = String::from_utf8_lossy(&bytes_of(disk, MANIFEST_NAME)).into_owned();
    let Some((_, body)) = text.split_once("\",\n") else { return };
    let Some((before, rest)) = body.split_once(&format!("\"segment\": {number},")) else { return };
    let Some((between, rest)) = rest.split_once("\"checksum\": \"") else { return };
    let Some(rest) = rest.get(16..) else { return };
    let body = format!("{before}\"segment\": {number},{between}\"checksum\": \"{sum:016x}{rest}");
    let whole = hash::checksum(body.as_bytes());
    let text = format!("{{\n  \"checksum\": \"{whole:016x}\",\n{body}");
    disk.edit(MANIFEST_NAME, &mut |bytes| *bytes = text.clone().into_bytes()).unwrap();
}

#[test]
fn impossible_numbers_under_right_checksums_never_panic() {
    let opened = fuzz(100_000, 6_000, Sums::Fitted, &[change_manifest]);
    assert!(opened > 100 / shortened(), "{opened} opened");
    let opened = fuzz(110_000, 6_000, Sums::Fitted, &[change_segment]);
    assert!(opened > 100 / shortened(), "{opened} opened");
    fuzz(120_000, 4_000, Sums::Fitted, &[change_manifest, change_segment, change_bytes]);
}
