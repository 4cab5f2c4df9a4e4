use super::*;

fn manifest() -> Manifest {
    let mut manifest = Manifest::empty(StoreId::from_number(5), &Layout::new(2, 64));
    manifest.next_segment = 9;
    for (segment, store) in [(3, 5), (7, 6), (8, 5)] {
        let checksum = sum_text(segment * 0x1234_5678_9abc);
        let (origin, number) = (None, None);
        let entry = SegmentEntry { segment, rows: 7, bytes: 8304, checksum, origin, number };
        let store = StoreId::from_number(store);
        let number = SegmentNumber::of_manifest(segment - 2 * u64::from(segment == 7));
        manifest.name(Origin { store, number }, KeyShardSet::ALL, entry);
    }
    manifest
}

fn read(bytes: &[u8]) -> Result<Manifest> {
    decode(bytes, PathBuf::from("m"))
}

#[test]
fn is_plain_json_and_comes_back() {
    let bytes = manifest().encode();
    assert_eq!(read(&bytes).unwrap(), manifest());
    let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(value["segments"][2]["segment"], 8);
    assert_eq!(value["segments"][1]["number"], 5);
    let origins: Vec<u64> =
        manifest().segments.iter().map(|entry| manifest().origin(entry).number.into()).collect();
    assert_eq!(origins, [3, 5, 8]);
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.contains("\n    {\"segment\":3,\"rows\":7,"), "a line each: {text}");
    let empty = Manifest::empty(StoreId::from_number(5), &Layout::new(2, 64));
    assert_eq!(read(&empty.encode()).unwrap(), empty);
    assert_eq!(value["checksum"].as_str().unwrap().len(), 16);
}

#[test]
fn every_changed_or_missing_byte_shows() {
    let bytes = manifest().encode();
    for at in 0..bytes.len() {
        for flip in [0x01, 0x20, 0x80] {
            let mut bytes = bytes.clone();
            bytes[at] ^= flip;
            read(&bytes).unwrap_err();
        }
        read(&bytes[..at]).unwrap_err();
    }
}

#[test]
fn what_is_written_can_be_read() {
    let mut manifest = manifest();
    manifest.next_segment = SegmentNumber::END.into();
    let last = SegmentEntry {
        segment: u64::from(SegmentNumber::END) - 1,
        rows: u32::MAX >> 1,
        bytes: 64 << 30,
        checksum: sum_text(u64::MAX),
        origin: Some(u32::MAX),
        number: Some(u64::from(SegmentNumber::END) - 1),
    };
    let before = manifest.encode().len();
    manifest.segments.push(last);
    let line = manifest.encode().len() - before;
    assert!((line * SEGMENTS_MAX) as u64 + (1 << 20) < MANIFEST_BYTES_MAX, "{line}");
    assert!(manifest.check_bound(MANIFEST_BYTES_MAX).is_ok());
    let refused = manifest.check_bound(MANIFEST_BYTES_MAX + 1).unwrap_err().to_string();
    assert!(refused.contains("(tiers.segment)"), "{refused}");
}

#[test]
fn key_shards_are_said_where_they_are_not_all() {
    let all = String::from_utf8(manifest().encode()).unwrap();
    assert!(!all.contains("key_shards"), "{all}");
    let mut manifest = Manifest { key_shards: KeyShardSet::part(0, 2), ..manifest() };
    let number = SegmentNumber::of_manifest;
    let entry = |segment| SegmentEntry::new(number(segment), 7, 8304, sum_text(1));
    manifest.segments.truncate(2);
    manifest.next_segment = 20;
    let origin = |of| Origin { store: StoreId::from_number(6), number: number(of) };
    manifest.name(origin(9), KeyShardSet::part(0, 4), entry(10));
    manifest.name(origin(10), KeyShardSet::part(0, 4), entry(11));
    manifest.name(origin(11), KeyShardSet::part(0, 2), entry(12));
    let again = read(&manifest.encode()).unwrap();
    assert_eq!((&again, again.origins.len()), (&manifest, 2));
    let counting: Vec<usize> =
        again.segments.iter().map(|entry| again.counting(entry).len()).collect();
    assert_eq!(counting, [128, 128, 64, 64, 128]);
    // The same after another store adopts them.
    let adopted = again.adopted_by(StoreId::from_number(9));
    let counting = |of: &Manifest| -> Vec<KeyShardSet> {
        of.segments.iter().map(|entry| of.counting(entry)).collect()
    };
    assert_eq!((counting(&adopted), adopted.origins.len()), (counting(&again), 3));
    let more = Adopted { store: StoreId::from_number(6), key_shards: Some(KeyShardSet::ALL) };
    manifest.origins.push(more);
    assert!(matches!(read(&manifest.encode()), Err(Error::Damaged { .. })));
}

#[test]
fn another_version_is_said_to_be_one() {
    let bytes = String::from_utf8(manifest().encode()).unwrap();
    let other = bytes.replace("\"version\": 3", "\"version\": 4");
    let message = read(other.as_bytes()).unwrap_err().to_string();
    assert!(message.contains("format version 4, this build reads version 3"), "{message}");
}

#[test]
fn impossible_numbers_show() {
    let wrong = [
        Manifest { page_bytes: 4097, ..manifest() },
        Manifest { row_bytes: 0, ..manifest() },
        Manifest { row_bytes: 4090, ..manifest() },
        Manifest { origins: Vec::new(), ..manifest() },
        Manifest { store: StoreId::OLD, ..manifest() },
        Manifest { version: 2, ..manifest() },
        Manifest { next_segment: 8, ..manifest() },
        Manifest { format: "other".to_owned(), ..manifest() },
        Manifest { segments: vec![manifest().segments[0].clone(); 2], ..manifest() },
    ];
    for manifest in wrong {
        assert!(matches!(read(&manifest.encode()), Err(Error::Damaged { .. })));
    }
}
