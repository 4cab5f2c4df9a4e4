use stepwell_base::random::Stream;

use super::*;

#[test]
fn quotients_are_exact() {
    for divisor in [1, 2, 3, 7, 26, 39, 255, 65_536, u32::MAX] {
        let by = Divisor::new(divisor);
        let near = |number: u32| [number.wrapping_sub(1), number, number.wrapping_add(1)];
        let multiples = (0..200).flat_map(|times| near(divisor.wrapping_mul(times)));
        for dividend in multiples.chain(near(0)).chain(near(1 << 31)) {
            assert_eq!(by.quotient(dividend), dividend / divisor, "{dividend} / {divisor}");
        }
    }
}

/// The sum of values by block, by the recursive tree over all blocks from `low` to `high`.
fn tree(sums: &[Option<Vec<f32>>], low: usize, high: usize) -> Option<Vec<f32>> {
    if high - low == 1 {
        return sums[low].clone();
    }
    let middle = low + (high - low).next_power_of_two() / 2;
    match (tree(sums, low, middle), tree(sums, middle, high)) {
        (Some(left), Some(right)) => {
            Some(left.iter().zip(right).map(|(left, right)| left + right).collect())
        }
        (left, right) => left.or(right),
    }
}

/// The sum as the module's docs describe it, with lists.
fn plainly(gradients: &BagGradients<'_>, bags: Range<usize>, blocks: Blocks, wide: usize) -> Sum {
    let fields = gradients.of_fields.len();
    let mut sums = vec![None::<Vec<f32>>; blocks.count()];
    let mut examples: Vec<usize> = Vec::new();
    for at in bags {
        let bag = &gradients.bags[at];
        let (example, field) = (*bag as usize / fields, *bag as usize % fields);
        let start = example * gradients.columns + gradients.of_fields[field].column;
        let mut values = gradients.d_x[start..start + gradients.dim].to_vec();
        values.extend(vec![gradients.d_first_order[example]; wide]);
        if let Some(factor) = gradients.factors.get(at) {
            values.iter_mut().for_each(|value| *value *= factor);
        }
        let block = (0..blocks.count()).find(|block| blocks.range(*block).contains(&example));
        let sum = &mut sums[block.unwrap()];
        match sum {
            Some(sum) => sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value),
            None => *sum = Some(values),
        }
        examples.push(example);
    }
    examples.dedup();
    let positives = examples.iter().filter(|example| gradients.labels[**example] > 0.5).count();
    (tree(&sums, 0, blocks.count()).unwrap(), examples.len() as u32, positives as u32)
}

/// A gradient, and the examples and positive ones with the row.
type Sum = (Vec<f32>, u32, u32);

#[test]
fn gradients_are_summed_as_by_lists() {
    const EXAMPLES: usize = 37;
    const FIELDS: usize = 3;
    let mut random = Stream::named(1, b"sums");
    let mut room = SumsRoom::default();
    for (dim, wide, blocks) in all_of(&[0, 1, 15, 16, 17, 40], &[0, 1, 2], &[1, 3, 8, 64]) {
        let columns: Vec<Field> =
            (0..FIELDS).map(|field| Field::sum((FIELDS - 1 - field) * dim)).collect();
        let mut numbers =
            |count| -> Vec<f32> { (0..count).map(|_| random.next_symmetric(1.0)).collect() };
        let (d_x, d_first_order) = (numbers(EXAMPLES * FIELDS * dim), numbers(EXAMPLES));
        let labels: Vec<f32> =
            d_first_order.iter().map(|d| f32::from(u8::from(*d > 0.3))).collect();
        let (mut bags, mut ends) = (Vec::new(), vec![0]);
        for count in [1, 2, 2, 3, 5, 9, 40, 200] {
            let most = (EXAMPLES * FIELDS) as u64;
            let mut of_row: Vec<u32> =
                (0..count).map(|_| (random.next_u64() % most) as u32).collect();
            of_row.sort_unstable();
            bags.extend(of_row);
            ends.push(bags.len());
        }
        let factors: Vec<f32> = bags.iter().map(|bag| 0.25 + *bag as f32).collect();
        let gradients = BagGradients {
            bags: &bags,
            factors: &[],
            d_x: &d_x,
            d_first_order: &d_first_order,
            labels: &labels,
            of_fields: &columns,
            fields: Divisor::new(FIELDS as u32),
            columns: FIELDS * dim,
            dim,
        };
        let blocks = Blocks::new(EXAMPLES, blocks);
        for row in ends.windows(2) {
            let wanted = plainly(&gradients, row[0]..row[1], blocks, wide);
            let mut sums = Sums::<false>::of(gradients, blocks, dim + wide, &mut room);
            let (sum, seen) = sums.gradient(row[0]..row[1]);
            let is = (sum.to_vec(), seen.examples, seen.positives);
            assert_eq!(is, wanted, "{dim} {wide} {blocks:?} {row:?}");
            let weighed = BagGradients { factors: &factors, ..gradients };
            let wanted = plainly(&weighed, row[0]..row[1], blocks, wide);
            let mut sums = Sums::<true>::of(weighed, blocks, dim + wide, &mut room);
            let (sum, seen) = sums.gradient(row[0]..row[1]);
            let is = (sum.to_vec(), seen.examples, seen.positives);
            assert_eq!(is, wanted, "weighed: {dim} {wide} {blocks:?} {row:?}");
        }
    }
}

fn all_of<'a>(
    dims: &'a [usize],
    wides: &'a [usize],
    blocks: &'a [usize],
) -> impl Iterator<Item = (usize, usize, usize)> + 'a {
    let pairs = dims.iter().flat_map(|dim| wides.iter().map(|wide| (*dim, *wide)));
    pairs.flat_map(|(dim, wide)| blocks.iter().map(move |blocks| (dim, wide, *blocks)))
}

/// The order in which blocks meet, as text: by the stack, and by the recursive tree.
#[test]
fn blocks_meet_as_in_the_tree() {
    fn tree(blocks: &[u32], low: u32, high: u32) -> String {
        if high - low == 1 {
            return low.to_string();
        }
        let middle = low + (high - low).next_power_of_two() / 2;
        let (left, right) = blocks.split_at(blocks.partition_point(|block| *block < middle));
        match (left.is_empty(), right.is_empty()) {
            (true, _) => tree(right, middle, high),
            (_, true) => tree(left, low, middle),
            _ => format!("({}+{})", tree(left, low, middle), tree(right, middle, high)),
        }
    }
    fn stack(blocks: &[u32]) -> String {
        let mut sums: Vec<(u32, String)> = Vec::new();
        let meet = |sums: &mut Vec<(u32, String)>| {
            let (_, above) = sums.pop().unwrap();
            let (_, below) = sums.last_mut().unwrap();
            *below = format!("({below}+{above})");
        };
        for block in blocks {
            while let [.., (x, _), (y, _)] = sums.as_slice()
                && x ^ y < y ^ block
            {
                meet(&mut sums);
            }
            sums.push((*block, block.to_string()));
        }
        while sums.len() > 1 {
            meet(&mut sums);
        }
        sums.remove(0).1
    }
    for count in 1..=9u32 {
        for mask in 1..1u32 << count {
            let blocks: Vec<u32> = (0..count).filter(|block| mask >> block & 1 == 1).collect();
            assert_eq!(stack(&blocks), tree(&blocks, 0, count), "{blocks:?} of {count}");
        }
    }
}
