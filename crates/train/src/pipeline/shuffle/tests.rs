use super::*;

#[test]
fn the_order_is_published() {
    assert_eq!(order(0, 0, 0, 0), [0; 0]);
    assert_eq!(order(7, 1, 2, 1), [0]);
    assert_eq!(order(42, 0, 0, 8), [4, 5, 3, 6, 1, 7, 2, 0]);
    assert_eq!(order(42, 0, 1, 8), [2, 7, 4, 0, 5, 1, 3, 6]);
    assert_eq!(order(42, 1, 0, 8), [4, 7, 1, 5, 0, 2, 3, 6]);
}

#[test]
fn every_place_is_as_likely() {
    let mut first = [0; 5];
    for window in 0..5000 {
        let mut order = order(1, 0, window, 5);
        first[order[0] as usize] += 1;
        order.sort_unstable();
        assert_eq!(order, [0, 1, 2, 3, 4]);
    }
    assert!(first.iter().all(|count| (900..1100).contains(count)), "{first:?}");
}

/// A chunk of `count` examples, numbered from `first`, with a malformed line before each third.
fn chunk(first: usize, count: usize, line: u64) -> Chunk {
    let mut chunk = Chunk::new(Schema::new(1, 0));
    chunk.first_line = line;
    for number in first..first + count {
        if number.is_multiple_of(3) {
            chunk.malformed.push(chunk.line_count);
            chunk.line_count += 1;
        }
        chunk.labels.push(number as f32);
        chunk.lines.push(chunk.line_count);
        chunk.line_count += 1;
    }
    chunk
}

/// The examples of a pass from `start`, in order, and the position after each.
fn pass(room: usize, start: RunPosition, lengths: &[usize]) -> Vec<(f32, RunPosition)> {
    let mut shuffle = Shuffle::new(room, 5);
    shuffle.begin(Some(start));
    let (mut position, mut found) = (start, Vec::new());
    let (mut first, mut line, mut skipped) = (0, 0, 0);
    let mut take = |shuffle: &mut Shuffle, is_over: bool| {
        while shuffle.turn(is_over) {
            let mut label = 0.0;
            let count = shuffle.take(1, &mut position, |chunk, example| {
                label = chunk.labels[example];
            });
            assert_eq!(count, 1);
            found.push((label, position));
        }
    };
    for length in lengths {
        let chunk = chunk(first, *length, line);
        let (lines, malformed) = (u64::from(chunk.line_count), chunk.malformed.len() as u64);
        // A resumed pass begins at a line.
        let before = chunk.lines.partition_point(|of| line + u64::from(*of) < start.line);
        let mut rest = Chunk { file: 0, ..chunk.clone() };
        rest.labels.drain(..before);
        rest.lines.drain(..before);
        shuffle.give(rest, length - before, skipped);
        (first, line, skipped) = (first + length, line + lines, skipped + malformed);
        take(&mut shuffle, false);
    }
    take(&mut shuffle, true);
    found
}

#[test]
fn a_pass_that_goes_on_gives_what_was_left() {
    for lengths in [&[10, 1, 7, 30, 2][..], &[50], &[1; 50]] {
        for room in [1, 4, 16, 50, 100] {
            let whole = pass(room, RunPosition::default(), lengths);
            let mut labels: Vec<f32> = whole.iter().map(|(label, _)| *label).collect();
            labels.sort_by(f32::total_cmp);
            assert!(labels.iter().enumerate().all(|(at, label)| *label == at as f32));
            assert_eq!(whole, pass(room, RunPosition::default(), &[20, 30]));
            for (number, (_, position)) in whole.iter().enumerate() {
                let rest = pass(room, *position, lengths);
                assert_eq!(rest, whole[number + 1..], "{room}, behind {number}");
            }
        }
    }
}
