//! `train --html`: a self-contained, well-formed page that shows what was measured.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use roxmltree::{Document, Node, ParsingOptions};

use crate::common::{TINY, Workshop, args};

fn read(shop: &Workshop, name: &str) -> String {
    fs::read_to_string(shop.path(name)).unwrap()
}

fn parse(page: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(page, options).unwrap()
}

fn by_id<'a>(page: &'a Document<'_>, id: &str) -> Node<'a, 'a> {
    let found = page.descendants().find(|node| node.attribute("id") == Some(id));
    found.unwrap_or_else(|| panic!("nothing is called {id}"))
}

fn texts(node: Node<'_, '_>) -> String {
    node.descendants().filter_map(|node| node.text()).collect::<Vec<_>>().join(" ")
}

/// Names of a chart's series, and their numbers of points.
fn series(figure: Node<'_, '_>) -> Vec<(String, usize)> {
    let of = |group: Node<'_, '_>| {
        let line = group.children().find_map(|node| node.attribute("points"));
        let points = line.map_or_else(
            || group.children().filter(|node| node.has_tag_name("circle")).count(),
            |points| points.split_whitespace().count(),
        );
        Some((group.attribute("data-name")?.to_owned(), points))
    };
    figure.descendants().filter(|node| node.has_tag_name("g")).filter_map(of).collect()
}

const FIGURES: [&str; 10] =
    ["loss", "auc", "rate", "hits", "fill", "disk", "bytes", "stages", "stage-times", "memory"];

#[test]
fn a_page_shows_every_figure_and_needs_nothing_else() {
    let shop = Workshop::new();
    let nasty = "a<b>&\"c'.tsv";
    let data = shop.examples(nasty, 3000);
    shop.ok(&args(&[&data], &[&["--html", "run.html"][..], &TINY].concat()));
    let (text, report) = (read(&shop, "run.html"), shop.report("report.json"));
    let page = parse(&text);
    for id in FIGURES {
        let figure = by_id(&page, id);
        assert!(figure.has_tag_name("figure"), "{id}");
        let drawn = figure.descendants().find(|node| node.has_tag_name("svg"));
        assert!(drawn.is_some(), "{id}: {}", texts(figure));
    }
    let loss = series(by_id(&page, "loss"));
    assert_eq!(
        loss.iter().map(|(name, _)| &name[..]).collect::<Vec<_>>(),
        ["training", "evaluation"]
    );
    assert!(loss[0].1 >= 1 && loss[1].1 == 1, "{loss:?}");
    let hits = series(by_id(&page, "hits"));
    assert_eq!(
        hits.iter().map(|(name, _)| &name[..]).collect::<Vec<_>>(),
        ["in memory", "from disk", "new"]
    );
    assert!(series(by_id(&page, "fill")).iter().all(|(_, points)| *points >= 2));
    let stages = texts(by_id(&page, "stage-times"));
    for stage in ["read", "parse", "batch", "plan", "pull", "train", "write"] {
        assert!(stages.contains(stage), "{stages}");
    }
    assert!(texts(by_id(&page, "memory")).contains("peak memory"));
    let figures = texts(by_id(&page, "figures"));
    assert!(figures.contains(report["model_digest"].as_str().unwrap()), "{figures}");
    let auc = format!("{:.4}", report["eval"]["auc"].as_f64().unwrap());
    assert!(texts(by_id(&page, "tiles")).contains(&auc));
    // Names that a user chose are shown unchanged and are not markup.
    let settings = texts(by_id(&page, "settings"));
    assert!(settings.contains("a<b>&") && settings.contains("model.hidden"), "{settings}");
    assert!(!text.contains("a<b>"));
    for outside in ["http:", "https:", " src=", " href=", "@import", "url("] {
        assert!(!text.contains(outside), "{outside}");
    }
    assert!(text.contains("prefers-color-scheme: dark") && !text.contains("http-equiv"));
    let header = page.descendants().find(|node| node.has_tag_name("header")).unwrap();
    assert!(texts(header).contains("ended"));
    assert!(text.len() < 200_000, "{}", text.len());
}

#[test]
fn what_is_refused_leaves_an_older_page_and_what_fails_says_so() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 2000);
    fs::write(shop.path("run.html"), "older").unwrap();
    let error = shop.fails(&args(&["nowhere.tsv"], &["--html", "run.html"]));
    assert!(error.contains("nowhere.tsv"), "{error}");
    assert_eq!(read(&shop, "run.html"), "older");
    let error = shop.fails(&args(&[&data], &["--html", &data]));
    assert!(error.contains("this run reads that file"), "{error}");
    let error = shop.fails(&args(&[&data], &["--html", "report.json"]));
    assert!(error.contains("named for two outputs"), "{error}");
    let far = ["--html", "run.html", "--optim.dense.lr", "1000000", "--optim.dense.kind", "sgd"];
    let output = shop.run(&args(&[&data], &far));
    assert!(!output.status.success());
    let text = read(&shop, "run.html");
    let page = parse(&text);
    let header = page.descendants().find(|node| node.has_tag_name("header")).unwrap();
    assert!(texts(header).contains("failed"), "{}", texts(header));
    // There is no unfinished file next to it.
    let left = fs::read_dir(shop.path("")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(left.into_iter().all(|name| !name.to_string_lossy().contains("unfinished")));
}

#[test]
fn a_page_that_cannot_be_written_is_told_and_the_run_goes_on() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1000);
    let output = shop.run(&args(&[&data], &["--html", "/dev/full"]));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("the run continues").count(), 1, "{said}");
    // A device takes the page once, at the end.
    let page = shop.run(&args(&[&data], &["--html", "/dev/stderr", "--quiet"]));
    let text = String::from_utf8(page.stderr).unwrap();
    assert_eq!(text.matches("<!DOCTYPE html>").count(), 1);
    parse(&text);
}

#[test]
fn a_page_of_a_run_that_goes_on_is_whole_at_any_time() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 2000);
    let args = args(&[&data], &["--html", "run.html", "--data.epochs", "1000000"]);
    let mut run = shop.command(&args);
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // The first file is only a check that it can be written.
    let text = loop {
        let text = fs::read_to_string(shop.path("run.html")).unwrap_or_default();
        if !text.is_empty() {
            break text;
        }
        assert!(run.try_wait().unwrap().is_none(), "the run ended");
        std::thread::sleep(Duration::from_millis(1));
    };
    run.kill().unwrap();
    run.wait().unwrap();
    let page = parse(&text);
    let header = page.descendants().find(|node| node.has_tag_name("header")).unwrap();
    assert!(texts(header).contains("running"), "{}", texts(header));
    assert!(text.contains("http-equiv=\"refresh\""), "an open browser follows");
    assert!(texts(by_id(&page, "rate")).contains("nothing measured yet"));
}

/// Script that replaces the page's title by the sizes of the charts in a browser.
const MEASURE: &str = "<script>window.addEventListener('load', function () {
var sizes = Array.from(document.querySelectorAll('svg'), function (svg) {
var box = svg.getBoundingClientRect(); 
return Math.round(box.width) + 'x' + Math.round(box.height); });
document.body.setAttribute('data-sizes', sizes.join(' ')); });</script></body>";

#[test]
fn a_browser_draws_it() {
    let named = std::env::var("PLAYWRIGHT").ok();
    let known = ["chromium", "chromium-browser", "google-chrome"].map(str::to_owned);
    let browser = named.into_iter().chain(known).find(|name| {
        let version = Command::new(name).arg("--version").output();
        version.is_ok_and(|output| output.status.success())
    });
    let Some(browser) = browser else {
        stepwell_skip::skipped("there is no chromium, nor one that PLAYWRIGHT names");
        return;
    };
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 3000);
    shop.ok(&args(&[&data], &[&["--html", "run.html"][..], &TINY].concat()));
    let page = read(&shop, "run.html").replace("</body>", MEASURE);
    fs::write(shop.path("measured.html"), page).unwrap();
    let mut command = Command::new(browser);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", shop.text("profile")));
    command.arg(format!("file://{}", shop.text("measured.html"))).stderr(Stdio::null());
    let dom = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let sizes = dom.split("data-sizes=\"").nth(1).unwrap().split('"').next().unwrap();
    let sizes: Vec<(u32, u32)> = sizes
        .split(' ')
        .map(|size| {
            let (width, height) = size.split_once('x').unwrap();
            (width.parse().unwrap(), height.parse().unwrap())
        })
        .collect();
    assert_eq!(sizes.len(), FIGURES.len(), "{sizes:?}");
    assert!(sizes.iter().all(|(width, height)| *width > 100 && *height > 20), "{sizes:?}");
    // The page's script ran without an error: it added a tip to each chart.
    assert_eq!(dom.matches("class=\"tip\"").count(), 7);
}
