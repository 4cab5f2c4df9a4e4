//! Directories: made, listed, renamed, removed, identified.

use std::io::ErrorKind;
use std::path::PathBuf;

use super::fixtures::filled;
use crate::disk::{Disk, EntryKind};

pub(super) fn run(disk: &dyn Disk) {
    let path = disk.path().join("directories");
    let disk = &*disk.create_directory(&path).unwrap();
    one_is_made_where_there_is_none(disk);
    parents_are_made_too(disk);
    all_names_are_listed(disk);
    an_empty_one_is_removed(disk);
    a_tree_is_removed(disk);
    one_goes_with_all_in_it(disk);
    each_has_an_identity(disk);
    assert_eq!(disk.entries().unwrap(), [], "every test cleans up");
    disk.remove_directory(&path).unwrap();
    assert_eq!(disk.list().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.entries().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.sync_directory().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.create("a").unwrap_err().kind(), ErrorKind::NotFound);
}

fn at(disk: &dyn Disk, name: &str) -> PathBuf {
    disk.path().join(name)
}

/// Makes a directory with a file `below/a`.
fn tree(disk: &dyn Disk, name: &str) -> PathBuf {
    let path = at(disk, name);
    let below = disk.create_directory(&path.join("below")).unwrap();
    filled(&*below, "a", name.as_bytes());
    path
}

fn one_is_made_where_there_is_none(disk: &dyn Disk) {
    let path = at(disk, "a");
    disk.make_directory(&path).unwrap();
    assert_eq!(disk.make_directory(&path).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(disk.create("a").unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert!(disk.exists("a").unwrap() && disk.open("a").is_err());
    filled(disk, "b", b"");
    assert_eq!(disk.make_directory(&at(disk, "b")).unwrap_err().kind(), ErrorKind::AlreadyExists);
    let inside_a_file = disk.make_directory(&at(disk, "b/c")).unwrap_err();
    assert_eq!(inside_a_file.kind(), ErrorKind::NotADirectory);
    let orphan = disk.make_directory(&at(disk, "none/c")).unwrap_err();
    assert_eq!(orphan.kind(), ErrorKind::NotFound);
    let message = orphan.to_string();
    assert!(message.contains("create directory") && message.contains("none/c"), "{message}");
    disk.remove("b").unwrap();
    disk.remove_directory(&path).unwrap();
}

fn parents_are_made_too(disk: &dyn Disk) {
    let deep = disk.create_directory(&at(disk, "a/b/c")).unwrap();
    assert_eq!(deep.path(), at(disk, "a/b/c"));
    filled(&*deep, "file", b"here");
    assert_eq!(disk.create_directory(deep.path()).unwrap().read("file", 9).unwrap(), b"here");
    for path in ["a/b/c/file", "a/b/c/file/d"] {
        let in_the_way = disk.create_directory(&at(disk, path)).unwrap_err();
        assert_eq!(in_the_way.kind(), ErrorKind::NotADirectory, "{path}");
    }
    disk.remove_tree(&at(disk, "a")).unwrap();
}

fn all_names_are_listed(disk: &dyn Disk) {
    for name in ["d", "a"] {
        disk.make_directory(&at(disk, name)).unwrap();
    }
    for name in ["c", "b"] {
        filled(disk, name, b"");
    }
    let (file, directory) = (EntryKind::File, EntryKind::Directory);
    let expected = [("a", directory), ("b", file), ("c", file), ("d", directory)];
    assert_eq!(disk.entries().unwrap(), expected.map(|(name, kind)| (name.to_owned(), kind)));
    assert_eq!(disk.list().unwrap(), ["b", "c"]);
    ["a", "d"].iter().for_each(|name| disk.remove_directory(&at(disk, name)).unwrap());
    ["b", "c"].iter().for_each(|name| disk.remove(name).unwrap());
}

fn an_empty_one_is_removed(disk: &dyn Disk) {
    let path = tree(disk, "a");
    let kind = |name: &str| disk.remove_directory(&at(disk, name)).unwrap_err().kind();
    assert_eq!(kind("a"), ErrorKind::DirectoryNotEmpty);
    assert_eq!(kind("a/below/a"), ErrorKind::NotADirectory);
    assert_eq!(kind("b"), ErrorKind::NotFound);
    assert_eq!(disk.remove("a").unwrap_err().kind(), ErrorKind::IsADirectory);
    disk.directory(&path.join("below")).unwrap().remove("a").unwrap();
    disk.remove_directory(&path.join("below")).unwrap();
    disk.remove_directory(&path).unwrap();
    assert!(!disk.exists("a").unwrap());
}

fn a_tree_is_removed(disk: &dyn Disk) {
    let path = tree(disk, "a");
    filled(&*disk.directory(&path).unwrap(), "b", b"");
    disk.make_directory(&path.join("empty")).unwrap();
    tree(disk, "stays");
    disk.remove_tree(&path).unwrap();
    assert_eq!(disk.remove_tree(&path).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.entries().unwrap(), [("stays".to_owned(), EntryKind::Directory)]);
    disk.remove_tree(&at(disk, "stays")).unwrap();
}

fn one_goes_with_all_in_it(disk: &dyn Disk) {
    tree(disk, "a");
    disk.rename("a", "b").unwrap();
    assert!(!disk.exists("a").unwrap());
    disk.rename("b", "aside/deeper/c").unwrap();
    assert_eq!(disk.read("aside/deeper/c/below/a", 9).unwrap(), b"a");
    tree(disk, "d");
    filled(disk, "file", b"");
    let kind = |from: &str, to: &str| disk.rename(from, to).unwrap_err().kind();
    assert_eq!(kind("d", "aside"), ErrorKind::DirectoryNotEmpty);
    assert_eq!(kind("d", "file"), ErrorKind::NotADirectory);
    assert_eq!(kind("file", "d"), ErrorKind::IsADirectory);
    assert_eq!(kind("d", "d/below/d"), ErrorKind::InvalidInput);
    assert_eq!(kind("none", "e"), ErrorKind::NotFound);
    disk.make_directory(&at(disk, "empty")).unwrap();
    disk.rename("d", "empty").unwrap();
    assert_eq!(disk.read("empty/below/a", 9).unwrap(), b"d");
    disk.rename("aside/deeper/c", "back").unwrap();
    assert_eq!(disk.read("back/below/a", 9).unwrap(), b"a");
    disk.remove("file").unwrap();
    ["aside", "back", "empty"].iter().for_each(|name| disk.remove_tree(&at(disk, name)).unwrap());
}

fn each_has_an_identity(disk: &dyn Disk) {
    let (one, other) = (tree(disk, "one"), tree(disk, "other"));
    let identity = disk.identity(&one).unwrap();
    assert_eq!(disk.identity(&one).unwrap(), identity);
    assert_ne!(disk.identity(&other).unwrap(), identity);
    assert_eq!(disk.directory(&one).unwrap().identity(&one).unwrap(), identity);
    disk.rename("one", "below/two").unwrap();
    assert_eq!(disk.identity(&at(disk, "below/two")).unwrap(), identity);
    assert_eq!(disk.identity(&one).unwrap_err().kind(), ErrorKind::NotFound);
    disk.remove_tree(&other).unwrap();
    disk.remove_tree(&at(disk, "below")).unwrap();
}
