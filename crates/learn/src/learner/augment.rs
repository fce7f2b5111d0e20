//! Flips and shifts images at random.

use flyswarm_sealed_sum::crypto::stream::Stream;

/// Random changes to the images of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Augment {
    /// Channels, height and width.
    pub image: [usize; 3],
    /// True to exchange left and right with probability 1/2.
    pub flip: bool,
    /// Largest shift of an image along each axis, in pixels. Pixels that a shift uncovers are 0.
    pub shift: usize,
}

impl Augment {
    /// Appends the image of `row`, changed at random. If `flip` is true, the function takes a word from
    /// `stream`, and the word's lowest bit decides. If `shift` is s > 0, the function takes a word below 2 s
    /// + 1 for each of the two axes, y first.
    pub(super) fn append(&self, row: &[f32], stream: &mut Stream, out: &mut Vec<f32>) {
        let [_, height, width] = self.image;
        let flip = self.flip && stream.next_u32() & 1 == 1;
        let mut offset = || match self.shift {
            0 => 0,
            // The shift is smaller than the image's side, which is far below 2^31.
            most => stream.below(2 * most as u32 + 1) as isize - most as isize,
        };
        let (down, right) = (offset(), offset());
        for plane in row.chunks_exact(height * width) {
            for y in 0..height {
                let line = y.checked_add_signed(-down).filter(|&y| y < height);
                let line = line.map(|y| &plane[y * width..][..width]);
                for x in 0..width {
                    let from = x.checked_add_signed(-right).filter(|&x| x < width);
                    let from = from.map(|x| if flip { width - 1 - x } else { x });
                    out.push(line.zip(from).map_or(0.0, |(line, x)| line[x]));
                }
            }
        }
    }
}
