//! The study's table, compared with the paper's, and its plots.

use std::fmt::Write;

use super::findings::{Verdict, log2, losses};
use super::learner::{DIM, HIDDEN};
use super::{Figures, PaperRow, Row};
use crate::plot::Plot;

/// Readable tables.
pub fn page(figures: &Figures) -> String {
    let mut page = String::new();
    let Figures { train_examples, test_examples, test_clicks, ids_per_example, .. } = figures;
    let (seeds, distinct) = (figures.seeds.len(), figures.distinct_ids);
    let [first, second] = HIDDEN;
    let _ = writeln!(
        page,
        "{train_examples} examples with {ids_per_example} ids each, {distinct} distinct; \
         {test_examples} test examples, {test_clicks} clicks\n\
         dnn: embeddings of {DIM}, summed, and hidden layers of {first} and {second}; means over \
         seeds ({seeds});\nk counts bins: 2 k outputs, of OP+OSRP and of the modulo; non-zero \
         weights: rows with one"
    );
    table(&mut page, figures);
    found(&mut page, figures);
    papers(&mut page, &figures.paper);
    page
}

fn table(page: &mut String, figures: &Figures) {
    let _ = writeln!(
        page,
        "\n  {:<10}{:>6}{:>9}{:>7}{:>9}{:>20}{:>9}{:>9}{:>9}",
        "model", "k", "non-zero", "ids", "AUC", "", "lost", "modulo", "over it"
    );
    let hashed = hashed(figures);
    let mut lost = losses(&hashed, |row| row.auc).into_iter();
    let mut first = true;
    for row in &figures.rows {
        let Row { model, nonzero_weights, ids_per_example, auc, aucs, .. } = row;
        let k = row.bins.map_or_else(|| "-".to_owned(), |_| format!("2^{}", log2(row)));
        let least = aucs.iter().copied().fold(f64::INFINITY, f64::min);
        let most = aucs.iter().copied().fold(0.0, f64::max);
        let range = format!("({least:.4} to {most:.4})");
        let _ = write!(
            page,
            "  {model:<10}{k:>6}{nonzero_weights:>9}{ids_per_example:>7.2}{auc:>9.4}{range:>20}"
        );
        if let Some(of) = &row.modulo {
            // The smallest k isn't half of any other.
            let lost = if std::mem::take(&mut first) { None } else { lost.next() };
            let lost = lost.map_or_else(|| "-".to_owned(), |lost| format!("{lost:.4}"));
            let (modulo, over) = (of.auc_modulo, auc - of.auc_modulo);
            let _ = write!(page, "{lost:>9}{modulo:>9.4}{over:>9.4}");
        }
        page.push('\n');
    }
    let _ = writeln!(
        page,
        "  lost: by halving this k; an AUC has a standard error of {:.4}, of few test examples",
        figures.findings.auc_error
    );
}

fn found(page: &mut String, figures: &Figures) {
    let findings = &figures.findings;
    let (lost, over) = (findings.auc_lost_per_halving, findings.auc_over_modulo.mean);
    let _ = writeln!(
        page,
        "\nAUC lost per halving of k: {:.4} ({:.4} to {:.4}); the paper: 0.0009 to 0.0017 from \
         2^32 to 2^24",
        lost.mean, lost.least, lost.most
    );
    let from = |bins: Option<u64>| {
        bins.map_or_else(|| "no k".to_owned(), |bins| format!("k = 2^{}", bins.ilog2()))
    };
    let _ = writeln!(
        page,
        "as good as lr: from {} (modulo: {}); the paper: about 2^24",
        from(findings.bins_equal_to_lr),
        from(findings.bins_equal_to_lr_modulo)
    );
    let error = findings.auc_over_modulo_error;
    let error = error.map_or_else(String::new, |error| format!(" (standard error {error:.4})"));
    let said = match findings.op_osrp {
        Verdict::Better => "OP+OSRP is better",
        Verdict::Worse => "OP+OSRP is worse",
        Verdict::Equal => "no difference beyond that of seeds",
        Verdict::Unknown => "one seed does not tell",
    };
    let _ = writeln!(page, "OP+OSRP over modulo, all k: {over:+.4}{error}: {said}");
}

fn papers(page: &mut String, paper: &[PaperRow]) {
    let _ = write!(page, "\nthe paper, on ads of a web search (table 2):");
    for row in paper {
        let PaperRow { model, log2_k, nonzero_weights, auc } = row;
        let k = log2_k.map_or_else(|| "-".to_owned(), |log2| format!("2^{log2}"));
        let weights = nonzero_weights.map_or_else(|| "-".to_owned(), |of| of.to_string());
        let _ = write!(page, "\n  {model:<10}{k:>6}{weights:>14}{auc:>9.4}");
    }
}

/// Rows with hashed ids.
fn hashed(figures: &Figures) -> Vec<Row> {
    figures.rows.iter().filter(|row| row.bins.is_some()).cloned().collect()
}

/// Points of a line.
type Points = Vec<(f64, f64)>;

/// AUC by k, here and in the paper, and non-zero weights by k.
pub fn plots(figures: &Figures) -> Vec<Plot> {
    let rows = hashed(figures);
    let line = |name: &str, of: fn(&Row) -> Option<f64>| {
        let points = rows.iter().filter_map(|row| Some((log2(row), of(row)?))).collect::<Points>();
        (name.to_owned(), points)
    };
    let level = |name: &str, at: f64, points: &Points| {
        (name.to_owned(), points.iter().map(|(k, _)| (*k, at)).collect::<Points>())
    };
    let own = line("OP+OSRP", |row| Some(row.auc));
    let modulo = line("modulo 2 k", |row| row.modulo.as_ref().map(|of| of.auc_modulo));
    let [lr, dnn] = [("lr", figures.auc_lr), ("dnn", figures.auc_dnn)]
        .map(|(name, at)| level(name, at, &own.1));
    let paper = |of: fn(&PaperRow) -> Option<f64>| {
        let point = |row: &PaperRow| Some((f64::from(row.log2_k?), of(row)?));
        figures.paper.iter().filter_map(point).collect::<Points>()
    };
    let papers = paper(|row| Some(row.auc));
    let levels = figures.paper.iter().filter(|row| row.log2_k.is_none());
    let mut paper_lines: Vec<_> = levels.map(|row| level(row.model, row.auc, &papers)).collect();
    paper_lines.insert(0, ("OP+OSRP".to_owned(), papers));
    let weights = vec![
        line("OP+OSRP", |row| Some((row.nonzero_weights as f64).log2())),
        line("modulo 2 k", |row| {
            row.modulo.as_ref().map(|of| (of.nonzero_weights_modulo as f64).log2())
        }),
        ("the paper".to_owned(), paper(|row| row.nonzero_weights.map(|of| (of as f64).log2()))),
    ];
    let plot =
        |title: &str, axis, lines| Plot { title: title.to_owned(), axes: ["log2 k", axis], lines };
    vec![
        plot("test AUC by k", "test AUC", vec![own, modulo, lr, dnn]),
        plot("test AUC by k, the paper", "test AUC", paper_lines),
        plot("non-zero weights by k", "log2 of weights", weights),
    ]
}
