//! Measures rows per second on one thread: from a file (each pass from the start) or the built-in
//! stream, then from the same rows in a packed file. Run `cargo run --release -p stepwell-data
//! --example parse -- [FILE]`.

#![expect(clippy::print_stdout, reason = "the example prints its measurements")]

use std::time::Instant;

use stepwell_base::{ByteCount, hash};
use stepwell_data::{
    Block, Decoder, Input, PackedOptions, PackedWriter, ReadOptions, Reader, Schema, Source,
    SynthOptions, count_lines, resolve,
};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let input = match std::env::args().nth(1) {
        Some(path) => Input::Files(resolve(&[path])?.into()),
        None => Input::synth(&SynthOptions { vocab_scale: 100.0, ..SynthOptions::default() })?,
    };
    if let Input::Files(files) = &input {
        let start = Instant::now();
        let lines = count_lines(&files.paths)?;
        println!("count_lines  {:>12.0} lines/s", lines as f64 / start.elapsed().as_secs_f64());
    }
    let options = ReadOptions::new(Schema::CRITEO);
    for pass in 1..=5 {
        measure(pass, &input, &options)?;
    }
    let folder = tempfile::tempdir()?;
    let packed = pack(&input, &options, folder.path().join("packed"))?;
    for pass in 1..=5 {
        measure(pass, &packed, &options)?;
    }
    Ok(())
}

/// Writes the same examples to a packed file.
fn pack(input: &Input, options: &ReadOptions, path: std::path::PathBuf) -> Outcome<Input> {
    let mut reader = Reader::open(input.clone(), options)?;
    let mut writer = PackedWriter::new(&path, &PackedOptions::new(options.schema))?;
    let (mut chunk, mut seconds) = (reader.chunk(), 0.0);
    while reader.next_chunk(&mut chunk)? {
        let start = Instant::now();
        writer.add(&chunk)?;
        seconds += start.elapsed().as_secs_f64();
    }
    let start = Instant::now();
    let rows = writer.finish()? as f64;
    let (added, synced) = (rows / seconds, start.elapsed().as_secs_f64());
    let bytes = std::fs::metadata(&path)?.len();
    println!(
        "pack  {:.1} bytes a row  add {added:>9.0} rows/s  finish {synced:.2} s",
        bytes as f64 / rows
    );
    Ok(Input::Files(vec![path].into()))
}

fn measure(pass: usize, input: &Input, options: &ReadOptions) -> Outcome<()> {
    let mut source = Source::open(input, options)?;
    let decoder = Decoder::new(input, options.schema);
    let (mut block, mut chunk) = (Block::default(), decoder.chunk());
    let (mut read_seconds, mut decode_seconds) = (0.0, 0.0);
    let (mut rows, mut digest, mut bytes) = (0, 0, 0);
    let mut until = 0;
    loop {
        let start = Instant::now();
        let more = source.next_block(&mut block)?;
        read_seconds += start.elapsed().as_secs_f64();
        if !more {
            break;
        }
        let start = Instant::now();
        decoder.decode(&block, &mut chunk)?;
        decode_seconds += start.elapsed().as_secs_f64();
        // Every 997th key overall, regardless of where blocks are cut.
        for key in chunk.keys.iter().skip(until).step_by(997) {
            digest = hash::checksum(&(digest ^ key.0).to_le_bytes());
            until += 997;
        }
        until -= chunk.keys.len();
        rows += chunk.len();
        bytes = bytes.max(chunk.bytes());
    }
    let rate = |seconds: f64| rows as f64 / seconds;
    println!(
        "pass {pass}  {rows} rows  read {:>9.0} rows/s  decode {:>9.0} rows/s  chunk {}  \
         {digest:016x}",
        rate(read_seconds),
        rate(decode_seconds),
        ByteCount(bytes as u64),
    );
    Ok(())
}
