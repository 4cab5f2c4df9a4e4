//! `stepwell-lab study`.

use std::path::PathBuf;

use serde::Serialize;
use stepwell_cli::say::{self, Page, put};
use stepwell_cli::{Failure, outputs};
use stepwell_study::{Costs, Effort, Plot, ctr, draw, geeps, hash, rdma_wild, rna};

use crate::cli::{
    CostsArgs, CtrStudyArgs, GivenCosts, HashStudyArgs, OneStudyArgs, RnaArgs, StudyArgs, StudyJob,
    file_of, is_said,
};
use crate::end::OrEnd;

/// Runs a paper's experiments on a virtual clock.
pub(crate) fn run(args: &StudyArgs) -> Result<(), Failure> {
    let say = &mut |what: &str| say::remark(what);
    match &args.job {
        StudyJob::RdmaWild(args) => {
            check(args, &[])?;
            let (effort, part, seed) = (args.effort(), args.part as usize, args.seed);
            let options = rdma_wild::StudyOptions { effort, part, seed };
            let figures = rdma_wild::run(&args.data, &options, say).or_end()?;
            end(outs(args), &figures, &rdma_wild::page(&figures), || rdma_wild::plots(&figures))
        }
        StudyJob::Ctr(args) => run_ctr(args, say),
        StudyJob::Hash(args) => run_hash(args, say),
        StudyJob::Costs(args) => run_costs(args),
        StudyJob::Rna(RnaArgs { study: args, seeds, costs }) => {
            check(args, costs.costs.as_slice())?;
            let (effort, part, seed) = (args.effort(), args.part as usize, args.seed);
            let costs = costs.read().or_end()?;
            let seeds = seeds.unwrap_or(if args.quick { 1 } else { 3 });
            let options = rna::StudyOptions { effort, part, seed, seeds, costs };
            let figures = rna::run(&args.data, &options, say).or_end()?;
            end(outs(args), &figures, &rna::page(&figures), || rna::plots(&figures))
        }
        StudyJob::Geeps(args) => {
            check(args, &[])?;
            let (effort, part, seed) = (args.effort(), args.part as usize, args.seed);
            let options = geeps::StudyOptions { effort, part, seed };
            let figures = geeps::run(&args.data, &options, say).or_end()?;
            end(outs(args), &figures, &geeps::page(&figures), || geeps::plots(&figures))
        }
    }
}

/// Refuses, before anything is computed, outputs that cannot be written or would replace `inputs`
/// or the data.
fn check(args: &OneStudyArgs, inputs: &[PathBuf]) -> Result<(), Failure> {
    let files = [("--json", file_of(&args.json)), ("--svg", args.svg.as_deref())];
    outputs::check(&files, &[std::slice::from_ref(&args.data), inputs].concat())
}

impl OneStudyArgs {
    fn effort(&self) -> Effort {
        if self.quick { Effort::Quick } else { Effort::Full }
    }
}

impl GivenCosts {
    fn read(&self) -> stepwell_study::Result<Costs> {
        self.costs.as_deref().map_or(Ok(Costs::GIVEN), Costs::read)
    }
}

fn run_costs(args: &CostsArgs) -> Result<(), Failure> {
    outputs::check(&[("--json", file_of(&args.json))], &[])?;
    let costs = Costs::measure().or_end()?;
    let text = format!(
        "a message         {:.2} us, and {:.2} GB/s of what it holds\n\
         of it, sending    {:.2} us\n\
         adding vectors    {:.2} GB/s read and written",
        1e6 * (costs.latency_seconds + costs.seconds_per_message),
        costs.bytes_per_second / 1e9,
        1e6 * costs.seconds_per_message,
        costs.arithmetic_bytes_per_second / 1e9
    );
    give(&args.json, &costs, &text)
}

fn run_ctr(args: &CtrStudyArgs, say: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    let CtrStudyArgs { data, part, seed, seeds, dram, costs, json } = args;
    // Expands a pattern to the files that match.
    let mut inputs = stepwell_data::resolve(&[data])?;
    inputs.extend(costs.costs.clone());
    outputs::check(&[("--json", file_of(json))], &inputs)?;
    let costs = costs.read().or_end()?;
    let (part, seed, seeds) = (*part as usize, u64::from(*seed), *seeds as usize);
    if let Some(dram) = dram.filter(|dram| *dram < ctr::DRAM_LEAST) {
        let why = format!("--dram of {} bytes: give at least {}", dram.0, ctr::DRAM_LEAST);
        return Err(Failure::Usage(why));
    }
    let options = ctr::StudyOptions { part, seed, seeds, dram: *dram, costs };
    let figures = ctr::run(data, &options, say).or_end()?;
    give(json, &figures, &ctr::page(&figures))
}

fn run_hash(args: &HashStudyArgs, say: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    let HashStudyArgs { data, quick, part, seed, seeds, json, svg } = args;
    let inputs = stepwell_data::resolve(&[data])?;
    outputs::check(&[("--json", file_of(json)), ("--svg", svg.as_deref())], &inputs)?;
    let effort = if *quick { Effort::Quick } else { Effort::Full };
    let seeds = seeds.unwrap_or(if *quick { 1 } else { 5 }) as usize;
    let options = hash::StudyOptions { effort, part: *part as usize, seed: *seed, seeds };
    let figures = hash::run(data, &options, say).or_end()?;
    end((json, svg), &figures, &hash::page(&figures), || hash::plots(&figures))
}

/// Where figures and their drawing go.
type Outs<'a> = (&'a Option<Option<PathBuf>>, &'a Option<PathBuf>);

fn outs(args: &OneStudyArgs) -> Outs<'_> {
    (&args.json, &args.svg)
}

fn end(
    (json, svg): Outs<'_>,
    figures: &impl Serialize,
    text: &str,
    plots: impl FnOnce() -> Vec<Plot>,
) -> Result<(), Failure> {
    if let Some(path) = svg {
        let svg = draw(&plots()).map_err(|why| format!("{}: {why}", path.display()))?;
        outputs::write_text(path, &svg)?;
    }
    give(json, figures, text)
}

/// Prints or writes figures in the requested format.
fn give(
    json: &Option<Option<PathBuf>>,
    figures: &impl Serialize,
    text: &str,
) -> Result<(), Failure> {
    if is_said(json) {
        return say::json(figures);
    }
    outputs::write(file_of(json), figures)?;
    let mut page = Page::default();
    text.lines().for_each(|line| put!(page, "{line}"));
    page.say()
}
