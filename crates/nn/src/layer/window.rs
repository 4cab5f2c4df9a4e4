//! Images in the columns of an example, and windows that move over them.
//!
//! ```text
//! image   [ plane of channel 0 ][ plane of channel 1 ] ...    plane: row by row
//!
//! window  kernel 3 x 3, stride 2 x 2, padding 1 x 1, over a plane of 5 x 5:
//!
//!     . . . . . . .         first place: rows -1..2, columns -1..2; anything outside of
//!     . x x x x x .         the plane is padding
//!     . x x x x x .
//!     . x x x x x .         places: (5 + 2 - 3) / 2 + 1 = 3 along each side
//!     . x x x x x .
//!     . x x x x x .
//!     . . . . . . .
//! ```

use std::ops::Range;

use crate::gemm::Scalar;

/// Values in planes, one per channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// Number of planes.
    pub channels: usize,
    /// Rows of a plane.
    pub height: usize,
    /// Columns of a plane.
    pub width: usize,
}

impl Image {
    /// Columns of an example that the image takes.
    pub fn columns(&self) -> usize {
        self.channels * self.plane()
    }

    /// Values of a plane.
    pub(super) fn plane(&self) -> usize {
        self.height * self.width
    }
}

/// A window over planes; pairs are along the height and the width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Size.
    pub kernel: [usize; 2],
    /// Distance from place to place.
    pub stride: [usize; 2],
    /// Padding rows and columns on either side of a plane.
    pub padding: [usize; 2],
}

impl Window {
    /// Values under the window in a plane.
    pub fn area(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }

    /// Number of places over the planes of `image`, along the height and the width.
    ///
    /// # Errors
    /// What doesn't match, with a fix.
    pub(super) fn places(&self, image: &Image) -> Result<[usize; 2], String> {
        let Self { kernel: [rows, columns], stride: [down, right], padding } = *self;
        if image.columns() == 0 {
            return Err("an image has at least one channel, row and column".to_owned());
        }
        if rows == 0 || columns == 0 || down == 0 || right == 0 {
            return Err("a window has at least one row and column, and moves by one".to_owned());
        }
        let [above, before] = padding;
        if above >= rows || before >= columns {
            return Err(format!(
                "a window of {rows} x {columns} may cover only padding of {above} x {before}; give \
                 less padding than the window has rows and columns"
            ));
        }
        let (height, width) = (image.height + 2 * above, image.width + 2 * before);
        if rows > height || columns > width {
            let Image { height, width, .. } = *image;
            return Err(format!(
                "a window of {rows} x {columns} does not fit into planes of {height} x {width} \
                 with padding of {above} x {before}; give a smaller window or more padding"
            ));
        }
        Ok([(height - rows) / down + 1, (width - columns) / right + 1])
    }

    /// Range of `places` along `side` (0 for the height) at which value `offset` of the window is
    /// inside a plane with `extent` rows or columns.
    #[inline(always)]
    pub(super) fn inside(
        &self,
        side: usize,
        offset: usize,
        extent: usize,
        places: usize,
    ) -> Range<usize> {
        let (stride, padding) = (self.stride[side], self.padding[side]);
        let first = padding.saturating_sub(offset).div_ceil(stride);
        let end = (extent + padding).saturating_sub(offset).div_ceil(stride).min(places);
        first.min(end)..end
    }

    /// Rows or columns of a plane under the window at `place` along `side`; at least one.
    #[inline(always)]
    pub(super) fn covered(&self, side: usize, place: usize, extent: usize) -> usize {
        let (start, padding) = (place * self.stride[side], self.padding[side]);
        let end = (start + self.kernel[side]).saturating_sub(padding).min(extent);
        end - start.saturating_sub(padding)
    }
}

/// Iterates over everything that windows cover in an image.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    pub(super) image: Image,
    pub(super) window: Window,
    /// Number of places along the height and the width.
    pub(super) places: [usize; 2],
}

impl Places {
    /// An iterator for an image and a window that were checked when the graph was built.
    pub(super) fn new(image: Image, window: Window) -> Self {
        let places = window.places(&image).unwrap_or([0; 2]);
        Self { image, window, places }
    }

    /// Number of places in a plane.
    pub(super) fn count(&self) -> usize {
        self.places[0] * self.places[1]
    }

    /// Visits the first `rows` values of windows, channel by channel and row by row.
    ///
    /// For each value, calls `each` for one line of places after another. The arguments are the
    /// number of the line among the lines of all values, its number among the lines of all
    /// channels, the places of the line at which the value is inside the plane, and the lane of the
    /// image for the first of these. The lane advances by `stride` from place to place.
    #[inline(always)]
    pub(super) fn runs(
        &self,
        rows: usize,
        mut each: impl FnMut(usize, usize, Range<usize>, usize),
    ) {
        let Self { image, window, places: [down, across] } = *self;
        for row in 0..rows {
            let (channel, value) = (row / window.area(), row % window.area());
            let (y, x) = (value / window.kernel[1], value % window.kernel[1]);
            let lines = window.inside(0, y, image.height, down);
            let inside = window.inside(1, x, image.width, across);
            for place in 0..down {
                let (line, of_channel) = (row * down + place, channel * down + place);
                if !lines.contains(&place) || inside.is_empty() {
                    each(line, of_channel, 0..0, 0);
                    continue;
                }
                let plane_row = place * window.stride[0] + y - window.padding[0];
                let column = inside.start * window.stride[1] + x - window.padding[1];
                let lane = channel * image.plane() + plane_row * image.width + column;
                each(line, of_channel, inside.clone(), lane);
            }
        }
    }
}

/// A value of the kernel, viewed as a shifted copy of its plane. If lines of places are as long as
/// lines of the plane, and the stride is 1, neighboring places read neighboring lanes.
#[derive(Clone, Debug)]
pub(super) struct Shift {
    /// From the first place at which the value is inside the plane to the last.
    pub(super) places: Range<usize>,
    /// Lane of the image for the first of these.
    pub(super) lane: usize,
    /// Places that read padding between the end of a line and the start of the next.
    gap: usize,
    across: usize,
}

impl Shift {
    /// Clears the places between lines that read padding.
    #[inline(always)]
    pub(super) fn clear_gaps<T: Scalar>(&self, places: &mut [T]) {
        if self.gap > 0 {
            let first = self.places.start + self.across - self.gap;
            for start in (first..self.places.end).step_by(self.across) {
                places[start..start + self.gap].iter_mut().for_each(|place| *place = T::ZERO);
            }
        }
    }
}

impl Places {
    /// Whether values of the kernel are shifted planes.
    pub(super) fn shifts(&self) -> bool {
        self.window.stride == [1; 2] && self.places[1] == self.image.width
    }

    /// Value `row` of the windows as a shifted plane.
    #[inline(always)]
    pub(super) fn shift(&self, row: usize) -> Shift {
        let Self { image, window, places: [down, across] } = *self;
        let (channel, value) = (row / window.area(), row % window.area());
        let (y, x) = (value / window.kernel[1], value % window.kernel[1]);
        let lines = window.inside(0, y, image.height, down);
        let inside = window.inside(1, x, image.width, across);
        if lines.is_empty() || inside.is_empty() {
            return Shift { places: 0..0, lane: 0, gap: 0, across };
        }
        let places = lines.start * across + inside.start..(lines.end - 1) * across + inside.end;
        let plane_row = lines.start + y - window.padding[0];
        let column = inside.start + x - window.padding[1];
        let lane = channel * image.plane() + plane_row * image.width + column;
        Shift { places, lane, gap: across - inside.len(), across }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_cover_what_the_plane_has() {
        for extent in 1..9 {
            for (kernel, stride, padding) in
                [(1, 1, 0), (3, 1, 1), (3, 2, 1), (2, 2, 0), (4, 3, 3), (5, 1, 2), (2, 5, 1)]
            {
                let window =
                    Window { kernel: [kernel; 2], stride: [stride; 2], padding: [padding; 2] };
                let image = Image { channels: 1, height: extent, width: extent };
                let Ok([places, _]) = window.places(&image) else {
                    assert!(kernel > extent + 2 * padding);
                    continue;
                };
                for place in 0..places {
                    let lane = |offset: usize| (place * stride + offset).checked_sub(padding);
                    let inside = |offset: &usize| lane(*offset).is_some_and(|l| l < extent);
                    let wanted: Vec<usize> = (0..kernel).filter(inside).collect();
                    for offset in 0..kernel {
                        let range = window.inside(1, offset, extent, places);
                        assert_eq!(range.contains(&place), wanted.contains(&offset));
                    }
                    assert!(!wanted.is_empty());
                    assert_eq!(window.covered(0, place, extent), wanted.len());
                }
                let beyond = places * stride + kernel;
                assert!(beyond > extent + 2 * padding, "no place is left out");
            }
        }
    }
}
