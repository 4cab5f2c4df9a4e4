use stepwell_base::huge::HugeSlice;
use stepwell_base::random::Stream;

use super::lanes::SoftLanes;
use super::round::rounded;
use super::tiles::SoftTiles;
use super::*;
use crate::gemm::{F32, Gemm};

fn numbers(name: &str, count: usize) -> Vec<f32> {
    let mut stream = Stream::named(3, name.as_bytes());
    (0..count).map(|_| stream.next_symmetric(1.0)).collect()
}

/// Kernels that run on every machine, and those for the units of this machine.
fn kernels() -> Vec<(&'static str, &'static dyn Kernel<f32>)> {
    let everywhere: [(&'static str, &'static dyn Kernel<f32>); 3] = [
        ("portable", &Portable),
        ("tiles in software", &Tiled(SoftTiles)),
        ("lanes in software", &Tiled(SoftLanes)),
    ];
    let hardware = units().map(|unit| (unit.name, unit.kernel));
    everywhere.into_iter().chain(hardware).collect()
}

/// The units of this machine.
fn units() -> impl Iterator<Item = &'static Candidate> {
    CANDIDATES.iter().filter(|candidate| (candidate.is_here)())
}

/// Operands of a product in memory, with gaps of NaN between rows.
struct Case {
    m: usize,
    n: usize,
    depth: usize,
    left: Vec<f32>,
    right: Vec<f32>,
    transposes: [bool; 2],
}

const GAP: usize = 3;

impl Case {
    fn new(m: usize, n: usize, depth: usize, transposes: [bool; 2]) -> Self {
        let matrix = |name, rows: usize, columns: usize, transpose: bool| {
            let (rows, columns) = if transpose { (columns, rows) } else { (rows, columns) };
            let mut lanes = numbers(name, rows * (columns + GAP));
            lanes.chunks_mut(columns + GAP).for_each(|row| row[columns..].fill(f32::NAN));
            lanes
        };
        let left = matrix("left", m, depth, transposes[0]);
        let right = matrix("right", depth, n, transposes[1]);
        Self { m, n, depth, left, right, transposes }
    }

    fn operand(lanes: &[f32], rows: usize, columns: usize, transpose: bool) -> Operand<'_, f32> {
        if transpose {
            transposed(Matrix::new(lanes, columns, rows, rows + GAP))
        } else {
            plain(Matrix::new(lanes, rows, columns, columns + GAP))
        }
    }

    fn left(&self) -> Operand<'_, f32> {
        Self::operand(&self.left, self.m, self.depth, self.transposes[0])
    }

    fn right(&self) -> Operand<'_, f32> {
        Self::operand(&self.right, self.depth, self.n, self.transposes[1])
    }

    /// The target after the product, with a gap after each row.
    fn product(
        &self,
        kernel: &'static dyn Kernel<f32>,
        write: Write,
        scratch: &mut Scratch,
    ) -> Vec<f32> {
        let mut target = self.before(write);
        let matrix = MatrixMut::new(&mut target, self.m, self.n, self.n + GAP);
        Gemm::new(kernel, scratch).multiply(matrix, write, self.left(), self.right());
        target
    }

    /// Targets to overwrite start as NaN.
    fn before(&self, write: Write) -> Vec<f32> {
        let mut target = numbers("target", self.m * (self.n + GAP));
        for row in target.chunks_mut(self.n + GAP).filter(|_| write == Write::Overwrite) {
            row[..self.n].fill(f32::NAN);
        }
        target
    }

    /// Naive sum in f64 over rounded operands, and the sum of magnitudes.
    fn sum(&self, row: usize, column: usize) -> (f64, f64) {
        let (left, right) = (self.left(), self.right());
        let at = |operand: &Operand<'_, f32>, row: usize, column: usize| {
            let lane = row * operand.row_stride + column * operand.column_stride;
            f64::from(rounded(operand.data[lane]))
        };
        (0..self.depth).fold((0.0, 0.0), |(sum, size), k| {
            let term = at(&left, row, k) * at(&right, k, column);
            (sum + term, size + term.abs())
        })
    }

    fn check(&self, name: &str, kernel: &'static dyn Kernel<f32>, scratch: &mut Scratch) {
        for write in [Write::Overwrite, Write::Accumulate] {
            let (before, after) = (self.before(write), self.product(kernel, write, scratch));
            for (i, (was, is)) in before.into_iter().zip(after).enumerate() {
                let (row, column) = (i / (self.n + GAP), i % (self.n + GAP));
                let place = format!(
                    "{name}: {row}, {column} of {} x {} over {} {:?} {write:?}",
                    self.m, self.n, self.depth, self.transposes
                );
                if column >= self.n {
                    assert_eq!(was.to_bits(), is.to_bits(), "{place}: a gap was written");
                    continue;
                }
                let (mut sum, mut size) = self.sum(row, column);
                if write == Write::Accumulate {
                    (sum, size) = (sum + f64::from(was), size + f64::from(was.abs()));
                }
                // An addition has an error of at most half a unit in the last place.
                let tolerance = (self.depth + 2) as f64 * f64::from(f32::EPSILON) * size;
                assert!((f64::from(is) - sum).abs() <= tolerance, "{place}: {is} not {sum}");
            }
        }
    }
}

const SHAPES: [(usize, usize, usize); 18] = [
    (1, 1, 1),
    (8, 8, 1),
    (7, 40, 33),
    (40, 7, 33),
    (16, 16, 32),
    (32, 32, 32),
    (17, 16, 31),
    (16, 17, 33),
    (33, 31, 64),
    (15, 49, 5),
    (48, 9, 65),
    (20, 12, 512),
    (9, 20, 513),
    (18, 19, 1100),
    (70, 100, 33), // blocks that are written in place
    (64, 64, 600),
    (33, 560, 40),
    (8, 560, 40), // more right strips than are processed at a time
];

#[test]
fn products_equal_three_loops() {
    for (name, kernel) in kernels() {
        let mut scratch = Scratch::default();
        for (m, n, depth) in SHAPES {
            for transposes in [[false, false], [false, true], [true, false], [true, true]] {
                Case::new(m, n, depth, transposes).check(name, kernel, &mut scratch);
            }
        }
    }
}

#[test]
fn hardware_does_what_its_software_does_bit_for_bit() {
    for unit in units() {
        for (m, n, depth) in SHAPES {
            let case = Case::new(m, n, depth, [true, false]);
            for write in [Write::Overwrite, Write::Accumulate] {
                let bits = |kernel| {
                    let product = case.product(kernel, write, &mut Scratch::default());
                    product.into_iter().map(f32::to_bits).collect::<Vec<_>>()
                };
                assert_eq!(bits(unit.kernel), bits(unit.twin), "{} {m} {n} {depth}", unit.name);
            }
        }
    }
}

#[test]
fn a_right_operand_may_be_packed_before() {
    for (name, kernel) in kernels() {
        let mut scratch = Scratch::default();
        for (m, n, depth) in SHAPES {
            for transpose in [false, true] {
                let case = Case::new(m, n, depth, [false, transpose]);
                let tiles = kernel.packed_tiles(depth, n);
                assert_eq!(tiles == 0, n < SIDE_MIN || name == "portable");
                if tiles == 0 {
                    continue;
                }
                let mut packed = Packed::new(tiles, n);
                kernel.pack(case.right(), &mut packed);
                let packed = Some(&packed);
                for columns in [n, n.div_ceil(2)] {
                    let product = |packed, write, scratch: &mut Scratch| {
                        let mut target = vec![0.5; m * columns];
                        let matrix = MatrixMut::packed(&mut target, m, columns);
                        let first = Operand { columns, ..case.right() };
                        let right = first.with_packed(packed);
                        let mut gemm = Gemm::new(kernel, scratch);
                        gemm.multiply(matrix, write, case.left(), right);
                        target.into_iter().map(f32::to_bits).collect::<Vec<_>>()
                    };
                    for write in [Write::Overwrite, Write::Accumulate] {
                        let with = product(packed, write, &mut scratch);
                        let without = product(None, write, &mut scratch);
                        assert_eq!(
                            with, without,
                            "{name} {m} {columns} of {n} {depth} {transpose}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_product_of_bf16_numbers_that_sum_exactly_is_the_same_in_every_kernel() {
    let case = Case::new(37, 29, 140, [false, true]);
    let whole = |lanes: &[f32]| lanes.iter().map(|lane| (lane * 100.0).round()).collect();
    let case = Case { left: whole(&case.left), right: whole(&case.right), ..case };
    let product = |kernel| {
        let product = case.product(kernel, Write::Accumulate, &mut Scratch::default());
        product.into_iter().map(|lane| (lane * 8.0).round()).collect::<Vec<_>>()
    };
    for (name, kernel) in kernels() {
        assert_eq!(product(kernel), product(&F32), "{name}");
    }
}

#[test]
fn what_a_product_leaves_behind_does_not_show() {
    for (name, kernel) in kernels() {
        let mut scratch = Scratch::default();
        let mut poison = Case::new(70, 70, 600, [true, true]);
        poison.left.fill(f32::NAN);
        poison.right.fill(f32::INFINITY);
        poison.product(kernel, Write::Overwrite, &mut scratch);
        for (m, n, depth) in SHAPES {
            let case = Case::new(m, n, depth, [true, false]);
            let used = case.product(kernel, Write::Overwrite, &mut scratch);
            let fresh = case.product(kernel, Write::Overwrite, &mut Scratch::default());
            let bits = |lanes: Vec<f32>| lanes.into_iter().map(f32::to_bits).collect::<Vec<_>>();
            assert_eq!(bits(used), bits(fresh), "{name} {m} {n} {depth}");
        }
    }
}

#[test]
fn what_is_no_number_shows_in_its_row_and_column_alone() {
    for (name, kernel) in kernels() {
        let mut case = Case::new(20, 18, 40, [false, false]);
        case.left[3 * (40 + GAP) + 39] = f32::from_bits(0x7f80_0001);
        let product = case.product(kernel, Write::Overwrite, &mut Scratch::default());
        for (row, lanes) in product.chunks(18 + GAP).enumerate() {
            assert!(lanes[..18].iter().all(|lane| lane.is_nan() == (row == 3)), "{name} {row}");
        }
    }
}

#[test]
fn scratch_stays_within_the_bound() {
    for (name, kernel) in kernels() {
        for side in [16, 100, 600] {
            let mut scratch = Scratch::default();
            let case = Case::new(side, side, side, [true, true]);
            case.product(kernel, Write::Overwrite, &mut scratch);
            let lanes: usize = scratch.lanes.iter().map(|lanes| lanes.len() * 4).sum();
            let bytes = |tiles: &HugeSlice<Tile>| HugeSlice::<Tile>::bytes_rounded_up(tiles.len());
            let tiles: usize = scratch.tiles.iter().map(bytes).sum();
            assert!(lanes + tiles > 0 && lanes + tiles <= kernel.packing_bytes(side), "{name}");
        }
    }
}

/// A unit with one wrong sum.
#[derive(Debug)]
struct Broken;

impl Unit for Broken {
    fn run(&self, mut panel: Panel<'_>) {
        let Panel { left, right, depth, read, .. } = panel;
        SoftTiles.run(Panel { left, right, depth, target: panel.target.reborrow(), read });
        panel.target.row(34)[49] += 1.0;
    }
}

#[test]
fn a_unit_that_differs_from_software_is_not_used() {
    assert!(agree(&Tiled(SoftTiles), &Tiled(SoftLanes)));
    assert!(agree(&Portable, &Tiled(SoftLanes)));
    assert!(!agree(&Tiled(Broken), &Tiled(SoftTiles)));
    const BROKEN: Candidate = Candidate {
        name: "broken",
        is_here: || true,
        kernel: &Tiled(Broken),
        twin: &Tiled(SoftTiles),
    };
    const SOUND: Candidate = Candidate { name: "sound", kernel: &Tiled(SoftTiles), ..BROKEN };
    const ABSENT: Candidate = Candidate { name: "absent", is_here: || false, ..SOUND };
    let shown = |candidates: &[Candidate]| choose(candidates).1;
    assert_eq!(shown(&[ABSENT, SOUND, BROKEN]), Bf16Kernel { name: "sound", note: None });
    assert_eq!(shown(&[ABSENT]), Bf16Kernel { name: "portable", note: None });
    let note = "this processor's broken computes other sums than software, so it is not used for \
                bf16";
    let shown = shown(&[BROKEN]);
    assert_eq!((shown.name, shown.note.as_deref()), ("portable", Some(note)));
}
