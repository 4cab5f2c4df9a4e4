//! Rows per second of one thread, from a file (each pass from the start) or from the built-in
//! stream: `cargo run --release -p stepwell-data --example parse -- [FILE]`.

#![expect(clippy::print_stdout, reason = "the example prints its measurements")]

use std::time::Instant;

use stepwell_base::{ByteCount, hash};
use stepwell_data::{
    Block, Decoder, Input, ReadOptions, Schema, Source, SynthOptions, count_lines, resolve,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let input = match std::env::args().nth(1) {
        Some(path) => Input::Files(resolve(&[path])?),
        None => Input::synth(&SynthOptions { vocab_scale: 100.0, ..SynthOptions::default() })?,
    };
    if let Input::Files(files) = &input {
        let start = Instant::now();
        let lines = count_lines(files)?;
        println!("count_lines  {:>12.0} lines/s", lines as f64 / start.elapsed().as_secs_f64());
    }
    let options = ReadOptions::new(Schema::CRITEO);
    for pass in 1..=5 {
        measure(pass, &input, &options)?;
    }
    Ok(())
}

fn measure(
    pass: usize,
    input: &Input,
    options: &ReadOptions,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut source = Source::open(input, options)?;
    let decoder = Decoder::new(input, options.schema);
    let (mut block, mut chunk) = (Block::default(), decoder.chunk());
    let (mut read_seconds, mut decode_seconds) = (0.0, 0.0);
    let (mut rows, mut digest, mut bytes) = (0, 0, 0);
    loop {
        let start = Instant::now();
        let more = source.next_block(&mut block)?;
        read_seconds += start.elapsed().as_secs_f64();
        if !more {
            break;
        }
        let start = Instant::now();
        decoder.decode(&block, &mut chunk);
        decode_seconds += start.elapsed().as_secs_f64();
        rows += chunk.len();
        bytes = bytes.max(chunk.bytes());
        for key in chunk.keys.iter().step_by(997) {
            digest = hash::checksum(&(digest ^ key.0).to_le_bytes());
        }
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
