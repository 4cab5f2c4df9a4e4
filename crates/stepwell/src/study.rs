//! `stepwell study`.

use std::path::PathBuf;

use serde::Serialize;
use stepwell_study::{Plot, ctr, draw, rdma_wild, rna};

use crate::cli::{CtrStudyArgs, OneStudyArgs, StudyArgs, StudyJob, file_of, is_said};
use crate::failure::Failure;
use crate::outputs;
use crate::say::{self, Page, put};

/// Runs a paper's experiments on a virtual clock.
pub(crate) fn run(args: &StudyArgs) -> Result<(), Failure> {
    let say = &mut |what: &str| say::remark(what);
    match &args.job {
        StudyJob::RdmaWild(args) => {
            let (quick, part, seed) = check(args)?;
            let options = rdma_wild::StudyOptions { quick, part, seed };
            let figures = rdma_wild::run(&args.data, &options, say)?;
            end(args, &figures, &rdma_wild::page(&figures), || rdma_wild::plots(&figures))
        }
        StudyJob::Ctr(args) => run_ctr(args, say),
        StudyJob::Rna(args) => {
            let (quick, part, seed) = check(args)?;
            let options = rna::StudyOptions { quick, part, seed };
            let figures = rna::run(&args.data, &options, say)?;
            end(args, &figures, &rna::page(&figures), || rna::plots(&figures))
        }
    }
}

/// Refuses what cannot be written before anything is computed; what is run otherwise.
fn check(args: &OneStudyArgs) -> Result<(bool, usize, u64), Failure> {
    let files = [("--json", file_of(&args.json)), ("--svg", args.svg.as_deref())];
    outputs::check(&files, std::slice::from_ref(&args.data))?;
    Ok((args.quick, args.part as usize, args.seed))
}

fn run_ctr(args: &CtrStudyArgs, say: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    let CtrStudyArgs { data, part, seed, seeds, dram, json } = args;
    outputs::check(&[("--json", file_of(json))], std::slice::from_ref(data))?;
    let (part, seed, seeds) = (*part as usize, u64::from(*seed), *seeds as usize);
    if let Some(dram) = dram.filter(|dram| *dram < ctr::DRAM_LEAST) {
        return Err(format!("--dram {dram}: give at least {}", ctr::DRAM_LEAST).into());
    }
    let options = ctr::StudyOptions { part, seed, seeds, dram: *dram };
    let figures = ctr::run(data, &options, say)?;
    give(json, &figures, &ctr::page(&figures))
}

fn end(
    args: &OneStudyArgs,
    figures: &impl Serialize,
    text: &str,
    plots: impl FnOnce() -> Vec<Plot>,
) -> Result<(), Failure> {
    if let Some(path) = &args.svg {
        let svg = draw(&plots()).map_err(|why| format!("{}: {why}", path.display()))?;
        outputs::write_text(path, &svg)?;
    }
    give(&args.json, figures, text)
}

/// Gives figures as they were asked for.
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
