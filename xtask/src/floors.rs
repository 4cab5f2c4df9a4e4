//! Checks the floors: imports between crates of the workspace only go down, never up or sideways.
//!
//! - **How.** The table below assigns a floor to every crate, and `cargo metadata` gives the edges.
//!   An edge must end on a lower floor. The lab is above the product, so the product can't use it.
//!   [`fault`] has three exceptions: on the ground, `optim` may use `base`; tests of `kernels` may
//!   use both, to compare bits; and tests may use the fakes of `disk` on the same floor.
//!   Inside of a crate, [`circles`] checks the imports between files.
//! - **Failure.** Prints every wrong edge, every crate that is missing from the table, and every
//!   row of the table without a crate.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::circles;
use crate::command::{cargo_command, output};
use crate::outcome::Outcome;

/// Directory names of crates, from the roof down; first the workshop, outside the house.
const FLOORS: [(&str, &[&str]); 13] = [
    ("workshop", &["xtask"]),
    ("lab 3", &["lab"]),
    ("lab 2", &["study"]),
    ("lab 1", &["bench", "cache-sim", "fuzz", "sim"]),
    ("roof", &["python"]),
    ("floor 7", &["stepwell"]),
    ("floor 6", &["cli"]),
    ("floor 5", &["train"]),
    ("floor 4", &["settings"]),
    ("floor 3", &["engine", "sync", "geeps"]),
    ("floor 2", &["ssd", "mem", "nn", "data"]),
    ("floor 1", &["disk", "fabric", "remote", "device"]),
    ("ground", &["base", "optim", "kernels", "skip"]),
];

/// One dependency of a workspace crate on another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    from: String,
    to: String,
    /// Whether only tests, benches and examples use it.
    dev: bool,
}

/// Reads the workspace's graph, prints it by floor, and fails if the table forbids an edge, or if
/// files of a crate import in circles.
pub(crate) fn check(root: &Path) -> Outcome {
    let metadata = metadata(root)?;
    let (crates, edges) = graph(&metadata)?;
    print_graph(&edges);
    let faults = faults(&crates, &edges);
    for fault in &faults {
        println!("  {fault}");
    }
    match faults.len() {
        0 => circles::check(&root_files(&metadata)?),
        n => Err(format!("{n} faults in the floors; the table is in xtask/src/floors.rs")),
    }
}

fn metadata(root: &Path) -> Result<Value, String> {
    let arguments = ["metadata", "--format-version", "1", "--no-deps"];
    let json = output(cargo_command().current_dir(root).args(arguments))?;
    serde_json::from_slice(&json).map_err(|e| format!("cargo metadata: {e}"))
}

/// The root file of every library and program, each after its crate's directory name.
fn root_files(metadata: &Value) -> Result<Vec<(String, PathBuf)>, String> {
    let mut files = Vec::new();
    for package in list(metadata, "packages")? {
        let name = folder(text(package, "manifest_path")?)?;
        for target in list(package, "targets")? {
            if ["lib", "bin"].iter().any(|kind| target["kind"][0] == *kind) {
                files.push((name.into(), text(target, "src_path")?.into()));
            }
        }
    }
    Ok(files)
}

/// Directory names of the workspace's crates, and the edges between them, both sorted.
fn graph(metadata: &Value) -> Result<(Vec<String>, Vec<Edge>), String> {
    let packages = list(metadata, "packages")?;
    let mut folder_of = BTreeMap::new();
    for package in packages {
        folder_of.insert(text(package, "name")?, folder(text(package, "manifest_path")?)?);
    }
    let mut edges = Vec::new();
    for package in packages {
        let from = folder_of[text(package, "name")?];
        for dependency in list(package, "dependencies")? {
            let Some(to) = folder_of.get(text(dependency, "name")?) else { continue };
            let dev = dependency["kind"].as_str() == Some("dev");
            edges.push(Edge { from: from.into(), to: (*to).into(), dev });
        }
    }
    edges.sort();
    edges.dedup();
    let mut crates: Vec<String> = folder_of.into_values().map(String::from).collect();
    crates.sort();
    Ok((crates, edges))
}

fn list<'a>(value: &'a Value, field: &str) -> Result<&'a Vec<Value>, String> {
    value[field].as_array().ok_or_else(|| format!("cargo metadata has no list `{field}`"))
}

fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str, String> {
    value[field].as_str().ok_or_else(|| format!("cargo metadata has no text `{field}`"))
}

/// Directory name of a crate whose manifest is at `path`.
fn folder(path: &str) -> Result<&str, String> {
    let name = Path::new(path).parent().and_then(Path::file_name).and_then(|name| name.to_str());
    name.ok_or_else(|| format!("cannot tell the folder of {path}"))
}

/// The height of a crate: 0 for the ground; `None` if it isn't in the table.
fn height(name: &str) -> Option<usize> {
    FLOORS.iter().rev().position(|(_, crates)| crates.contains(&name))
}

fn floor_name(height: usize) -> &'static str {
    FLOORS[FLOORS.len() - 1 - height].0
}

/// Violations of the table, one line each.
fn faults(crates: &[String], edges: &[Edge]) -> Vec<String> {
    let mut faults = Vec::new();
    for name in crates.iter().filter(|name| height(name).is_none()) {
        faults.push(format!("{name} has no floor: give it one in the table"));
    }
    for name in FLOORS.iter().flat_map(|(_, names)| names.iter()) {
        if !crates.iter().any(|known| known == name) {
            faults.push(format!("{name} is in the table and not in the workspace: drop its row"));
        }
    }
    faults.extend(edges.iter().filter_map(fault));
    faults
}

/// Why an edge is wrong, if it is; crates without a floor are reported separately.
fn fault(edge: &Edge) -> Option<String> {
    let (from, to) = (height(&edge.from)?, height(&edge.to)?);
    let on_the_ground = edge.from == "optim" && edge.to == "base";
    let twins = edge.dev && edge.from == "kernels" && ["base", "optim"].contains(&&*edge.to);
    let fakes_beside = edge.dev && edge.to == "disk" && from == to;
    if to < from || on_the_ground || twins || fakes_beside {
        return None;
    }
    let way = if to > from { "up" } else { "sideways" };
    let tests = if edge.dev { " in its tests" } else { "" };
    let (from, to) = (floor_name(from), floor_name(to));
    Some(format!("{} ({from}) uses {} ({to}){tests}: that goes {way}", edge.from, edge.to))
}

/// Prints a line for each crate of the table: its floor, and the crates that it uses.
fn print_graph(edges: &[Edge]) {
    for (floor, crates) in FLOORS {
        for (index, name) in crates.iter().enumerate() {
            let floor = if index == 0 { floor } else { "" };
            println!("{}", format!("  {floor:<9} {name:<10} {}", uses(name, edges)).trim_end());
        }
    }
}

/// `-> a, b; tests: c`, or an empty string.
fn uses(name: &str, edges: &[Edge]) -> String {
    let of = |dev: bool| {
        let edges = edges.iter().filter(|edge| edge.from == name && edge.dev == dev);
        edges.map(|edge| edge.to.as_str()).collect::<Vec<_>>().join(", ")
    };
    match (of(false), of(true)) {
        (all, tests) if all.is_empty() && tests.is_empty() => String::new(),
        (all, tests) if tests.is_empty() => format!("-> {all}"),
        (all, tests) if all.is_empty() => format!("-> tests: {tests}"),
        (all, tests) => format!("-> {all}; tests: {tests}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn edge(from: &str, to: &str, dev: bool) -> Edge {
        Edge { from: from.into(), to: to.into(), dev }
    }

    #[test]
    fn the_table_knows_its_heights() {
        assert_eq!(height("base"), Some(0));
        assert_eq!(height("optim"), Some(0));
        assert_eq!(height("disk"), Some(1));
        assert_eq!(height("engine"), Some(3));
        assert_eq!(height("xtask"), Some(12));
        assert_eq!(height("rims"), None);
        assert_eq!(floor_name(0), "ground");
        assert_eq!(floor_name(7), "floor 7");
        assert_eq!(floor_name(8), "roof");
        assert_eq!(floor_name(9), "lab 1");
    }

    #[test]
    fn down_is_right() {
        for (from, to) in [("nn", "optim"), ("nn", "base"), ("stepwell", "disk"), ("xtask", "ssd")]
        {
            assert_eq!(fault(&edge(from, to, false)), None, "{from} -> {to}");
            assert_eq!(fault(&edge(from, to, true)), None, "{from} -> {to} in tests");
        }
        assert_eq!(fault(&edge("optim", "base", false)), None);
        assert_eq!(fault(&edge("kernels", "optim", true)), None);
    }

    #[test]
    fn up_and_sideways_are_faults() {
        let why = fault(&edge("mem", "engine", false)).unwrap();
        assert_eq!(why, "mem (floor 2) uses engine (floor 3): that goes up");
        let why = fault(&edge("mem", "ssd", true)).unwrap();
        assert_eq!(why, "mem (floor 2) uses ssd (floor 2) in its tests: that goes sideways");
        assert!(fault(&edge("base", "optim", false)).is_some());
        assert!(fault(&edge("kernels", "optim", false)).is_some());
        assert!(fault(&edge("base", "disk", true)).is_some());
        assert!(fault(&edge("stepwell", "xtask", true)).is_some());
        assert!(fault(&edge("stepwell", "bench", false)).is_some());
    }

    #[test]
    fn metadata_becomes_a_graph_of_folders() {
        let manifest = |folder: &str| format!("/home/me/stepwell/crates/{folder}/Cargo.toml");
        let metadata = json!({"packages": [
            {"name": "stepwell-mem", "manifest_path": manifest("mem"), "dependencies": [
                {"name": "stepwell-base", "kind": null},
                {"name": "stepwell-disk", "kind": "dev"},
                {"name": "thiserror", "kind": null},
            ]},
            {"name": "stepwell-base", "manifest_path": manifest("base"), "dependencies": []},
            {"name": "stepwell-disk", "manifest_path": manifest("disk"), "dependencies": []},
        ]});
        let (crates, edges) = graph(&metadata).unwrap();
        assert_eq!(crates, ["base", "disk", "mem"]);
        assert_eq!(edges, [edge("mem", "base", false), edge("mem", "disk", true)]);
        assert_eq!(uses("mem", &edges), "-> base; tests: disk");
        assert_eq!(uses("base", &edges), "");
        assert!(graph(&json!({})).unwrap_err().contains("packages"));
    }

    #[test]
    fn table_and_workspace_name_the_same_crates() {
        let mut crates: Vec<String> =
            FLOORS.iter().flat_map(|(_, names)| names.iter().map(|n| (*n).into())).collect();
        assert!(faults(&crates, &[]).is_empty());
        crates.retain(|name| name != "disk");
        crates.push("cellar".into());
        let faults = faults(&crates, &[]);
        assert_eq!(faults.len(), 2);
        assert!(faults[0].starts_with("cellar has no floor"), "{}", faults[0]);
        assert!(faults[1].starts_with("disk is in the table"), "{}", faults[1]);
    }
}
