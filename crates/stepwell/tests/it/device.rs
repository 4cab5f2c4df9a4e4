//! `stepwell device`: a list of devices or what is missing, and the exit status.

use crate::common::{SMALL, Workshop};

#[test]
fn devices_are_listed_or_what_is_missing_is_said_in_one_line() {
    let shop = Workshop::new();
    for flags in [&["device"][..], &["device", "--compile"]] {
        let plain = shop.run(flags);
        let json = shop.run(&[flags, &["--json"]].concat());
        assert_eq!(plain.status.code(), json.status.code());
        let error = String::from_utf8(json.stderr).unwrap();
        if json.status.success() {
            let figures: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
            let devices = figures["devices"].as_array().unwrap();
            let names = devices.iter().map(|device| device["name"].as_str().unwrap());
            let said = String::from_utf8(plain.stdout).unwrap();
            assert!(names.clone().count() > 0);
            names.for_each(|name| assert!(said.contains(name), "{said}"));
            assert_eq!(error, "");
            continue;
        }
        assert_eq!(json.status.code(), Some(1));
        assert!(error.starts_with("stepwell: ") && error.lines().count() == 1, "{error}");
        assert_eq!(error.as_bytes(), plain.stderr, "the same line");
        let figures: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
        if figures["devices"].as_array().unwrap().is_empty() {
            assert!(error.contains(figures["lacks"].as_str().unwrap()), "{figures}");
        }
    }
}

/// Files that are not libraries do not end the search.
#[test]
fn whatever_a_machine_has_nothing_panics() {
    let shop = Workshop::new();
    let folder = shop.path("no/libraries");
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["libcuda.so", "libcuda.so.1", "libnvrtc.so.13", "libcublasLt.so.13"] {
        std::fs::write(folder.join(name), "no library").unwrap();
    }
    for variable in ["LD_LIBRARY_PATH", "STEPWELL_NVRTC", "STEPWELL_CUBLASLT"] {
        let output = shop.command(&["device"]).env(variable, &folder).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!([Some(0), Some(1)].contains(&output.status.code()), "{variable}: {error}");
        assert!(error.lines().count() <= 1, "{variable}: {error}");
    }
}

/// An unusable driver library is not reported as missing.
#[test]
fn a_library_that_cannot_be_opened_is_said() {
    let shop = Workshop::new();
    let folder = shop.path("libraries");
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["libcuda.so", "libcuda.so.1"] {
        std::fs::write(folder.join(name), "no library ".repeat(100)).unwrap();
    }
    let run = |args: &[&str]| {
        let output = shop.command(args).env("LD_LIBRARY_PATH", &folder).output().unwrap();
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.code(), said)
    };
    let why = "the NVIDIA driver's library cannot be opened: ";
    let (status, [_, error]) = run(&["device"]);
    assert_eq!((status, error.lines().count()), (Some(1), 1), "{error}");
    assert!(error.starts_with(&format!("stepwell: {why}")), "{error}");
    assert!(error.contains("libcuda.so"), "{error}");
    let (_, [json, _]) = run(&["device", "--json"]);
    let figures: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(figures["lacks"].as_str().unwrap().starts_with(why), "{figures}");
    // Without a named device, there is a note, and training runs.
    let mut train = vec!["train", "--synth.examples", "640"];
    train.extend(SMALL);
    let (status, [_, said]) = run(&train);
    let notes = said.lines().filter(|line| line.contains(&format!("no GPU is used: {why}")));
    assert_eq!((status, notes.count()), (Some(0), 1), "{said}");
}
