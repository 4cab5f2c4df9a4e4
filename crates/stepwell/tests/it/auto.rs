//! Devices that `auto` uses, and the notes on the others; with stand-ins for NVIDIA's libraries,
//! whose devices have 1 GiB.
#![cfg(all(feature = "cuda", target_os = "linux"))]
#![expect(clippy::unwrap_used, reason = "tests: a failure is a panic")]

#[path = "../../../device/tests/stand_in/libraries.rs"]
mod libraries;

use crate::common::{SMALL, Workshop};

use self::libraries::libraries;

/// Stand-in devices, with environment variables that say what they lack.
struct StandIn<'a>(&'a [(&'a str, &'a str)]);

/// Other programs take so much of the devices' memory that only the libraries' share is left.
const FULL: [(&str, &str); 2] = [("STAND_IN_FREE_0", "512"), ("STAND_IN_FREE_1", "100")];

impl StandIn<'_> {
    /// Runs the program; returns whether it succeeded, its output and its errors.
    fn run(&self, shop: &Workshop, args: &[&str]) -> Option<(bool, String, String)> {
        let folder = libraries()?;
        let mut command = shop.command(args);
        command.env("LD_LIBRARY_PATH", folder).env("STEPWELL_NVRTC", folder);
        command.env_remove("CUDA_VISIBLE_DEVICES").env_remove("STEPWELL_CUBLASLT");
        command.env("XDG_CACHE_HOME", shop.path("cache"));
        let output = command.envs(self.0.iter().copied()).output().unwrap();
        let [said, errors] =
            [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        Some((output.status.success(), said, errors))
    }

    fn ok(&self, shop: &Workshop, args: &[&str]) -> Option<String> {
        let (succeeded, said, errors) = self.run(shop, args)?;
        assert!(succeeded, "{args:?}: {said}{errors}");
        Some(said + &errors)
    }

    fn fails(&self, shop: &Workshop, args: &[&str]) -> Option<String> {
        let (succeeded, said, errors) = self.run(shop, args)?;
        assert!(!succeeded && errors.lines().count() == 1, "{args:?}: {said}{errors}");
        Some(errors)
    }
}

fn plan<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["plan", "--synth.examples", "1000"];
    args.extend(SMALL);
    args.extend(more);
    args
}

/// The notes about unused devices.
fn unused(said: &str) -> Vec<&str> {
    said.lines().filter(|line| line.contains(" not used: ") || line.contains("no GPU is")).collect()
}

#[test]
fn full_devices_leave_all_to_the_host() {
    let shop = Workshop::new();
    let full = StandIn(&FULL);
    let Some(said) = full.ok(&shop, &plan(&[])) else { return };
    let [note] = unused(&said)[..] else { panic!("{said}") };
    assert!(note.starts_with("note: no GPU is used: cuda:0 has 0 B free, but a row"), "{said}");
    assert!(!said.contains("tiers.hbm") && !said.contains("memory of each device"), "{said}");
    let data = shop.examples("data.tsv", 640);
    let mut train = vec!["train", "--data", &data, "--checkpoint", "saved"];
    train.extend(SMALL);
    let predict = ["predict", "saved", "--data", &data, "--out", "scores.csv"];
    for args in [&train[..], &["eval", "saved"], &predict] {
        let said = full.ok(&shop, args).unwrap();
        assert_eq!(unused(&said).len(), 1, "{args:?}: {said}");
    }
    // If a device is named, the error is about it, and not about other settings.
    let error = full.fails(&shop, &plan(&["--device", "cuda"])).unwrap();
    assert!(error.contains("cuda:0 has 0 B free, but a row of table 'embedding'"), "{error}");
    assert!(!error.contains("tiers.hbm"), "{error}");
    // A setting that needs a device is an error, not a note.
    let error = full.fails(&shop, &plan(&["--train.dense", "device"])).unwrap();
    assert!(error.contains("train.dense = device takes "), "{error}");
    let error = full.fails(&shop, &plan(&["--tiers.hbm", "64MiB"])).unwrap();
    assert!(error.contains("tiers.hbm = 64.0 MiB, but cuda:0 has 0 B free"), "{error}");
}

#[test]
fn a_full_device_does_not_spoil_the_others() {
    let shop = Workshop::new();
    let free = [("STAND_IN_FREE_1", "600")];
    let Some(said) = StandIn(&free).ok(&shop, &plan(&[])) else { return };
    assert!(said.contains("memory of each device at most (cuda:0):"), "{said}");
    let note = "note: cuda:1 is not used: 88.0 MiB are free, and rows have more space";
    assert!(said.contains(note), "{said}");
    let said = StandIn(&free).ok(&shop, &plan(&["--tiers.hbm", "100MiB"])).unwrap();
    let note = "note: cuda:1 is not used: 88.0 MiB are free, less than tiers.hbm";
    assert!(said.contains("(cuda:0):") && said.contains(note), "{said}");
    let said = StandIn(&free).ok(&shop, &plan(&["--tiers.hbm", "80MiB"])).unwrap();
    assert!(said.contains("(cuda:0, cuda:1):") && unused(&said).is_empty(), "{said}");
    let free = [("STAND_IN_FREE_1", "900")];
    let said = StandIn(&free).ok(&shop, &plan(&[])).unwrap();
    assert!(said.contains("(cuda:0, cuda:1):") && unused(&said).is_empty(), "{said}");
}

#[test]
fn ranks_that_cannot_share_devices_have_none() {
    let shop = Workshop::new();
    let all = StandIn(&[]);
    let mut train = vec!["train", "--synth.examples", "1000", "--ranks.count", "3"];
    train.extend(SMALL);
    for args in [plan(&["--ranks.count", "3"]), train] {
        let Some(said) = all.ok(&shop, &args) else { return };
        let [note] = unused(&said)[..] else { panic!("{said}") };
        let why = "no GPU is used: 3 ranks cannot share 2 devices evenly (cuda:0, cuda:1)";
        assert!(note.contains(why), "{said}");
    }
    let error = all.fails(&shop, &plan(&["--ranks.count", "3", "--device", "cuda"])).unwrap();
    assert!(error.contains("3 ranks cannot share 2 devices evenly"), "{error}");
}

#[test]
fn a_device_that_another_process_holds_is_left_out() {
    let shop = Workshop::new();
    let held = StandIn(&[("STAND_IN_HELD_1", "46")]);
    let Some(said) = held.ok(&shop, &["device"]) else { return };
    let why = "cuDevicePrimaryCtxRetain: ";
    assert!(said.contains("\ncuda:0 ") && said.contains("1.00 GiB of 1.00 GiB are free"), "{said}");
    assert!(said.contains("\ncuda:1 ") && said.contains("1.00 GiB of memory\n"), "{said}");
    assert!(said.contains(&format!("cannot be used: {why}")), "{said}");
    let said = held.ok(&shop, &plan(&[])).unwrap();
    assert!(said.contains("memory of each device at most (cuda:0):"), "{said}");
    let [note] = unused(&said)[..] else { panic!("{said}") };
    assert!(note.starts_with(&format!("note: cuda:1 is not used: {why}")), "{said}");
    let said = held.ok(&shop, &plan(&["--device", "cuda:0"])).unwrap();
    assert!(said.contains("(cuda:0):") && unused(&said).is_empty(), "{said}");
    let error = held.fails(&shop, &plan(&["--device", "cuda"])).unwrap();
    assert!(error.contains(&format!("cuda:1 cannot be used: {why}")), "{error}");
}

/// A plan has the same notes on the dense part as training.
#[test]
fn a_plan_refuses_what_cannot_multiply() {
    let shop = Workshop::new();
    let dense = plan(&["--train.dense", "device"]);
    let Some(said) = StandIn(&[]).ok(&shop, &dense) else { return };
    assert!(said.contains("\n  dense part"), "{said}");
    let none = StandIn(&[("STEPWELL_CUBLASLT", "/no/such/folder")]);
    let error = none.fails(&shop, &dense).unwrap();
    let why = "train.dense is device: no cuBLASLt at STEPWELL_CUBLASLT=/no/such/folder";
    assert!(error.contains(why) && error.contains("or choose train.dense = host"), "{error}");
    let said = none.ok(&shop, &plan(&[])).unwrap();
    assert!(unused(&said).is_empty(), "rows alone need none: {said}");
}

/// Scoring chooses its own devices and their memory.
#[test]
fn scoring_has_no_memory_of_devices_from_training() {
    let shop = Workshop::new();
    let mut train = vec!["train", "--synth.examples", "1000", "--checkpoint", "saved"];
    train.extend(SMALL);
    train.extend(["--device", "host", "--tiers.hbm", "4KiB"]);
    shop.ok(&train);
    shop.ok(&["eval", "saved", "--device", "emulated"]);
    let error = shop.fails(&["eval", "saved", "--device", "emulated", "--tiers.hbm", "4KiB"]);
    assert!(error.contains("tiers.hbm = 4.0 KiB holds no row"), "{error}");
}
