//! The study's tables, compared with the thesis's, and its plots.

use std::fmt::Write;

use super::{Figures, Setting, SettingFigures, Spread};
use crate::curve::Point;
use crate::plot::Plot;

/// Readable tables.
pub fn page(figures: &Figures) -> String {
    let mut page = String::new();
    let seeds = figures.seeds.len();
    let _ = writeln!(
        page,
        "time to a training loss, means over seeds ({seeds}), least to most; -: a seed missed it"
    );
    figures.settings.iter().for_each(|of| table(&mut page, of));
    let _ = writeln!(page, "\nthe thesis, with delays of 0 to 50 ms (it does not give times):");
    for of in &figures.paper {
        let (bsp, rna) = (of.bsp_accuracy, of.rna_accuracy);
        let _ = writeln!(page, "  {:<12} rna {:.1}, accuracy {bsp} and {rna}", of.model, of.rna);
    }
    let _ = writeln!(page, "\nms between sums of 100 ranks with tasks of 10 to 50 ms");
    let _ = writeln!(page, "  {:<8}{:>8}{:>8}{:>8}{:>10}", "probes", "p5", "p50", "p95", "thesis");
    for (probes, at) in &figures.response_ms {
        let paper = figures.paper_response_ms_p50.get(probes);
        let paper = paper.map_or_else(|| "-".to_owned(), ToString::to_string);
        let _ =
            writeln!(page, "  {probes:<8}{:>8.1}{:>8.1}{:>8.1}{paper:>10}", at.p5, at.p50, at.p95);
    }
    let _ = write!(page, "\nlost gradients: {}", figures.lost_gradients);
    page
}

fn table(page: &mut String, of: &SettingFigures) {
    let Setting { ranks, computing_ms: ms, lateness: late } = of.setting;
    let SettingFigures { model, rate, target_loss, limit, .. } = of;
    let _ = writeln!(
        page,
        "\n{model}, rate {rate}, loss {target_loss}: {ranks} ranks, {ms} ms a gradient, {late:?}; \
         at most {limit:.2} times as many gradients"
    );
    let _ = writeln!(
        page,
        "  {:<18}{:>9}{:>8}{:>10}{:>10}{:>5}{:>8}{:>13}{:>10}",
        "protocol", "seconds", "passes", "ms/update", "gradients", "age", "faster", "", "accuracy"
    );
    for (name, of) in &of.protocols {
        let mean = |value: Option<Spread>, digits: usize| {
            value.map_or_else(|| "-".to_owned(), |of| format!("{:.digits$}", of.mean))
        };
        let spread = of.speedup.map(|of| format!("{:.2} to {:.2}", of.least, of.most));
        let _ = writeln!(
            page,
            "  {name:<18}{:>9}{:>8}{:>10.2}{:>10.2}{:>5}{:>8}{:>13}{:>10}",
            mean(of.seconds_to_loss, 2),
            mean(of.epochs_to_loss, 3),
            1e3 * of.seconds_per_update,
            of.gradients_per_update,
            of.age_max,
            mean(of.speedup, 2),
            spread.unwrap_or_default(),
            mean(of.accuracy, 4)
        );
    }
}

/// Loss and accuracy over time with the first seed, by setting (figure 5.4).
pub fn plots(figures: &Figures) -> Vec<Plot> {
    figures.settings.iter().flat_map(of_setting).collect()
}

fn of_setting(of: &SettingFigures) -> [Plot; 2] {
    let setting = &of.setting;
    let (ranks, ms, late) = (setting.ranks, setting.computing_ms, setting.lateness);
    let title = format!("{}, rate {}, {ranks} ranks, {ms} ms, {late:?}", of.model, of.rate);
    let lines = |value: fn(&Point) -> f64| {
        let line = |(name, of): (&&str, &super::ProtocolFigures)| {
            let points = of.curve.iter().map(|point| (point.seconds, value(point)));
            ((*name).to_owned(), points.collect())
        };
        of.protocols.iter().map(line).collect()
    };
    let plot = |what: &'static str, lines| Plot {
        title: format!("{title}: {what}"),
        axes: ["seconds", what],
        lines,
    };
    [
        plot("training loss", lines(|point| point.train_loss)),
        plot("test accuracy", lines(|point| point.test_accuracy)),
    ]
}
