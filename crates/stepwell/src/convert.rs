//! `stepwell convert`: parses once, so that later runs and epochs need not.
//!
//! - **How.** One thread reads blocks and passes them to parsing threads in rotation. The main
//!   thread takes chunks from them in the same rotation and writes them, so that examples keep
//!   their order without being numbered.
//! - **Failure.** The first error in the order of the input ends the conversion and removes the
//!   file.
//! - **Bounds.** Two blocks and two chunks for each parsing thread.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, Scope};
use std::time::Instant;

use serde_json::json;
use stepwell_base::ByteCount;
use stepwell_base::stop::StopRequest;
use stepwell_data::{
    Block, Chunk, CutColumn, CutLists, DataError, Decoder, Files, Input, Layout, NameNotes,
    PackedOptions, PackedWriter, ReadOptions, Schema, Skips, Source, SynthOptions, names_notes,
    recordless_note, repeated_note, resolve,
};
use stepwell_engine::process_limits::{Wants, lacks};
use stepwell_settings::{self as settings, Config};

use crate::cli::ConvertArgs;
use crate::failure::Failure;
use crate::outputs;
use crate::progress::Counting;
use crate::say::{self, tell};
use crate::settings_file;
use crate::signals::Signals;
use crate::statistics::with_statistics;

/// Most parsing threads.
const THREADS_MAX: usize = 1024;

type Parsed = Result<Box<Chunk>, DataError>;

/// Writes a packed file.
pub(crate) fn run(args: &ConvertArgs) -> Result<(), Failure> {
    // Before any output is tried, so that an interruption leaves no file.
    let signals = Signals::heed()?;
    if args.json {
        say::aside();
    }
    let line = format!("interrupted: nothing is left in {}", args.out.display());
    write(args, &signals).map_err(|failure| signals.or_interrupted(failure, &line))
}

fn write(args: &ConvertArgs, signals: &Signals) -> Result<(), Failure> {
    let (path, began) = (args.out.display(), Instant::now());
    if let Some(threads) = args.threads.filter(|threads| !(1..=THREADS_MAX).contains(threads)) {
        let why = format!("--threads {threads}: give 1 to {THREADS_MAX}");
        return Err(Failure::Usage(why));
    }
    let layout = layout(args)?;
    let input = input(args, layout)?;
    let unfinished = PackedWriter::unfinished(&args.out);
    let out = ("--out", Some(args.out.as_path()));
    // The unfinished file must not be an input either.
    let read = [input.files(), args.config.as_slice()].concat();
    outputs::check(&[out, ("--out", Some(&unfinished))], &read)?;
    if args.out.exists() && !args.out.is_file() {
        let why = "is not a file: name another place for a packed file";
        return Err(Failure::Usage(format!("{path} {why}")));
    }
    if args.out.exists() && !args.force {
        return Err(Failure::Usage(format!("{path} exists; replace it with --force")));
    }
    let layout = input.layout().map(Arc::as_ref);
    let recordless = recordless_note(input.files(), layout, "files");
    let repeated = repeated_note(input.files(), "files");
    let NameNotes { notes, warnings } = match &input {
        Input::Files(files) => names_notes(files)?,
        _ => NameNotes::default(),
    };
    recordless.iter().chain(&repeated).chain(&notes).for_each(say::note);
    warnings.iter().for_each(say::warn);
    let Converted { examples, skipped, cut_lists } = convert(args, &input, &signals.stop())??;
    cut_lists.iter().for_each(|column| say::note(column.note()));
    let bytes = std::fs::metadata(&args.out).map_or(0, |about| about.len());
    let rate = examples as f64 / began.elapsed().as_secs_f64().max(1e-9);
    if args.json {
        let seconds = began.elapsed().as_secs_f64();
        return say::json(&json!({
            "out": say::path(&args.out),
            "examples": examples,
            "skipped_lines": skipped,
            "cut_lists": cut_lists,
            "bytes": bytes,
            "seconds": seconds,
        }));
    }
    tell!("{examples} examples in {path}, {}, {rate:.0} examples/s", ByteCount(bytes));
    if skipped > 0 {
        tell!("{skipped} malformed lines were skipped");
    }
    Ok(())
}

/// The columns of the data; `None` if they are plain.
fn layout(args: &ConvertArgs) -> Result<Option<Arc<Layout>>, Failure> {
    let config = with_statistics(&config(args).map_err(Failure::Usage)?)?;
    config.layout().map_err(Failure::Usage)
}

/// The settings of the data.
fn config(args: &ConvertArgs) -> Result<Config, String> {
    let mut config = Config::default();
    if let Some(path) = &args.config {
        settings_file::read(path, &mut config)?;
    }
    if let Some(preset) = &args.preset {
        settings::find("data.preset")?.set(&mut config, preset)?;
        if !config.columns.is_empty() {
            return Err(format!(
                "--preset {preset} defines the columns, and so does --config: give one of them"
            ));
        }
    }
    config.data.paths = args.inputs.iter().map(|of| of.to_string_lossy().into_owned()).collect();
    Ok(config)
}

fn input(args: &ConvertArgs, layout: Option<Arc<Layout>>) -> Result<Input, DataError> {
    if !args.synth {
        let paths = resolve(&args.inputs)?;
        return Ok(Input::Files(Files { paths, layout }));
    }
    Input::synth(&SynthOptions {
        seed: args.seed,
        examples: args.examples,
        vocab_scale: args.vocab_scale,
        ..SynthOptions::default()
    })
}

/// Figures of a written file.
struct Converted {
    examples: u64,
    /// Malformed lines that were skipped.
    skipped: u64,
    cut_lists: Vec<CutColumn>,
}

/// Converts the input; the inner error says why there is no file.
fn convert(
    args: &ConvertArgs,
    input: &Input,
    stop: &StopRequest,
) -> Result<Result<Converted, String>, DataError> {
    // Packed files with bags of any size may be joined and packed again.
    let layout = input.layout().map(Arc::as_ref);
    let schema = layout.map_or(Schema::CRITEO, Layout::schema);
    let options = ReadOptions { example_keys_max: usize::MAX, ..ReadOptions::new(schema) };
    let source = Source::open(input, &options)?;
    let mut writer = PackedWriter::new(&args.out, &PackedOptions::laid_out(schema, layout))?;
    let decoder = Decoder::new(input, options.schema);
    let threads = args.threads.unwrap_or_else(cores);
    let total = matches!(input, Input::Stream(_)).then_some(args.examples);
    let mut cut_lists = CutLists::default();
    let (mut skips, mut progress) = (Skips::new(args.skip_max), Counting::new("examples", total));
    // A thread that starts with too little address space aborts the program.
    let wants = Wants { bytes: 0, mapped: 0, threads: threads as u64, processes: 1 };
    if let Some(why) = lacks(&wants) {
        return Ok(Err(format!("--threads {threads}: {why}; give fewer")));
    }
    let outcome = std::thread::scope(|scope| {
        let chunks = match start(scope, threads, source, &decoder) {
            Ok(chunks) => chunks,
            Err(why) => return Ok(Err(format!("--threads {threads}: {why}; give fewer"))),
        };
        // Returning an error drops the receivers, which ends the other threads.
        let turns = (0..threads).cycle();
        for chunk in turns.map_while(|turn| chunks[turn].recv().ok()) {
            if stop.is_made() {
                return Err(DataError::Stopped);
            }
            let chunk = chunk?;
            skips.add(input.files(), &chunk)?;
            writer.add(&chunk)?;
            cut_lists.add(&chunk, chunk.len());
            progress.at(writer.examples());
        }
        Ok(Ok(()))
    });
    progress.finish();
    if let Err(why) = outcome? {
        return Ok(Err(why));
    }
    if writer.examples() == 0 {
        let skipped = skips.skipped();
        return Ok(Err(format!(
            "the input has no examples ({skipped} malformed lines were skipped): nothing was \
             written"
        )));
    }
    let cut_lists = layout.map_or_else(Vec::new, |layout| cut_lists.of(layout));
    Ok(Ok(Converted { examples: writer.finish()?, skipped: skips.skipped(), cut_lists }))
}

fn cores() -> usize {
    stepwell_base::cores().min(THREADS_MAX)
}

/// Starts the reading thread and the parsing threads; chunks come from the receivers in rotation.
///
/// # Errors
/// If the system cannot start so many threads; those already running end.
fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    threads: usize,
    source: Source,
    decoder: &'scope Decoder,
) -> io::Result<Vec<Receiver<Parsed>>> {
    let (mut blocks, mut chunks) = (Vec::new(), Vec::new());
    for _ in 0..threads {
        let (block_sender, block_receiver) = sync_channel(1);
        let (chunk_sender, chunk_receiver) = sync_channel(1);
        blocks.push(block_sender);
        chunks.push(chunk_receiver);
        let work = move || parse(decoder, &block_receiver, &chunk_sender);
        Builder::new().spawn_scoped(scope, work)?;
    }
    Builder::new().spawn_scoped(scope, move || read(source, &blocks))?;
    Ok(chunks)
}

/// Sends the blocks of `source`, or the error that ends them, in rotation until a receiver is gone.
fn read(mut source: Source, blocks: &[SyncSender<Result<Block, DataError>>]) {
    for turn in (0..blocks.len()).cycle() {
        let mut block = Block::default();
        let next = match source.next_block(&mut block) {
            Ok(true) => Ok(block),
            Ok(false) => return,
            Err(error) => Err(error),
        };
        let last = next.is_err();
        if blocks[turn].send(next).is_err() || last {
            return;
        }
    }
}

/// Parses the blocks that one thread receives.
fn parse(
    decoder: &Decoder,
    blocks: &Receiver<Result<Block, DataError>>,
    chunks: &SyncSender<Parsed>,
) {
    for block in blocks {
        let mut chunk = Box::new(decoder.chunk());
        let parsed = block.and_then(|block| decoder.decode(&block, &mut chunk)).map(|()| chunk);
        if chunks.send(parsed).is_err() {
            return;
        }
    }
}
