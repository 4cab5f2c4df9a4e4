//! `stepwell study`.

use serde::Serialize;
use stepwell_study::{Plot, draw, geeps, rdma_wild, rna};

use crate::cli::{OneStudyArgs, StudyArgs, StudyJob, file_of, is_said};
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
        StudyJob::Rna(args) => {
            let (quick, part, seed) = check(args)?;
            let options = rna::StudyOptions { quick, part, seed };
            let figures = rna::run(&args.data, &options, say)?;
            end(args, &figures, &rna::page(&figures), || rna::plots(&figures))
        }
        StudyJob::Geeps(args) => {
            let (quick, part, seed) = check(args)?;
            let options = geeps::StudyOptions { quick, part, seed };
            let figures = geeps::run(&args.data, &options, say)?;
            end(args, &figures, &geeps::page(&figures), || geeps::plots(&figures))
        }
    }
}

/// Refuses what cannot be written before anything is computed; what is run otherwise.
fn check(args: &OneStudyArgs) -> Result<(bool, usize, u64), Failure> {
    let files = [("--json", file_of(&args.json)), ("--svg", args.svg.as_deref())];
    outputs::check(&files, std::slice::from_ref(&args.data))?;
    Ok((args.quick, args.part as usize, args.seed))
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
    if is_said(&args.json) {
        return say::json(figures);
    }
    outputs::write(file_of(&args.json), figures)?;
    let mut page = Page::default();
    text.lines().for_each(|line| put!(page, "{line}"));
    page.say()
}
