//! `stepwell device`: a list of devices, or what is missing, and a status that says which.

mod common;

use self::common::Workshop;

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
    }
}

/// Libraries that are no libraries are not the end of it.
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
