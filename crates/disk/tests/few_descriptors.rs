//! A process that may have very few open files. Only one test, since the limit is per process.

#![expect(clippy::unwrap_used, reason = "a test's helpers panic like the test")]

use std::fs;
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use stepwell_disk::{Disk, Engine, File, FileDisk, OpenFiles, QueueOptions};

fn allow(files: u64) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum }).unwrap();
}

#[test]
fn without_descriptors_idle_files_are_closed_and_the_last_word_names_the_limit() {
    let directory = tempfile::tempdir().unwrap();
    // The bound exceeds the limit, which the disk must discover.
    let open_files = OpenFiles::new(1000);
    let disk =
        FileDisk::with_open_files(directory.path(), Engine::Auto, open_files.clone()).unwrap();
    let before = getrlimit(Resource::Nofile).current.unwrap();
    allow(40);
    let files: Vec<Arc<dyn File>> = (0..200)
        .map(|number| {
            let file = disk.create(&format!("file-{number}")).unwrap();
            file.write_at(0, &[number]).unwrap();
            file
        })
        .collect();
    for (file, number) in files.iter().zip(0..) {
        let mut byte = [0];
        file.read_at(0, &mut byte).unwrap();
        assert_eq!(byte, [number]);
    }
    let target = disk.create_directory(&directory.path().join("other")).unwrap();
    for number in 0..50 {
        disk.link_into(&format!("file-{number}"), target.path()).unwrap();
    }
    disk.sync_directory().unwrap();
    files.iter().for_each(|file| assert_eq!(file.len().unwrap(), 1));
    assert_eq!(disk.entries().unwrap().len(), 201);
    files.iter().for_each(|file| assert_eq!(file.len().unwrap(), 1));
    assert_eq!(disk.list().unwrap().len(), 200);
    assert!(disk.lock("lock").unwrap().is_some());
    drop(disk.queue(QueueOptions { depth: 8, read_bytes: 1 << 16 }).unwrap());
    assert!(open_files.stats().most < 40, "{}", open_files.stats());

    // Files outside the disk take all remaining descriptors.
    let mut others = Vec::new();
    while let Ok(file) = fs::File::open("/dev/null") {
        others.push(file);
    }
    let held: Vec<_> = (0..50)
        .map(|number| disk.remove(&format!("file-{number}")))
        .take_while(Result::is_ok)
        .collect();
    let error = disk.create("one-more").map(drop).unwrap_err().to_string();
    allow(before);
    assert!(held.len() < 50, "each is kept open by its handle");
    assert!(error.contains("one-more") && error.contains("(ulimit -n)"), "{error}");
    assert!(!disk.exists("one-more").unwrap());
    disk.create("one-more").unwrap();
    files.iter().for_each(|file| assert_eq!(file.len().unwrap(), 1));
}
