//! `stepwell-lab cache-sim`.

use std::collections::HashSet;
use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;

use stepwell_cache_sim::{Candidate, Figures, Options, ReadOptions, Reads};
use stepwell_cli::say::{self, Page, put};
use stepwell_cli::{Failure, outputs};

use crate::cli::{CacheSimArgs, file_of, is_said};
use crate::end::OrEnd;

/// Tries policies on traces and prints a table for each.
pub(crate) fn run(args: &CacheSimArgs) -> Result<(), Failure> {
    let format = match args.format.as_str() {
        "auto" => None,
        name => Some(name.parse().map_err(|why| Failure::Usage(format!("--format: {why}")))?),
    };
    let policies = match args.policies.as_str() {
        "all" => Candidate::ALL.to_vec(),
        names => list("--policies", names).map_err(Failure::Usage)?,
    };
    let options = Options {
        format,
        policies,
        sizes: list("--sizes", &args.sizes).map_err(Failure::Usage)?,
        mini_batch: args.mini_batch,
        horizon: args.window,
        reads: reads(args),
    };
    once("TRACE", args.traces.iter().map(|path| path.display().to_string()))
        .map_err(Failure::Usage)?;
    once("--sizes", options.sizes.iter().map(ToString::to_string)).map_err(Failure::Usage)?;
    once("--policies", options.policies.iter().map(|kind| kind.name().to_owned()))
        .map_err(Failure::Usage)?;
    if let Some(path) = &args.picture {
        stepwell_cache_sim::check_picture(path).or_end()?;
    }
    let outputs = [("--json", file_of(&args.json)), ("--svg", args.picture.as_deref())];
    outputs::check(&outputs, &args.traces)?;
    file_of(&args.json).map_or(Ok(()), refuse_trace)?;
    // Checked before the first long computation, whose figures a later error would lose.
    for trace in &args.traces {
        let usable = stepwell_cache_sim::probe(trace, &options);
        usable.map_err(|error| Failure::Usage(error.to_string()))?;
    }
    let said_as_json = is_said(&args.json);
    let to_files = file_of(&args.json).is_some() || args.picture.is_some();
    let (mut all, mut said) = (Vec::new(), Ok(()));
    for trace in &args.traces {
        let figures = stepwell_cache_sim::run(trace, &options).or_end()?;
        if said_as_json {
            all.push(figures);
            continue;
        }
        let mut page = Page::default();
        if !all.is_empty() {
            put!(page);
        }
        show(&mut page, &figures);
        // Figures that also go into files are computed even if nobody reads the output.
        said = match page.say() {
            Err(failure) if !to_files => return Err(failure),
            now => said.and(now),
        };
        all.push(figures);
    }
    if let Some(path) = &args.picture {
        let picture = stepwell_cache_sim::draw(&all).or_end()?;
        outputs::write_text(path, &picture)?;
    }
    outputs::write(file_of(&args.json), &all)?;
    if said_as_json { say::json(&all) } else { said }
}

/// Refuses to write figures over a file that may be a trace named after `--json`.
fn refuse_trace(path: &Path) -> Result<(), String> {
    if path.is_file() && path.extension().is_none_or(|end| end != "json") {
        return Err(format!(
            "--json {0}: {0} exists and is not named .json: if it is a trace, write --json=- \
             before it, otherwise remove it",
            path.display()
        ));
    }
    Ok(())
}

/// Options of reads; `None` if none of them is given.
fn reads(args: &CacheSimArgs) -> Option<ReadOptions> {
    let CacheSimArgs { rows_per_page, read_unit, harvest, .. } = args;
    rows_per_page.or(*read_unit).or(*harvest)?;
    Some(ReadOptions {
        rows_per_page: rows_per_page.unwrap_or(ReadOptions::ROWS_PER_PAGE),
        read_unit: read_unit.unwrap_or(1),
        harvest: harvest.unwrap_or(0),
    })
}

/// Refuses a name that is given twice.
fn once(what: &str, names: impl Iterator<Item = String>) -> Result<(), String> {
    let mut before = HashSet::new();
    for name in names {
        if before.contains(&name) {
            return Err(format!("{what}: {name} is given twice; give it once"));
        }
        before.insert(name);
    }
    Ok(())
}

/// The values in `text`, separated by commas.
fn list<T>(flag: &str, text: &str) -> Result<Vec<T>, String>
where
    T: FromStr,
    T::Err: Display,
{
    let values = text.split(',').map(|value| value.trim().parse());
    values.collect::<Result<_, _>>().map_err(|why: T::Err| format!("{flag}: {why}"))
}

fn show(page: &mut Page, figures: &Figures) {
    put!(
        page,
        "{} ({}): {} accesses, {} look-ups of {} keys",
        figures.trace.display(),
        figures.format,
        figures.accesses,
        figures.look_ups,
        figures.keys
    );
    if figures.mini_batch > 1 || figures.horizon > 0 {
        let (mini_batch, horizon) = (figures.mini_batch, figures.horizon);
        put!(page, "mini-batches of {mini_batch} accesses, {horizon} of them known in advance");
    }
    line(page, "size", &figures.sizes);
    line(page, "slots", &figures.slots);
    for row in &figures.rows {
        let rates: Vec<_> = row.hit_rates.iter().map(|rate| format!("{rate:.4}")).collect();
        line(page, &row.policy, &rates);
    }
    if let Some(options) = &figures.reads {
        show_reads(page, figures, options);
    }
}

fn line(page: &mut Page, name: &str, cells: &[impl Display]) {
    let cells: String = cells.iter().map(|cell| format!("{:>12}", cell.to_string())).collect();
    put!(page, "{name:<16}{cells}");
}

fn show_reads(page: &mut Page, figures: &Figures, options: &ReadOptions) {
    let ReadOptions { rows_per_page, read_unit, harvest } = options;
    put!(
        page,
        "reads: pages of {rows_per_page} rows, {read_unit} a read, {harvest} rows harvested at once"
    );
    for row in figures.rows.iter().filter(|row| !row.reads.is_empty()) {
        let cells = |of: fn(&Reads) -> u64| row.reads.iter().map(of).collect::<Vec<_>>();
        line(page, &row.policy, &cells(|reads| reads.reads));
        let rates: Vec<_> =
            row.reads.iter().map(|reads| format!("{:.5}", reads.reads_per_access)).collect();
        line(page, "  an access", &rates);
        if *harvest > 0 {
            line(page, "  harvested", &cells(|reads| reads.harvested));
            line(page, "  of them used", &cells(|reads| reads.used));
            line(page, "  dropped", &cells(|reads| reads.dropped));
        }
    }
}
