//! Labeled examples in memory: the features and class of each.
//!
//! Bytes: 4 per feature, which is 188 MB for MNIST's training pixels, and 2.4 GB for 10,000 random
//! Fourier features of them.

use std::path::Path;

use rayon::prelude::*;
use stepwell_base::random::Stream;
use stepwell_data::Idx;
use stepwell_nn::{Block, FourierFeatures, GraphBuilder, InputShape, Matrix, Source, Workspace};

use crate::{Error, Result};

/// Classes of MNIST.
pub(crate) const CLASSES: usize = 10;
/// Examples per block when computing features.
const ROWS: usize = 512;

/// Examples of one set.
#[derive(Clone, Debug, PartialEq)]
pub struct Images {
    /// Features per example.
    pub columns: usize,
    /// Pixels from 0 to 1, or features computed from them. // (examples, columns)
    pub features: Vec<f32>,
    /// Class of each example. // (examples)
    pub labels: Vec<u8>,
}

impl Images {
    /// Reads `<name>-images-idx3-ubyte.gz` and `<name>-labels-idx1-ubyte.gz` from a directory,
    /// compressed or not, with or without the extension.
    ///
    /// # Errors
    /// Files that are missing or don't match.
    fn read(folder: &Path, name: &str) -> Result<Self> {
        let file = |what: &str| {
            let plain = folder.join(format!("{name}-{what}-ubyte"));
            if plain.exists() { plain } else { plain.with_extension("gz") }
        };
        let (images, labels) = (file("images-idx3"), file("labels-idx1"));
        let pixels = Idx::read(&images)?;
        let classes = Idx::read(&labels)?;
        let wrong = |path: &Path, why| Err(Error::Images { path: path.to_owned(), why });
        if pixels.dimensions.len() != 3 || pixels.count() == 0 || pixels.each() == 0 {
            let why = format!("has dimensions {:?}: images have three", pixels.dimensions);
            return wrong(&images, why);
        }
        if classes.dimensions != [pixels.count()] {
            let (found, wanted) = (&classes.dimensions, pixels.count());
            return wrong(&labels, format!("has {found:?} labels for {wanted} images"));
        }
        if let Some(class) = classes.elements.iter().find(|class| usize::from(**class) >= CLASSES) {
            return wrong(&labels, format!("has a label {class}: classes are 0 to 9"));
        }
        let features = pixels.elements.iter().map(|pixel| f32::from(*pixel) / 255.0).collect();
        Ok(Self { columns: pixels.each(), features, labels: classes.elements })
    }

    /// Reads MNIST's training and test examples from a directory. Keeps one in `part` of the
    /// training examples, but at least `least`, in an order drawn with `seed`.
    pub(crate) fn both(folder: &Path, part: usize, least: usize, seed: u64) -> Result<[Self; 2]> {
        if folder.is_file() {
            let why = "is a file: give the folder with MNIST's four files".to_owned();
            return Err(Error::Images { path: folder.to_owned(), why });
        }
        let [train, test] = [Self::read(folder, "train")?, Self::read(folder, "t10k")?];
        let wrong = |why| Err(Error::Images { path: folder.to_owned(), why });
        let count = train.count() / part.max(1);
        if count < least {
            return wrong(format!("{count} training examples, but {least} are needed: give more"));
        }
        if train.columns != test.columns {
            let [train, test] = [train.columns, test.columns];
            let why = "both sets must have images of one size";
            return wrong(format!(
                "training images have {train} pixels, test images {test}: {why}"
            ));
        }
        Ok([train.shuffled(count, seed), test])
    }

    /// Number of examples.
    pub fn count(&self) -> usize {
        self.labels.len()
    }

    /// Features of an example.
    pub(crate) fn row(&self, example: usize) -> &[f32] {
        &self.features[example * self.columns..(example + 1) * self.columns]
    }

    /// The first `count` examples, in an order drawn with `seed`.
    pub(crate) fn shuffled(&self, count: usize, seed: u64) -> Self {
        let mut order: Vec<usize> = (0..self.count()).collect();
        let mut stream = Stream::named(seed, b"study/shuffle");
        for place in (1..order.len()).rev() {
            order.swap(place, (stream.next_u64() % (place as u64 + 1)) as usize);
        }
        order.truncate(count);
        let features = order.iter().flat_map(|example| self.row(*example)).copied().collect();
        let labels = order.iter().map(|example| self.labels[*example]).collect();
        Self { columns: self.columns, features, labels }
    }

    /// Shifts and scales features with this mean and deviation to mean 0 and deviation 1, the same
    /// for all pixels.
    pub(crate) fn standardized(mut self, [mean, deviation]: [f32; 2]) -> Self {
        self.features.iter_mut().for_each(|value| *value = (*value - mean) / deviation);
        self
    }

    /// Mean and deviation of all features.
    pub(crate) fn moments(&self) -> [f32; 2] {
        let count = self.features.len() as f64;
        let mean = self.features.iter().map(|value| f64::from(*value)).sum::<f64>() / count;
        let square = |value: &f32| (f64::from(*value) - mean) * (f64::from(*value) - mean);
        let variance = self.features.iter().map(square).sum::<f64>() / count;
        [mean as f32, variance.sqrt() as f32]
    }

    /// Square images, downscaled by `side` with means.
    pub(crate) fn shrunk(&self, side: usize) -> Self {
        let width = self.columns.isqrt();
        let small = width / side;
        let mut features = Vec::with_capacity(self.count() * small * small);
        for image in self.features.chunks_exact(self.columns) {
            for place in 0..small * small {
                let (top, left) = (place / small * side, place % small * side);
                let line = |row: usize| &image[row * width + left..row * width + left + side];
                let sum: f32 = (top..top + side).flat_map(line).sum();
                features.push(sum / (side * side) as f32);
            }
        }
        Self { columns: small * small, features, labels: self.labels.clone() }
    }

    /// Computes random Fourier features for a Gaussian kernel of width `sigma`.
    pub(crate) fn fourier(&self, features: usize, sigma: f64, seed: u64) -> Result<Self> {
        let mut builder = GraphBuilder::new(InputShape { embedding: 0, dense: self.columns });
        let layer = FourierFeatures::new(self.columns, features, sigma, seed);
        builder.add("fourier", layer, &[Source::Columns(0..self.columns)])?;
        let graph = builder.build()?;
        let mut made = vec![0.0f32; self.count() * features];
        let blocks = made.par_chunks_mut(ROWS * features);
        let blocks = blocks.zip(self.features.par_chunks(ROWS * self.columns));
        blocks.for_each_init(
            || Workspace::new(&graph, ROWS),
            |workspace, (made, x)| {
                let x = Matrix::packed(x, x.len() / self.columns, self.columns);
                graph.forward(&[], &Block { x, first_order: &[] }, workspace, made);
            },
        );
        Ok(Self { columns: features, features: made, labels: self.labels.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Images {
        let features = vec![0.0, 0.5, 1.0, 0.25, 0.5, 0.75];
        Images { columns: 3, features, labels: vec![4, 7] }
    }

    #[test]
    fn features_multiply_to_the_kernel() {
        let images = two();
        let made = images.fourier(20_000, 1.5, 3).unwrap();
        let dot =
            |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum() };
        let distance = images.row(0).iter().zip(images.row(1)).map(|(a, b)| (a - b) * (a - b));
        let kernel = libm::exp(-f64::from(distance.sum::<f32>()) / (2.0 * 1.5 * 1.5));
        let found = dot(made.row(0), made.row(1));
        assert!((found - kernel).abs() < 0.02, "{found} {kernel}");
        assert!((dot(made.row(0), made.row(0)) - 1.0).abs() < 0.02);
    }

    /// A directory with sets of `images` columns and `tests` columns per image.
    fn folder(name: &str, images: u8, tests: u8) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("study-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, head: &[u8], elements: usize| {
            let mut bytes = head.to_vec();
            bytes.resize(head.len() + elements, 3);
            std::fs::write(folder.join(name), bytes).unwrap();
        };
        for (set, columns) in [("train", images), ("t10k", tests)] {
            let head = [0, 0, 8, 3, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, columns];
            write(&format!("{set}-images-idx3-ubyte"), &head, 9 * usize::from(columns));
            write(&format!("{set}-labels-idx1-ubyte"), &[0, 0, 8, 1, 0, 0, 0, 9], 9);
        }
        folder
    }

    #[test]
    fn sets_that_do_not_do_are_refused() {
        let same = folder("same", 4, 4);
        let [train, test] = Images::both(&same, 3, 3, 1).unwrap();
        assert_eq!((train.count(), test.count(), train.columns), (3, 9, 4));
        let few = Images::both(&same, 3, 4, 1).unwrap_err().to_string();
        assert!(few.contains("3 training examples, but 4 are needed"), "{few}");
        let other = folder("other", 4, 5);
        let sizes = Images::both(&other, 1, 1, 1).unwrap_err().to_string();
        assert!(sizes.contains("training images have 4 pixels, test images 5"), "{sizes}");
        for folder in [same, other] {
            std::fs::remove_dir_all(folder).unwrap();
        }
    }

    #[test]
    fn examples_keep_their_labels_in_any_order() {
        let images = two();
        let both: Vec<Images> = (0..8).map(|seed| images.shuffled(2, seed)).collect();
        assert!(both.contains(&images) && both.iter().any(|other| *other != images));
        assert!(both.iter().all(|other| (other.labels[0] == 4) == (other.row(0)[0] == 0.0)));
    }
}
