//! Restrictions on the sources of kernels, and their table.

#![expect(clippy::unwrap_used, reason = "a source that cannot be read fails the test")]

use std::collections::BTreeSet;
use std::path::Path;

use stepwell_kernels::{Access, Kind, NVRTC_OPTIONS, Param, ScalarType};
use stepwell_kernels::{PoolTable, UpdateTable, find, kernels, source};

/// The sources of kernels, by name, and separately the prelude, which alone may distinguish
/// compilers.
fn sources() -> (Vec<(String, String)>, String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cuda");
    let mut sources = Vec::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            sources.push((name, std::fs::read_to_string(path).unwrap()));
        }
    }
    let prelude = sources.iter().position(|(name, _)| name == "prelude.h").unwrap();
    let (_, prelude) = sources.swap_remove(prelude);
    (sources, prelude)
}

/// A text without its comments.
fn code(text: &str) -> String {
    text.lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn kernels_ask_for_no_compiler_and_no_fast_arithmetic() {
    let forbidden = [
        "#if",
        "#else",
        "defined(",
        "__fmaf",
        "fmaf(",
        "fma(",
        "__fdividef",
        "__expf",
        "__logf",
        "__powf",
        "__sinf",
        "__cosf",
        "__frcp",
        "__fsqrt",
        "__frsqrt",
        "rsqrt",
        "__saturatef",
        "__fmul_",
        "__fadd_",
        "__fdiv_",
        "__activemask",
        "<cstdint>",
        "std::",
        "asm",
        "printf",
        "atomicAdd_",
        "cooperative_groups",
        "threadIdx.y",
        "blockIdx.y",
        "__nanosleep",
    ];
    let (sources, prelude) = sources();
    assert!(sources.len() > 10);
    for (name, text) in &sources {
        let code = code(text);
        for word in forbidden {
            assert!(!code.contains(word), "{name}: {word}");
        }
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(widest <= 100 && text.lines().count() <= 300, "{name}: {widest} columns");
    }
    assert_eq!(code(&prelude).matches("#if").count(), 1);
}

/// An atomic operation takes a parameter declared as atomic, or shared memory, and never f32.
#[test]
fn no_floating_point_number_is_changed_atomically() {
    for kernel in kernels() {
        for Param { name, access, ty, .. } in kernel.params {
            let is_whole = matches!(ty, ScalarType::U32 | ScalarType::U64);
            assert!(*access != Access::Atomic || is_whole, "{}: {name}", kernel.name);
        }
    }
    for (name, text) in sources().0 {
        for part in code(&text).split("atomic").skip(1) {
            // The shim has atomic operations of u32 and u64 only, so atomic floats don't compile.
            let operation = part.split('(').next().unwrap_or_default();
            assert!(["Add", "CAS", "Min", "_load"].contains(&operation), "{name}: {operation}");
        }
    }
}

#[test]
fn sources_are_whole_and_have_their_kernels() {
    let files: BTreeSet<&str> = kernels().iter().map(|kernel| kernel.file).collect();
    for file in &files {
        let text = source(file).unwrap();
        assert!(text.contains(&format!("#line 1 \"{file}\"")));
        assert!(!text.contains("#pragma once"), "{file}");
        let included: Vec<&str> = text.lines().filter(|line| line.contains("#include")).collect();
        assert_eq!(included, ["#include \"shim.h\""], "{file}");
        for kernel in kernels().iter().filter(|kernel| kernel.file == *file) {
            assert!(text.contains(&format!("({}, ", kernel.name)), "{}", kernel.name);
        }
    }
    assert_eq!(source("faults.cu"), None);
    assert!(NVRTC_OPTIONS.contains(&"--fmad=false"));
}

#[test]
fn the_table_says_what_the_sources_declare() {
    let names: BTreeSet<&str> = kernels().iter().map(|kernel| kernel.name).collect();
    assert_eq!(names.len(), kernels().len());
    let update = find("rows_update").unwrap();
    assert_eq!((update.file, update.kind), ("rows_update.cu", Kind::Lanes));
    let params: Vec<String> = update
        .params
        .iter()
        .map(|p| format!("{:?} {:?} {} {}", p.access, p.ty, p.name, p.element_bytes))
        .collect();
    let table = format!("In Struct(\"UpdateTable\") tables {}", size_of::<UpdateTable>());
    assert_eq!(
        params,
        [
            "InOut F32 rows 4",
            "In U32 lists 4",
            &*table,
            "Value U32 tables_count 4",
            "Value U32 items 4",
            "In F32 d_x 4",
            "Value U32 columns 4",
            "In F32 d_first_order 4",
            "Value U32 examples 4",
        ]
    );
    let pool = find("rows_pool").unwrap().params[2];
    assert_eq!(pool.element_bytes, size_of::<PoolTable>());
    assert_eq!(find("scan_tiles").unwrap().kind, Kind::Block { threads: 256 });
    assert_eq!(find("table_insert").unwrap().params[0].access, Access::Atomic);
    assert!(find("missing_barrier").is_none());
}
