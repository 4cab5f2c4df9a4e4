use std::os::unix::ffi::OsStrExt;

use super::*;

#[test]
fn a_file_is_no_directory() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, b"x").unwrap();
    assert_eq!(FileDisk::open(&path).unwrap_err().kind(), io::ErrorKind::NotADirectory);
    assert_eq!(
        FileDisk::open(&directory.path().join("none")).unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
}

#[test]
fn links_are_themselves() {
    let directory = tempfile::tempdir().unwrap();
    let disk = FileDisk::open(directory.path()).unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("target")).unwrap();
    fs::write(at("target/file"), b"x").unwrap();
    fs::create_dir(at("tree")).unwrap();
    for link in ["link", "tree/link"] {
        std::os::unix::fs::symlink(at("target"), at(link)).unwrap();
    }
    let kinds = disk.entries().unwrap().into_iter().map(|(_, kind)| kind);
    let expected = [EntryKind::Other, EntryKind::Directory, EntryKind::Directory];
    assert!(kinds.eq(expected), "{:?}", disk.entries());
    let identities = ["link", "target"].map(|name| disk.identity(&at(name)).unwrap());
    assert_ne!(identities[0], identities[1]);
    disk.remove_tree(&at("tree")).unwrap();
    assert!(at("target/file").exists(), "what a link leads to stays");
}

#[test]
fn a_directory_is_made_wherever_its_path_leads() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a/../b/./c");
    assert_eq!(FileDisk::create(&path).unwrap().path(), path);
    assert!(directory.path().join("a").is_dir() && directory.path().join("b/c").is_dir());
    let odd = Path::new(std::ffi::OsStr::from_bytes(b"\xff/\xfe"));
    FileDisk::create(&directory.path().join(odd)).unwrap();
    assert!(directory.path().join(odd).is_dir());
    assert!(FileDisk::create(Path::new("")).is_err());
    assert!(FileDisk::create(Path::new(".")).is_ok() && FileDisk::create(Path::new("/")).is_ok());
}
