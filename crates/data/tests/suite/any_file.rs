//! Files of arbitrary bytes are read or rejected, and the cuts between blocks don't matter.

use proptest::prelude::*;
use stepwell_data::{DataError, Input, ReadOptions, SourceFile, count_lines, resolve};

use crate::common::*;

/// Text with valid and malformed lines.
fn texts() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        4 => (0usize..5000).prop_map(|number| line(number).into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..40),
        1 => Just(b"\n".to_vec()),
        1 => (0usize..9).prop_map(|number| line(number).replace('\n', "\r\n").into_bytes()),
    ];
    prop::collection::vec(line, 0..30).prop_map(|lines| lines.concat())
}

/// First bytes of known and unknown formats.
fn beginnings() -> impl Strategy<Value = Vec<u8>> {
    prop::sample::select(vec![
        &b""[..],
        &[0x1F, 0x8B],
        &[0x1F, 0x8B, 8, 0x1F, 0, 0, 0, 0, 0, 3],
        &[0x28, 0xB5, 0x2F, 0xFD],
        &[0x28, 0xB5, 0x2F, 0xFD, 0, 0x58],
        &[0x28, 0xB5, 0x2F, 0xFD, 0x24, 0xA8],
        &[0x50, 0x2A, 0x4D, 0x18, 3, 0, 0, 0],
        b"STEPWPAK",
        b"STEPWPAK\x01\0\0\0",
        b"PK\x03\x04",
    ])
    .prop_map(<[u8]>::to_vec)
}

/// A text, plain or compressed, whole, modified or truncated; or bytes that only start like a known
/// format.
fn files() -> impl Strategy<Value = Vec<u8>> {
    let whole = (texts(), texts(), 0..5).prop_map(|(one, two, kind)| match kind {
        0 => [one, two].concat(),
        1 => [gzip(one), gzip(two)].concat(),
        2 => [zstd(one), zstd(two)].concat(),
        3 => gzip(zstd([one, two].concat())),
        _ => [zstd(one), two].concat(),
    });
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    let changed = (whole, changes, any::<prop::sample::Index>(), any::<bool>()).prop_map(
        |(mut bytes, changes, end, cut)| {
            for (at, byte) in changes {
                if !bytes.is_empty() {
                    let at = at.index(bytes.len());
                    bytes[at] = byte;
                }
            }
            if cut && !bytes.is_empty() {
                bytes.truncate(end.index(bytes.len()));
            }
            bytes
        },
    );
    let begun = (beginnings(), prop::collection::vec(any::<u8>(), 0..200))
        .prop_map(|(begin, rest)| [begin, rest].concat());
    prop_oneof![3 => changed, 1 => begun]
}

/// A frame of one example, and an empty frame whose header claims 82 bytes.
#[test]
fn a_frame_that_lacks_bytes_is_refused_whatever_the_block_size() {
    let frame = zstd(b"1\t13\t\t6\tid13\tsame\n");
    let empty = [0x28, 0xB5, 0x2F, 0xFD, 0x20, 82, 1, 0, 0];
    let folder = tempfile::tempdir().unwrap();
    let file = [write(folder.path(), "any", [&frame[..], &empty].concat())];
    for block_bytes in [18, 100, 1 << 20] {
        let read = read_files(&file, &blocks_of(block_bytes));
        assert!(matches!(read, Err(DataError::Read { .. })), "{block_bytes}: {read:?}");
    }
    assert!(count_lines(&file).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(600),
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn any_file_is_read_or_refused(
        bytes in files(),
        cuts in prop::collection::vec(1usize..600, 3),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let file = [write(folder.path(), "any", &bytes)];
        let resolved = resolve(&file);
        let source = SourceFile::of(&file[0], None).unwrap();
        prop_assert_eq!(source.bytes, bytes.len() as u64);
        let skip_max = u64::MAX;
        let read = |block_bytes| {
            read_files(&file, &ReadOptions { skip_max, ..blocks_of(block_bytes) })
        };
        let whole = read(1 << 20);
        // The lines counted are those read, and counting also fails on damage.
        match (&whole, count_lines(&file)) {
            (Ok((rows, skipped)), Ok(lines)) => {
                prop_assert_eq!(rows.len() as u64 + skipped, lines);
                prop_assert_eq!(resolved.is_ok(), lines > 0);
            }
            (Err(DataError::Malformed { .. } | DataError::Path { .. }), _) => {}
            (Err(_), counted) => prop_assert!(counted.is_err()),
            (Ok(_), counted) => prop_assert!(false, "{counted:?}"),
        }
        for block_bytes in cuts {
            match (&whole, read(block_bytes)) {
                (Ok(whole), Ok(found)) => prop_assert!(&found == whole, "{block_bytes}"),
                // A line may be too long for this block size.
                (_, Err(DataError::Malformed { .. })) => {}
                (whole, found) => prop_assert!(whole.is_err() && found.is_err(), "{found:?}"),
            }
        }
        let input = Input::Files(file.to_vec().into());
        prop_assert_eq!(input.lines_of_each().is_ok(), count_lines(&file).is_ok());
        let _ = (input.source_bytes_max(1 << 20), input.has_truth());
    }
}
