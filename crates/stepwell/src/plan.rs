//! `stepwell plan`.

use serde_json::{Value, json};
use stepwell_base::ByteCount;
use stepwell_base::budget::{Bound, Budget};
use stepwell_disk::OpenFiles;
use stepwell_engine::TierOptions;
use stepwell_fabric::Network;
use stepwell_settings::{self as settings, Config};
use stepwell_train::forecast::{Forecast, Known, MAKE, Predicted, Profile};
use stepwell_train::{Capacity, Expected};

use crate::cli::PlanArgs;
use crate::failure::Failure;
use crate::planned::memory_note;
use crate::resolve;
use crate::say::{self, Page, put};
use crate::statistics::with_statistics;
use crate::train;
use crate::warm_start::{FromCheckpoint, check_data};

/// Prints the capacity plan and, if a network or a profile is given, the forecast.
pub(crate) fn run(args: &PlanArgs) -> Result<(), Failure> {
    let from = args.from.as_deref().map(FromCheckpoint::open).transpose()?;
    let base = from.as_ref().map(FromCheckpoint::base);
    let (config, chosen) = resolve::config(&args.settings, base).map_err(Failure::Usage)?;
    if from.is_some() {
        check_data(&config)?;
    }
    train::check(&config, &chosen).map_err(Failure::Usage)?;
    resolve::check_files(&config)?;
    let known = known(args, &config)?;
    resolve::idle_notes(&chosen, &config).iter().for_each(say::note);
    let config = match &from {
        None => with_statistics(&config)?,
        Some(from) => from.with_statistics(config)?,
    };
    let expected =
        Expected { from: from.as_ref().map(FromCheckpoint::checkpoint), rows: args.rows };
    let (mut capacity, forecast) = match &known {
        None => (stepwell_train::plan(&config, &expected)?, None),
        Some(known) => {
            let planned = stepwell_train::forecast(&config, &expected, known);
            let (capacity, forecast) = planned?;
            (capacity, Some(forecast))
        }
    };
    if forecast.is_some() && !config.in_step() {
        let note = "ranks would be out of step; the forecast is for ranks in step";
        capacity.notes.push(note.to_owned());
    }
    capacity.notes.extend(memory_note(&config));
    let index_note = capacity.index_note(&config, &expected);
    capacity.notes.extend(index_note);
    let ranks = config.ranks.count;
    let disk = capacity.disk(&config, args.rows);
    if args.json {
        let whole = of_machines(&capacity, ranks, disk.as_ref(), forecast.as_ref());
        return say::whole(&format!("{whole:#}\n"));
    }
    let mut page = page(&capacity, ranks);
    match disk {
        Some(disk) => put!(page, "disk at most{}:\n{disk}", of_all(ranks)),
        None => put!(page, "disk: unknown without the number of rows; give --rows N"),
    }
    put_notes(&mut page, &capacity);
    if let (Some(forecast), Some(known)) = (&forecast, &known) {
        put!(page);
        put_forecast(&mut page, forecast, known);
    }
    page.say()
}

/// The given network and profile of one rank; `None` if neither is given.
fn known(args: &PlanArgs, config: &Config) -> Result<Option<Known>, Failure> {
    if args.network.is_none() && args.profile.is_none() {
        return Ok(None);
    }
    let network = args.network.as_deref().map(str::parse::<Network>).transpose();
    let network = network.map_err(|why| Failure::Usage(format!("--network {why}")))?;
    if network.is_some() && config.ranks.count < 2 {
        let why = "--network joins several ranks, and ranks is 1: give --ranks 2 or more";
        return Err(Failure::Usage(why.to_owned()));
    }
    let settings = settings::to_json(&config.with_rates());
    let profile = args.profile.as_deref().map(|path| Profile::read(path, &settings));
    let profile = profile.transpose().map_err(|error| Failure::Usage(error.to_string()))?;
    Ok(Some(Known { network, profile }))
}

/// The settings that `memory` is divided into.
fn shared_out(capacity: &Capacity) -> [(&'static str, ByteCount); 4] {
    let TierOptions { dram, index, harvest, segment, .. } = *capacity.tiers.options();
    [
        ("tiers.dram", dram),
        ("tiers.index", index),
        ("tiers.harvest", harvest),
        ("tiers.segment", segment),
    ]
}

fn put_notes(page: &mut Page, capacity: &Capacity) {
    for note in capacity.tight.iter().chain(&capacity.notes) {
        put!(page, "note: {note}");
    }
}

/// The plan of a rank, and the sum over ranks if there are several.
pub(crate) fn page(capacity: &Capacity, ranks: usize) -> Page {
    let mut page = Page::default();
    let whose = if ranks > 1 { " of each rank" } else { "" };
    put!(page, "memory at most{whose}:\n{}", capacity.budget);
    if ranks > 1 {
        let all = ByteCount(capacity.budget.total().saturating_mul(ranks as u64)).to_string();
        put!(page, "  {:<22}{all:>12}  {ranks} ranks", "all ranks");
    }
    if let Some(memory) = capacity.memory {
        let shared = shared_out(capacity);
        let shared = shared.map(|(key, bytes)| format!("{key} = {bytes}")).join(", ");
        put!(page, "  {:<22}{:>12}  {shared}", "memory", memory.to_string());
    }
    if let Some(devices) = &capacity.devices {
        let names = devices.offer.said();
        let whose = if ranks > 1 { "; each rank has its own" } else { "" };
        put!(page, "memory of each device at most ({names}{whose}):\n{}", devices.budget());
    }
    let open = OpenFiles::of_process().stats().bound;
    let why = "of the stores (ulimit -n); more only while all are in use";
    put!(page, "  {:<22}{open:>12}  {why}", "files open at once");
    page
}

fn of_all(ranks: usize) -> &'static str {
    if ranks > 1 { " of all ranks" } else { "" }
}

fn put_forecast(page: &mut Page, forecast: &Forecast, known: &Known) {
    let ranks = forecast.ranks;
    if ranks > 1 {
        let sent = forecast.sent;
        put!(
            page,
            "what the link of rank 0 carries each way, in bytes for an example of any rank:"
        );
        let keys = format!("{:.0} distinct ones in its part of a mini-batch", forecast.keys);
        for (name, bytes, why) in [
            ("keys", sent.ask, keys.as_str()),
            ("weights", sent.answer, "of rows that others ask for"),
            ("gradients and scores", sent.said, "summed over its blocks"),
            ("dense gradients", sent.summed, "summed over all ranks"),
            ("all", sent.sum(), "of other ranks nearly as much"),
        ] {
            put!(page, "  {name:<22}{bytes:>12.1}  {why}");
        }
    }
    if let Some(network) = &forecast.network {
        put_predicted(page, "the network alone allows", network);
    }
    if let Some(predicted) = &forecast.one_machine {
        let all = format!("{ranks} ranks as threads of one process would train");
        put_predicted(page, if ranks > 1 { &all } else { "one rank would train" }, predicted);
    }
    if let Some(predicted) = &forecast.machines {
        put_predicted(page, &format!("{ranks} ranks on as many machines would train"), predicted);
    }
    if known.profile.is_none() {
        put!(page, "the ranks' compute speed is not known: make a profile on such a machine with");
        put!(page, "  {MAKE}");
        put!(page, "and the same settings, and give it as --profile FILE");
    }
}

/// Ratio of a profile's time to its work above which the machine was also doing other work.
const SLACK_MUCH: f64 = 1.5;
/// Microseconds per second.
const MICROS: f64 = 1e6;

fn put_predicted(page: &mut Page, what: &str, predicted: &Predicted) {
    let Predicted { examples_per_second, bound, processor_seconds, slack, parts } = predicted;
    put!(page, "{what} {examples_per_second:.0} examples/s, bound by {bound}; for an example:");
    for part in parts {
        let why = if part.in_step { "part of a step" } else { "" };
        let line = format!("  {:<22}{:>12.3} us  {why}", part.name, part.seconds * MICROS);
        put!(page, "{}", line.trim_end());
    }
    if *slack > SLACK_MUCH {
        put!(
            page,
            "  the profile's run took {slack:.1} times as long as its work explains: make the \
             profile on an idle machine"
        );
    }
    if *processor_seconds > 0.0 {
        let all = processor_seconds * MICROS;
        put!(page, "  {:<22}{all:>12.3} us  of all ranks", "processor time");
        put!(
            page,
            "  {:<22}{slack:>12.3}     of cores and steps in the profile",
            "time over their own"
        );
    }
}

/// The plan and the forecast as JSON.
fn of_machines(
    capacity: &Capacity,
    ranks: usize,
    disk: Option<&Budget>,
    forecast: Option<&Forecast>,
) -> Value {
    let bounds = |budget: &Budget| -> Vec<Value> {
        let bound = |of: &Bound| json!({ "name": of.name, "bytes": of.bytes, "why": of.why });
        budget.bounds().iter().map(bound).collect()
    };
    let devices = capacity.devices.as_ref().map(|devices| {
        let (names, budget) = (&devices.offer.names, devices.budget());
        json!({ "names": names, "memory": bounds(&budget), "memory_bytes": budget.total() })
    });
    json!({
        "ranks": ranks,
        "devices": devices,
        "memory": bounds(&capacity.budget),
        "memory_bytes": capacity.budget.total(),
        "shared_out": capacity.memory.map(|_| {
            let shared = shared_out(capacity).map(|(key, bytes)| (key.to_owned(), json!(bytes.0)));
            Value::Object(shared.into_iter().collect())
        }),
        "disk": disk.map(bounds),
        "disk_bytes": disk.map(Budget::total),
        "tight": capacity.tight,
        "notes": capacity.notes,
        "files_open_max": OpenFiles::of_process().stats().bound,
        "forecast": forecast,
    })
}
