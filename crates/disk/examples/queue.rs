//! Random 4 KiB reads of a file through a queue: operations per second, processor time of each.
//!
//! `cargo run --release -p stepwell-disk --example queue -- FILE [DEPTH [SECONDS [ENGINE]]]`
//! with ENGINE one of auto, uring, pool.

#![expect(clippy::print_stdout, reason = "it prints what it measured")]

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use stepwell_base::random::Stream;
use stepwell_disk::{BLOCK_BYTES, Disk, Engine, FileDisk, QueueOptions, Wait};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |at: usize, unless: &'static str| {
        arguments.get(at).map_or(unless, String::as_str).to_owned()
    };
    let path = arguments.first().ok_or("give a file to read, then depth, seconds, engine")?;
    let depth: usize = argument(1, "128").parse()?;
    let seconds = Duration::from_secs_f64(argument(2, "5").parse()?);
    let engine = match argument(3, "auto").as_str() {
        "auto" => Engine::Auto,
        "uring" => Engine::Uring,
        "pool" => Engine::Pool,
        other => return Err(format!("there is no engine '{other}'").into()),
    };
    let path = Path::new(path);
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let disk = FileDisk::with_engine(parent.unwrap_or(Path::new(".")), engine)?;
    let name =
        path.file_name().and_then(|name| name.to_str()).ok_or("the file's name is not text")?;
    let (reads, took, processor) = read(&disk, name, depth, seconds)?;
    println!(
        "{} depth {depth}: {:.0} reads/s, {:.1} MB/s, {:.2} us of processor a read",
        disk.engine(),
        reads as f64 / took,
        (reads * BLOCK_BYTES as u64) as f64 / took / 1e6,
        processor * 1e6 / reads as f64,
    );
    Ok(())
}

/// Reads until the time is up; returns the number of reads, seconds, and processor seconds.
fn read(
    disk: &FileDisk,
    name: &str,
    depth: usize,
    limit: Duration,
) -> Result<(u64, f64, f64), Box<dyn Error>> {
    let file = disk.open_direct(name)?;
    let blocks = file.len()? / BLOCK_BYTES as u64;
    if blocks == 0 {
        return Err("the file has no whole block".into());
    }
    let mut queue = disk.queue(QueueOptions { depth, read_bytes: depth * BLOCK_BYTES })?;
    let mut dice = Stream::named(1, b"places");
    let (mut reads, mut checksum, mut failure) = (0, 0, None);
    let (start, processor) = (Instant::now(), processor_seconds()?);
    while start.elapsed() < limit && failure.is_none() {
        while queue.in_flight() < depth {
            let offset = dice.next_u64() % blocks * BLOCK_BYTES as u64;
            if !queue.read(0, &file, offset, BLOCK_BYTES)? {
                break;
            }
        }
        reads += queue.complete(Wait::ForOne, &mut |done| match done.outcome {
            Ok(bytes) => checksum ^= u64::from(bytes[0]),
            Err(error) => failure = Some(error),
        })? as u64;
    }
    std::hint::black_box(checksum);
    match failure {
        Some(error) => Err(error.into()),
        None => Ok((reads, start.elapsed().as_secs_f64(), processor_seconds()? - processor)),
    }
}

/// Processor seconds of this process so far, from ticks of a hundredth.
fn processor_seconds() -> Result<f64, Box<dyn Error>> {
    let line = std::fs::read_to_string("/proc/self/stat")?;
    // The fields after the name, which is in parentheses: the 12th and 13th are the ticks.
    let fields = line.rsplit(')').next().unwrap_or_default();
    let ticks: Result<Vec<u64>, _> =
        fields.split_whitespace().skip(11).take(2).map(str::parse).collect();
    Ok(ticks?.iter().sum::<u64>() as f64 / 100.0)
}
