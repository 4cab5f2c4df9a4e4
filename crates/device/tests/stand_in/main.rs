//! The driver of NVIDIA devices, tested on substitutes for their libraries.
//!
//! - **Why.** Most machines that run these tests have no such device, but problems in the driver
//!   itself can still be found: order, life, contexts, layouts, messages.
//! - **How.** C++ files become `libcuda.so.1` and, under other names, `libcublasLt.so.13` and the
//!   compiler; each test reruns this program so that it finds them. Kernels run as on emulated
//!   devices.
#![cfg(all(feature = "cuda", target_os = "linux"))]
#![expect(clippy::unwrap_used, reason = "tests: a failure is a panic")]

mod libraries;

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::process::Command;

use libloading::{Library, Symbol};
use stepwell_device::cuda::{self, Settings, Version};
use stepwell_device::{Choice, Device, Error, conformance};
use stepwell_kernels::host::{self, Launch, Schedule};

use self::libraries::libraries;

/// Set in the rerun, where the substitutes are used.
const WITHIN: &str = "STEPWELL_STAND_IN";

/// Runs `test`, named `name`, in a rerun of this program with the substitutes.
fn within(name: &str, environment: &[(&str, &str)], test: impl FnOnce()) {
    if std::env::var_os(WITHIN).is_some() {
        return test();
    }
    let Some(folder) = libraries() else { return };
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", name, "--nocapture"]).env(WITHIN, "1");
    again.env("LD_LIBRARY_PATH", folder).env("STEPWELL_NVRTC", folder);
    again.env_remove("CUDA_VISIBLE_DEVICES").env_remove("STEPWELL_CUBLASLT");
    again.env("XDG_CACHE_HOME", folder.join("cache"));
    let ended = again.envs(environment.iter().copied()).output().unwrap();
    let said = [ended.stdout, ended.stderr].concat();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&said));
}

/// The substitute's own functions.
struct StandIn(Library);

impl StandIn {
    fn open() -> Self {
        // SAFETY: it is ours, and does nothing on opening.
        let library = unsafe { Library::new("libcuda.so.1") }.unwrap();
        let this = Self(library);
        this.take_kernels();
        this
    }

    fn take_kernels(&self) {
        let name = c"stand_in_kernels";
        let take: Symbol<'_, unsafe extern "C" fn(*const c_void, *const c_void)> = self.get(name);
        // SAFETY: both functions have the types of the substitute's `Run` and `Count`.
        unsafe { take(run_kernel as *const c_void, count_parameters as *const c_void) };
    }

    fn get<F>(&self, name: &CStr) -> Symbol<'_, F> {
        // SAFETY: callers use each name with its type in `cuda.cpp`.
        unsafe { self.0.get(name.to_bytes_with_nul()) }.unwrap()
    }

    fn lose(&self, code: c_int) {
        let lose: Symbol<'_, unsafe extern "C" fn(c_int)> = self.get(c"stand_in_lose");
        // SAFETY: accepts any number.
        unsafe { lose(code) };
    }

    /// Number of memory regions not freed, and of contexts not released.
    fn left(&self) -> (usize, c_int) {
        let memory: Symbol<'_, unsafe extern "C" fn() -> usize> = self.get(c"stand_in_allocations");
        let contexts: Symbol<'_, unsafe extern "C" fn() -> c_int> = self.get(c"stand_in_contexts");
        // SAFETY: has no arguments.
        let memory = unsafe { memory() };
        // SAFETY: has no arguments.
        let contexts = unsafe { contexts() };
        (memory, contexts)
    }
}

unsafe extern "C" fn count_parameters(name: *const c_char) -> u32 {
    // SAFETY: the substitute passes the text of a name.
    let name = unsafe { CStr::from_ptr(name) };
    stepwell_kernels::find(name.to_str().unwrap()).unwrap().params.len() as u32
}

unsafe extern "C" fn run_kernel(
    name: *const c_char,
    blocks: u32,
    threads: u32,
    shared_bytes: u32,
    arguments: *const *const c_void,
) {
    // SAFETY: as above.
    let name = unsafe { CStr::from_ptr(name) };
    let kernel = stepwell_kernels::find(name.to_str().unwrap()).unwrap();
    // SAFETY: the substitute passes a pointer for each parameter.
    let arguments = unsafe { std::slice::from_raw_parts(arguments, kernel.params.len()) };
    let launch = Launch { blocks, threads, shared_bytes };
    // SAFETY: the driver keeps all arguments alive until the launch is over.
    let ran = unsafe { host::run(kernel, launch, arguments, Schedule { seed: 1, workers: 1 }) };
    ran.unwrap();
}

fn devices(check_order: bool) -> Vec<Device> {
    let settings = Settings { check_order, pinned_bytes: 1 << 30, ..Settings::default() };
    cuda::find(&settings).unwrap()
}

#[test]
fn it_conforms() {
    within("it_conforms", &[], || {
        let stand_in = StandIn::open();
        for check_order in [false, true] {
            let devices = devices(check_order);
            assert_eq!(devices.len(), 2);
            assert_eq!(devices[1].about().name, "cuda:1");
            assert_eq!(devices[0].memory()[0].0, 512 << 20);
            assert_eq!(conformance::run(&devices), [""; 0]);
        }
        assert_eq!(stand_in.left(), (0, 0), "all memory and all contexts are given back");
    });
}

#[test]
fn what_is_there_is_listed() {
    within("what_is_there_is_listed", &[], || {
        let found = cuda::look().unwrap();
        let version = Version { major: 12, minor: 4 };
        assert_eq!((found.driver, found.nvrtc, found.blas), (version, Ok(version), Ok(version)));
        let [first, second] = &found.devices[..] else { panic!("{:?}", found.devices) };
        assert_eq!((first.architecture, first.about.model.as_str()), (90, "stand-in"));
        assert_eq!((&first.reaches[..], &second.reaches[..]), (&[1][..], &[0][..]));
        assert_eq!((&first.lacks, first.free_bytes), (&None, Some(1 << 30)));
        assert_eq!(StandIn::open().left(), (0, 0));
    });
}

/// A device held exclusively by another process doesn't prevent the use of others.
#[test]
fn what_one_device_lacks_others_have() {
    let held = [("STAND_IN_HELD_1", "46"), ("STAND_IN_FREE_0", "800")];
    within("what_one_device_lacks_others_have", &held, || {
        let found = cuda::look().unwrap();
        let [first, second] = &found.devices[..] else { panic!("{:?}", found.devices) };
        assert_eq!((&first.lacks, first.free_bytes), (&None, Some(800 << 20)));
        let lacks = second.lacks.as_deref().unwrap();
        assert!(lacks.starts_with("cuDevicePrimaryCtxRetain: "), "{lacks}");
        assert_eq!((second.free_bytes, second.about.memory_bytes), (None, 1 << 30));
        assert_eq!((second.about.name.as_str(), second.architecture), ("cuda:1", 90));
        let notes = RefCell::new(Vec::new());
        let offer = |choice: &str| {
            let choice: Choice = choice.parse().unwrap();
            choice.offer(&|note| notes.borrow_mut().push(note))
        };
        let names = |choice: &str| offer(choice).map(|offer| offer.unwrap().names);
        assert_eq!(names("cuda:0").unwrap(), ["cuda:0"]);
        assert_eq!(notes.take(), [""; 0]);
        assert_eq!(names("auto").unwrap(), ["cuda:0"]);
        assert_eq!(notes.take(), [format!("cuda:1 is not used: {lacks}")]);
        for choice in ["cuda", "cuda:1", "cuda:0,1"] {
            assert_eq!(offer(choice), Err(format!("cuda:1 cannot be used: {lacks}")));
        }
        let none = "there is no cuda:2, only 2 devices".to_owned();
        assert_eq!(offer("cuda:0,2"), Err(none));
        assert_eq!(StandIn::open().left(), (0, 0));
    });
}

/// A reason common to all devices is reported once.
#[test]
fn what_all_devices_lack_is_one_note() {
    let old = [("STAND_IN_ARCHITECTURE", "75")];
    within("what_all_devices_lack_is_one_note", &old, || {
        let notes = RefCell::new(Vec::new());
        let offer = Choice::Auto.offer(&|note| notes.borrow_mut().push(note));
        assert_eq!(offer, Ok(None));
        let [note] = &notes.take()[..] else { panic!("one note") };
        assert!(note.starts_with("cuda:0, cuda:1 are not used: NVRTC 12.4"), "{note}");
    });
}

#[test]
fn settings_choose_devices_and_memory() {
    within("settings_choose_devices_and_memory", &[], || {
        let settings = |numbers: &[usize], memory_bytes| {
            let numbers = numbers.to_vec();
            cuda::find(&Settings { numbers, memory_bytes, ..Settings::default() })
        };
        let one = settings(&[1], Some(1 << 20)).unwrap();
        assert_eq!((one.len(), one[0].about().number), (1, 1));
        assert_eq!(one[0].memory()[0].0, 1 << 20);
        let lacks = settings(&[2], None).unwrap_err();
        assert_eq!(lacks, "there is no cuda:2, only 2 devices");
        let lacks = settings(&[], Some(5 << 30)).unwrap_err();
        assert_eq!(lacks, "cuda:0 has 1.00 GiB of memory free, less than 5.00 GiB");
        drop(one);
        assert_eq!(StandIn::open().left(), (0, 0), "what was begun is undone");
    });
}

#[test]
fn a_device_that_is_lost_stays_lost() {
    within("a_device_that_is_lost_stays_lost", &[], || {
        let stand_in = StandIn::open();
        let devices = devices(false);
        let device = &devices[0];
        let (stream, event) = (device.stream("lost").unwrap(), device.event().unwrap());
        let buffer = device.buffer::<u8>(1000, "lost").unwrap();
        let mut host = device.pinned::<u8>(1000, "lost").unwrap();
        stream.up(&host, 0..1000, &buffer, 0).unwrap();
        stream.record(&event).unwrap();
        stand_in.lose(700);
        let wanted = "cuda:0 is lost: an illegal memory access was encountered \
             (CUDA_ERROR_ILLEGAL_ADDRESS)";
        let more = device.buffer::<u8>(1, "more").err();
        let finished = stream.finish().err();
        // The device stays lost, whatever the library returns next.
        stand_in.lose(0);
        let cleared = stream.clear(&buffer, 0..1).err();
        let waited = event.wait().err();
        for error in [more, finished, cleared, waited] {
            let error = error.unwrap();
            assert!(matches!(error, Error::Lost { .. }), "{error}");
            assert_eq!(error.to_string(), wanted);
        }
        drop((stream, event, buffer));
        // Operations in flight end with their stream.
        host.write(1000).unwrap().fill(1);
        assert_eq!(conformance::run(&devices[1..]), [""; 0], "the other device goes on");
    });
}

#[test]
fn memory_that_runs_out_is_named() {
    within("memory_that_runs_out_is_named", &[], || {
        let ours = Settings { memory_bytes: Some(1 << 30), ..Settings::default() };
        let (ours, theirs) = (cuda::find(&ours).unwrap(), devices(false));
        let _taken = theirs[0].buffer::<u8>(256 << 20, "what another has").unwrap();
        let error = ours[0].buffer::<u8>(800 << 20, "rows").unwrap_err();
        let wanted = "cuda:0: no room for rows (800.0 MiB): 768.0 MiB of 1.00 GiB are free";
        assert_eq!(error.to_string(), wanted);
        assert_eq!(ours[0].memory()[1].0, 1 << 30, "the pool has it back");
        ours[1].buffer::<u8>(1 << 20, "rows").unwrap();
    });
}

#[test]
fn what_a_driver_refuses_is_said_in_one_line() {
    let none = "the NVIDIA driver shows no device";
    let hidden = format!("{none}, with CUDA_VISIBLE_DEVICES=\"\"");
    let old = "the NVIDIA driver is for CUDA 11.8, too old: install one for 12.0";
    let begins = "the NVIDIA driver does not start: cuInit: something else (CUDA_ERROR_STAND_IN)";
    let cases: [(&[(&str, &str)], &str); 5] = [
        (&[("STAND_IN_INIT", "100")], none),
        (&[("STAND_IN_DEVICES", "0")], none),
        (&[("STAND_IN_DEVICES", "0"), ("CUDA_VISIBLE_DEVICES", "")], &hidden),
        (&[("STAND_IN_VERSION", "11080")], old),
        (&[("STAND_IN_INIT", "803")], begins),
    ];
    for (environment, wanted) in cases {
        let wanted = [environment, &[("STAND_IN_WANTED", wanted)]].concat();
        within("what_a_driver_refuses_is_said_in_one_line", &wanted, said_instead);
        if std::env::var_os(WITHIN).is_some() {
            return;
        }
    }
}

/// Both calls must return the wanted message.
fn said_instead() {
    let wanted = std::env::var("STAND_IN_WANTED").unwrap();
    assert_eq!(cuda::find(&Settings::default()).unwrap_err(), wanted);
    assert_eq!(cuda::look().unwrap_err(), wanted);
}

#[test]
fn a_compiler_that_does_not_fit_is_said_and_devices_are_listed() {
    let name = "a_compiler_that_does_not_fit_is_said_and_devices_are_listed";
    for (environment, wanted) in [
        (("STAND_IN_ARCHITECTURE", "75"), "NVRTC 12.4 does not compile for sm_75"),
        (("STEPWELL_NVRTC", "/no/such/folder"), "no NVRTC at STEPWELL_NVRTC=/no/such/folder"),
    ] {
        within(name, &[environment, ("STAND_IN_WANTED", wanted)], || {
            let wanted = std::env::var("STAND_IN_WANTED").unwrap();
            let lacks = cuda::find(&Settings::default()).unwrap_err();
            assert!(lacks.contains(&wanted) && !lacks.contains('\n'), "{lacks}");
            let found = cuda::look().unwrap();
            let lacks = found.devices[0].lacks.as_ref().unwrap();
            assert!(lacks.contains(&wanted), "{lacks}");
        });
        if std::env::var_os(WITHIN).is_some() {
            return;
        }
    }
}
