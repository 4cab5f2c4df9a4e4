//! Checks that files of a crate form no circle of imports.
//!
//! - **Why.** A reader learns a crate file by file, beginning with those that import no other. In a
//!   circle, there is no first file.
//! - **How.** [`source`] finds imports outside of tests, each up to the module that defines its
//!   item. Three things are faults: modules of one parent whose imports, with those of all below
//!   them, form a circle; `crate::X` where the crate's root only re-exports `X` (`Error` and
//!   `Result` may); and an import from a parent that itself imports from that child.
//! - **Failure.** Prints every fault with one of its imports; for a circle, the edges that break
//!   it.

mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use source::{Crate, Import};

use crate::outcome::Outcome;

/// Import from one module to another, by their names.
type Edge = (String, String);

/// Faults by edge, each described by a phrase with an import as an example.
type Faults = BTreeMap<Edge, String>;

/// Checks the crates that are given by name and root file.
pub(crate) fn check(crates: &[(String, PathBuf)]) -> Outcome {
    let mut faults = Faults::new();
    for (name, file) in crates {
        let mut modules = Crate::default();
        modules.read(Vec::new(), file)?;
        faults.extend(faults_of(name, &modules.imports()));
    }
    for ((from, to), why) in &faults {
        println!("  {from} -> {to}: {why}");
    }
    match faults.len() {
        0 => Ok(()),
        n => Err(format!("{n} faults in the imports of files")),
    }
}

/// The faults of the crate `name`.
fn faults_of(name: &str, imports: &[Import]) -> Faults {
    let full = |path: &[String]| [&[name.to_owned()], path].concat().join("::");
    let mut faults = Faults::new();
    let mut families: BTreeMap<&[String], BTreeMap<Edge, Vec<&Import>>> = BTreeMap::new();
    let mut imports_of: BTreeMap<&[String], Vec<&Import>> = BTreeMap::new();
    for import in imports {
        imports_of.entry(&import.from).or_default().push(import);
    }
    for import in imports {
        let (from, to) = (&import.from, &import.to);
        if import.by_root {
            let why = format!("import `{}` from {}, which defines it", import.text, full(to));
            faults.insert((full(from), full(&[])), why);
        }
        let shared = from.iter().zip(to).take_while(|(from, to)| from == to).count();
        if shared < from.len().min(to.len()) {
            let edge = (full(&from[..=shared]), full(&to[..=shared]));
            families.entry(&from[..shared]).or_default().entry(edge).or_default().push(import);
        } else if shared < from.len() && !(import.error && to.is_empty()) {
            let child = &from[..=shared];
            let back = imports_of.get(&to[..]).into_iter().flatten();
            if let Some(back) = back.copied().find(|back| back.to.starts_with(child)) {
                let why = format!("`{}` is of a parent that uses `{}`", import.text, back.text);
                faults.insert((full(from), full(to)), why);
            }
        }
    }
    for edges in families.values() {
        let weights = edges.iter().map(|(edge, imports)| (edge.clone(), imports.len())).collect();
        for edge in least_cut(&weights) {
            let import = edges[&edge][0];
            let why = format!("closes a circle: {} names `{}`", full(&import.from), import.text);
            faults.insert(edge, why);
        }
    }
    faults
}

/// The edges that are in circles, or between two circles.
fn in_circles(edges: &BTreeMap<Edge, usize>) -> BTreeMap<Edge, usize> {
    let mut left = edges.clone();
    loop {
        let before = left.len();
        let users: BTreeSet<String> = left.keys().map(|(from, _)| from.clone()).collect();
        let used: BTreeSet<String> = left.keys().map(|(_, to)| to.clone()).collect();
        left.retain(|(from, to), _| used.contains(from) && users.contains(to));
        if left.len() == before {
            return left;
        }
    }
}

/// Edges of few imports without which none is in a circle. Modules are put in an order, users
/// first, and one at a time is moved as long as this makes the edges that lead back fewer.
fn least_cut(edges: &BTreeMap<Edge, usize>) -> BTreeSet<Edge> {
    let edges = in_circles(edges);
    let names: BTreeSet<&String> = edges.keys().flat_map(|(from, to)| [from, to]).collect();
    let mut order: Vec<&String> = names.into_iter().collect();
    let back = |order: &[&String]| {
        let place: BTreeMap<_, _> =
            order.iter().enumerate().map(|(at, name)| (*name, at)).collect();
        let leads_back = |((from, to), _): &(&Edge, &usize)| place[from] > place[to];
        edges.iter().filter(leads_back).map(|(edge, n)| (edge.clone(), *n)).collect::<Vec<_>>()
    };
    let cost = |order: &[&String]| back(order).iter().map(|(_, n)| n).sum::<usize>();
    let mut best = cost(&order);
    loop {
        let before = best;
        for (from, to) in pairs(order.len()) {
            let mut moved = order.clone();
            let name = moved.remove(from);
            moved.insert(to, name);
            let now = cost(&moved);
            if now < best {
                (order, best) = (moved, now);
            }
        }
        if best == before {
            return back(&order).into_iter().map(|(edge, _)| edge).collect();
        }
    }
}

fn pairs(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).flat_map(move |from| (0..n).map(move |to| (from, to)))
}

#[cfg(test)]
mod tests {
    use super::source::Module;
    use super::*;

    /// The faults of crate `c` with the given modules, each by its names and its text.
    fn faults_in(modules: &[(&str, &str)]) -> Vec<String> {
        let mut parsed = Crate::default();
        for (name, text) in modules {
            let path = name.split("::").filter(|name| !name.is_empty()).map(String::from).collect();
            parsed.modules.insert(path, Module::of(text));
        }
        let faults = faults_of("c", &parsed.imports());
        faults.iter().map(|((from, to), why)| format!("{from} -> {to}: {why}")).collect()
    }

    const THREE: &str = "mod a; mod b; mod d;";

    #[test]
    fn a_circle_of_siblings_is_a_fault() {
        let mut modules = [
            ("", THREE),
            ("a", "use crate::b::{B, B2 as Other}; struct A;"),
            ("b", "mod low; struct B; struct B2;"),
            ("b::low", "fn f() { crate::d::f(); }"),
            ("d", "use super::a; fn f(a: a::A) { // crate::b::B\n \"use crate::b::B;\" }"),
        ];
        let why = "closes a circle: c::b::low names `crate::d::f`";
        assert_eq!(faults_in(&modules), [format!("c::b -> c::d: {why}")]);
        modules[3].1 = "#[cfg(test)] mod tests { fn f() { crate::d::f(); } }";
        assert!(faults_in(&modules).is_empty());
    }

    #[test]
    fn an_import_by_way_of_the_root_is_a_fault_and_ends_where_its_item_is() {
        let modules = [
            ("", "mod a; mod b; mod d; mod e; pub use {b::{low::B, Error}, e::E}; fn of_root() {}"),
            ("a", "use crate::{B, Error, b::Twice}; fn f() { crate::of_root(); }"),
            ("b", "mod low; pub(crate) use low::Twice; enum Error {}"),
            ("b::low", "use crate::d::D; struct B; type Twice = (B, B);"),
            ("e", "struct E; fn f(e: crate::E) {}"),
            ("d", "struct D; fn f<'a>(b: &'a mut crate::B, c: char) { c == '\"'; crate::B }"),
        ];
        let by_root = |from| format!("c::{from} -> c: import `crate::B` from c::b::low, ");
        let faults = faults_in(&modules);
        assert!(faults[0].starts_with(&by_root("a")), "{faults:?}");
        assert!(faults[1].starts_with("c::b -> c::d: closes a circle"), "{faults:?}");
        assert!(faults[2].starts_with(&by_root("d")), "{faults:?}");
        assert_eq!(faults[3], "c::e -> c: import `crate::E` from c::e, which defines it");
        assert_eq!(faults.len(), 4);
    }

    #[test]
    fn an_import_from_a_parent_that_uses_the_child_is_a_fault() {
        let mut modules = vec![
            ("", "mod a; use a::low::f; fn g() {} enum Error {}"),
            ("a", "mod low; mod text; fn h() { low::f() } struct A;"),
            ("a::low", "mod deep; use crate::Error; use super::A; use crate::g; pub fn f() {}"),
            ("a::low::deep", "pub(in crate::a) fn d() {}"),
            ("a::text", "use super::A; mod inline { use super::super::A; use super::B; }"),
        ];
        let of_a = "c::a::low -> c::a: `super::A` is of a parent that uses `low::f`";
        let of_root = "c::a::low -> c: `crate::g` is of a parent that uses `a::low::f`";
        assert_eq!(faults_in(&modules), [of_root, of_a]);
        modules[1].1 = "mod low; pub use low::f; #[cfg(test)] use low::g; struct A;";
        assert_eq!(faults_in(&modules), [of_root]);
    }

    #[test]
    fn the_cut_is_of_few_imports() {
        let edge = |from: &str, to: &str, n| ((from.to_owned(), to.to_owned()), n);
        let edges = [edge("a", "b", 3), edge("b", "a", 1), edge("b", "d", 1), edge("d", "b", 2)];
        let cut: Vec<Edge> = least_cut(&edges.into()).into_iter().collect();
        assert_eq!(cut, [edge("b", "a", 0).0, edge("b", "d", 0).0]);
    }
}
