//! Random 4 KiB reads of many held files, one by one: the time of each.
//!
//! `cargo run --release -p stepwell-disk --example files -- DIR [FILES [THREADS [SECONDS]]]`
//!
//! The files are made in DIR, have a block each, and are read through the page cache, so the
//! example measures the overhead of access. With more files than a third of `ulimit -n` (the most
//! that may be open), most reads reopen theirs.

#![expect(clippy::print_stdout, reason = "it prints what it measured")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use stepwell_base::random::Stream;
use stepwell_disk::{BLOCK_BYTES, Disk, File, FileDisk};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |at: usize, unless: &'static str| {
        arguments.get(at).map_or(unless, String::as_str).to_owned()
    };
    let path = arguments.first().ok_or("give a directory, then files, threads, seconds")?;
    let (files, threads): (u64, u64) = (argument(1, "1").parse()?, argument(2, "1").parse()?);
    let limit = Duration::from_secs_f64(argument(3, "2").parse()?);
    let disk = FileDisk::open(Path::new(path))?;
    let made = make(&disk, files)?;
    let reads: u64 = thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn({
                    let made = &made;
                    move || read(made, limit, thread).map_err(|e| e.to_string())
                })
            })
            .collect();
        let joined = running.into_iter().map(|thread| thread.join().map_err(|_| "panicked")?);
        joined.sum::<Result<u64, String>>()
    })?;
    let took = limit.as_nanos() as f64 * threads as f64 / reads as f64;
    println!("{files} files, {threads} threads: {took:.0} ns a read");
    drop(made);
    for number in 0..files {
        disk.remove(&format!("file-{number}"))?;
    }
    Ok(())
}

fn make(disk: &FileDisk, files: u64) -> stepwell_disk::Result<Vec<Arc<dyn File>>> {
    (0..files)
        .map(|number| {
            let name = format!("file-{number}");
            disk.create(&name)?.write_at(0, &[number as u8; BLOCK_BYTES])?;
            disk.open(&name)
        })
        .collect()
}

fn read(files: &[Arc<dyn File>], limit: Duration, thread: u64) -> stepwell_disk::Result<u64> {
    let mut dice = Stream::named(thread, b"files");
    let (mut buffer, mut reads) = ([0; BLOCK_BYTES], 0);
    let start = Instant::now();
    while start.elapsed() < limit {
        for _ in 0..64 {
            let file = dice.next_u64() % files.len() as u64;
            files[file as usize].read_at(0, &mut buffer)?;
        }
        reads += 64;
    }
    Ok(reads)
}
