//! The directory tree of a world in memory: current names, and durable ones.
//!
//! - **How.** Directories have numbers, which they keep under every name and after a crash. The
//!   root's is [`ROOT`]; it is durable. A directory without a durable name is lost in a crash, with
//!   everything below it.
//! - **Cost.** A removed directory stays in the table: its name may still be durable.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Component, Path};
use std::sync::{Arc, Mutex};

use stepwell_base::random::Stream;

use super::content::{Content, Survival};
use crate::mutex::lock;

/// Number of the root.
const ROOT: u64 = 0;

/// The bytes of a file, which may have several names.
#[derive(Debug, Default)]
pub(super) struct Inode(pub(super) Mutex<Content>);

/// Target of a name.
#[derive(Clone, Debug)]
pub(super) enum Entry {
    File(Arc<Inode>),
    Directory(u64),
}

pub(super) type Names = BTreeMap<String, Entry>;

#[derive(Debug, Default)]
pub(super) struct Directory {
    pub(super) live: Names,
    synced: Names,
}

/// Result of a look-up, or the kind of error.
pub(super) type Found<T> = Result<T, ErrorKind>;

/// All directories.
#[derive(Debug)]
pub(super) struct World {
    directories: BTreeMap<u64, Directory>,
    made: u64,
}

impl World {
    /// A world with only a root.
    pub(super) fn new() -> Self {
        Self { directories: BTreeMap::from([(ROOT, Directory::default())]), made: 0 }
    }

    /// The number of the directory at `path`.
    pub(super) fn number(&self, path: &Path) -> Found<u64> {
        let mut number = ROOT;
        for component in path.components() {
            let name = match component {
                Component::RootDir | Component::CurDir => continue,
                Component::Normal(name) => name.to_string_lossy(),
                Component::ParentDir | Component::Prefix(_) => return Err(ErrorKind::InvalidInput),
            };
            let directory = self.directories.get(&number).ok_or(ErrorKind::NotFound)?;
            number = match directory.live.get(&*name) {
                Some(Entry::Directory(number)) => *number,
                Some(Entry::File(_)) => return Err(ErrorKind::NotADirectory),
                None => return Err(ErrorKind::NotFound),
            };
        }
        Ok(number)
    }

    /// The directory at `path`.
    pub(super) fn directory(&self, path: &Path) -> Found<&Directory> {
        self.directories.get(&self.number(path)?).ok_or(ErrorKind::NotFound)
    }

    fn directory_mut(&mut self, path: &Path) -> Found<&mut Directory> {
        let number = self.number(path)?;
        self.directories.get_mut(&number).ok_or(ErrorKind::NotFound)
    }

    /// The entry at `path`.
    pub(super) fn entry(&self, path: &Path) -> Found<&Entry> {
        let (above, name) = split(path)?;
        self.directory(above)?.live.get(&name).ok_or(ErrorKind::NotFound)
    }

    /// Adds a name for a file or directory.
    pub(super) fn insert(&mut self, path: &Path, entry: Entry) -> Found<()> {
        let (above, name) = split(path)?;
        let directory = self.directory_mut(above)?;
        if directory.live.contains_key(&name) {
            return Err(ErrorKind::AlreadyExists);
        }
        directory.live.insert(name, entry);
        Ok(())
    }

    /// Makes an empty directory.
    pub(super) fn make(&mut self, path: &Path) -> Found<()> {
        self.insert(path, Entry::Directory(self.made + 1))?;
        self.made += 1;
        self.directories.insert(self.made, Directory::default());
        Ok(())
    }

    /// Removes a file's name.
    pub(super) fn remove(&mut self, path: &Path) -> Found<()> {
        match self.entry(path)? {
            Entry::Directory(_) => Err(ErrorKind::IsADirectory),
            Entry::File(_) => self.take(path).map(drop),
        }
    }

    /// Removes an empty directory.
    pub(super) fn remove_directory(&mut self, path: &Path) -> Found<()> {
        match self.entry(path)? {
            Entry::File(_) => Err(ErrorKind::NotADirectory),
            Entry::Directory(number) if !self.is_empty(*number) => {
                Err(ErrorKind::DirectoryNotEmpty)
            }
            Entry::Directory(_) => self.take(path).map(drop),
        }
    }

    fn is_empty(&self, number: u64) -> bool {
        self.directories.get(&number).is_none_or(|directory| directory.live.is_empty())
    }

    fn take(&mut self, path: &Path) -> Found<Entry> {
        let (above, name) = split(path)?;
        self.directory_mut(above)?.live.remove(&name).ok_or(ErrorKind::NotFound)
    }

    /// Renames the entry at `from`, and syncs both directories.
    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> Found<()> {
        let entry = self.entry(from)?.clone();
        if to != from && to.starts_with(from) {
            return Err(ErrorKind::InvalidInput);
        }
        let (into, name) = split(to)?;
        self.directory(into)?;
        match (&entry, self.entry(to).ok()) {
            (Entry::File(_), Some(Entry::Directory(_))) => return Err(ErrorKind::IsADirectory),
            (Entry::Directory(_), Some(Entry::File(_))) => return Err(ErrorKind::NotADirectory),
            (Entry::Directory(one), Some(Entry::Directory(other)))
                if one != other && !self.is_empty(*other) =>
            {
                return Err(ErrorKind::DirectoryNotEmpty);
            }
            _ => {}
        }
        self.take(from)?;
        self.directory_mut(into)?.live.insert(name, entry);
        self.sync(split(from)?.0)?;
        self.sync(into)
    }

    /// Makes the names in the directory at `path` durable.
    pub(super) fn sync(&mut self, path: &Path) -> Found<()> {
        let directory = self.directory_mut(path)?;
        directory.synced = directory.live.clone();
        Ok(())
    }

    /// The world after a crash.
    pub(super) fn crash(&self, survival: Survival) -> Self {
        let mut dice = match survival {
            Survival::Torn(seed) => Stream::from_state(seed),
            Survival::SyncedAlone | Survival::Everything => Stream::from_state(0),
        };
        let mut after = Self { directories: BTreeMap::new(), made: self.made };
        let mut left = vec![ROOT];
        while let Some(number) = left.pop() {
            let Some(directory) = self.directories.get(&number) else { continue };
            let names = directory.surviving(survival, &mut dice);
            left.extend(names.values().filter_map(|entry| match entry {
                Entry::Directory(number) => Some(*number),
                Entry::File(_) => None,
            }));
            after.directories.insert(number, Directory { synced: names.clone(), live: names });
        }
        after
    }
}

impl Directory {
    fn surviving(&self, survival: Survival, dice: &mut Stream) -> Names {
        let names: BTreeSet<&String> = self.live.keys().chain(self.synced.keys()).collect();
        let mut after = Names::new();
        for name in names {
            let (live, synced) = (self.live.get(name), self.synced.get(name));
            let entry = match survival {
                Survival::SyncedAlone => synced,
                Survival::Everything => live,
                Survival::Torn(_) if dice.next_u64() & 1 == 0 => live,
                Survival::Torn(_) => synced,
            };
            let entry = entry.map(|entry| match entry {
                Entry::Directory(number) => Entry::Directory(*number),
                Entry::File(inode) => {
                    let bytes = lock(&inode.0).surviving(survival, dice);
                    Entry::File(Arc::new(Inode(Mutex::new(Content::durable(bytes)))))
                }
            });
            after.extend(entry.map(|entry| (name.clone(), entry)));
        }
        after
    }
}

/// The parent directory of `path`, and the name there.
fn split(path: &Path) -> Found<(&Path, String)> {
    match (path.parent(), path.file_name()) {
        (Some(above), Some(name)) => Ok((above, name.to_string_lossy().into_owned())),
        _ => Err(ErrorKind::InvalidInput),
    }
}
