//! Compares streams and shares with a naive look at each line.

use super::*;

/// The second of three parts, of files with 10 lines each.
fn share(mini_batch: usize, streams: usize, range: Range<u64>, from: u64) -> Share {
    let part = PartOf::new(|examples| examples / 3..examples * 2 / 3);
    let lines = vec![10; range.end.div_ceil(10) as usize].into();
    Share::new(Sharing { mini_batch, part, streams }, lines, range, from)
}

/// Line numbers of each mini-batch, computed naively.
fn mini_batches(share: &Share, whole: Range<u64>) -> Vec<Vec<u64>> {
    let (streams, all) = (share.streams() as u64, whole.end - whole.start);
    let mut lines: Vec<Vec<u64>> = (0..streams)
        .map(|s| (whole.start + all * s / streams..whole.start + all * (s + 1) / streams).rev())
        .map(Iterator::collect)
        .collect();
    let (mut minis, mut left) = (Vec::new(), all as usize);
    while left > 0 {
        let examples = left.min(share.sharing.mini_batch);
        let mini = lines.iter_mut().enumerate().flat_map(|(stream, lines)| {
            let of_stream = share.part_of(stream, examples).len();
            lines.split_off(lines.len() - of_stream).into_iter().rev().collect::<Vec<_>>()
        });
        minis.push(mini.collect());
        left -= examples;
    }
    assert!(lines.iter().all(Vec::is_empty));
    minis
}

#[test]
fn streams_have_just_what_mini_batches_take() {
    for streams in [1, 2, 3] {
        for (mini_batch, end) in [(6, 24), (6, 23), (12, 31), (30, 29), (6, 1), (6, 0)] {
            let share = share(mini_batch, streams, 0..end, 0);
            let minis = mini_batches(&share, 0..end);
            let mut walk = Walk::new(share.clone());
            let mut behind = vec![0; streams];
            for mini in &minis {
                let mut found = Vec::new();
                loop {
                    let (stream, left) = walk.next().unwrap();
                    let start = share.start_of(stream);
                    let first = u64::from(start.file) * 10 + start.line + behind[stream];
                    found.push(first);
                    behind[stream] += 1;
                    assert!(left > 0);
                    if walk.take(1) == Some(mini.len()) {
                        break;
                    }
                }
                assert_eq!(found, *mini, "{streams} streams, {mini_batch} of {end}");
            }
            assert_eq!((walk.next(), walk.behind()), (None, end));
        }
    }
}

#[test]
fn reading_goes_on_behind_any_mini_batch() {
    for (mini_batch, streams, range) in [(6, 2, 3..26), (6, 3, 0..31), (4, 4, 5..14), (4, 1, 7..20)]
    {
        let whole = share(mini_batch, streams, range.clone(), 0);
        let minis = mini_batches(&whole, range.clone());
        let mut behind = 0;
        for (number, mini) in minis.iter().enumerate() {
            behind += mini.len() as u64;
            let place = whole.place_after(behind);
            let from = u64::from(place.file) * 10 + place.line;
            let rest = share(mini_batch, streams, range.clone(), from);
            let left: usize = minis[number + 1..].iter().map(Vec::len).sum();
            assert_eq!(rest.examples(), left as u64, "{mini_batch}, {streams}, {number}");
            let first = minis.get(number + 1).map(|mini| mini[0]);
            let start = Walk::new(rest.clone()).next().map(|(stream, _)| rest.start_of(stream));
            assert_eq!(start.map(|at| u64::from(at.file) * 10 + at.line), first);
        }
    }
}

#[test]
fn wanted_lines_are_those_of_a_plain_look_at_each() {
    for (mini_batch, streams, end) in
        [(1, 1, 7), (2, 1, 9), (6, 2, 24), (7, 1, 24), (10, 5, 25), (100, 4, 24), (6, 6, 23)]
    {
        let share = share(mini_batch, streams, 0..end, 0);
        let wanted = |mini: &Vec<u64>| mini[(share.sharing.part.0)(mini.len())].to_vec();
        let mut plain: Vec<u64> = mini_batches(&share, 0..end).iter().flat_map(wanted).collect();
        plain.sort_unstable();
        for block in [1, 2, 5, 24, 30] {
            let mut found = Vec::new();
            for stream in 0..streams {
                let mut follower = Follower::new(Some(share.clone()), stream);
                let mut first = share.begin(stream);
                while follower.behind < share.lines_of(stream) {
                    let wanted = follower.take(block).unwrap_or_default();
                    assert!(wanted.is_sorted_by(|a, b| a.end < b.start), "{wanted:?}");
                    assert!(wanted.is_empty() || share.wants(stream));
                    found.extend(wanted.into_iter().flatten().map(|n| first + u64::from(n)));
                    first += u64::from(block);
                }
            }
            assert_eq!(found, plain, "{mini_batch} of {end} in blocks of {block}");
        }
    }
}

#[test]
fn who_has_a_half_wants_half_of_the_streams() {
    let part = PartOf::new(|examples| examples / 2..examples);
    let sharing = Sharing { mini_batch: 8, part, streams: 4 };
    let share = Share::new(sharing, vec![100].into(), 0..100, 0);
    assert_eq!([0, 1, 2, 3].map(|stream| share.wants(stream)), [false, false, true, true]);
}

#[test]
fn who_reads_alone_wants_all() {
    let mut follower = Follower::new(None, 0);
    assert_eq!(follower.take(5), None);
}
