//! Reshare, open, products and private inputs (Araki et al., CCS 2016, sections 2 and 3).

use super::round::{Part, Side, together};
use super::{Bits, Context, Ring, Shared};

/// Lanes of a word of bits.
pub const LANES: usize = 64;

/// Shares of what three parties' parts add up to; one word a party, one round.
pub async fn reshare<T: Ring>(context: &mut Context, mut part: Vec<T>) -> Shared<T> {
    context.step().mask(&mut part);
    context.send(Side::Before, &part);
    context.round().await;
    let next = context.receive(Side::After, part.len());
    Shared { own: part, next }
}

/// What is shared, shown to all three; one word a party, one round.
pub async fn open<T: Ring>(context: &Context, shared: &Shared<T>) -> Vec<T> {
    context.send(Side::After, &shared.own);
    context.round().await;
    let missing: Vec<T> = context.receive(Side::Before, shared.len());
    let held = shared.own.iter().zip(&shared.next);
    held.zip(missing).map(|((&a, &b), c)| a.add(b).add(c)).collect()
}

/// Products word by word: `and` for bits; one word a party, one round.
pub async fn multiply<T: Ring>(context: &mut Context, x: &Shared<T>, y: &Shared<T>) -> Shared<T> {
    let part = x.product(y);
    reshare(context, part).await
}

/// Several products in one round.
pub async fn multiply_all<T: Ring>(
    context: &mut Context,
    pairs: &[(&Shared<T>, &Shared<T>)],
) -> Vec<Shared<T>> {
    let part = pairs.iter().flat_map(|(x, y)| x.product(y)).collect();
    let products = reshare(context, part).await;
    let ends = pairs.iter().scan(0, |end, (x, _)| {
        *end += x.len();
        Some((*end - x.len(), *end))
    });
    ends.map(|(start, end)| products.slice(start..end)).collect()
}

/// Shares of what role `dealer` knows alone: its share is drawn with the neighbour before, the rest goes to
/// the one after it, the third share is 0. `value` is given at the dealer only. The round is the caller's.
pub fn deal<T: Ring>(
    context: &mut Context,
    dealer: usize,
    len: usize,
    value: Option<&[T]>,
) -> PendingShares<T> {
    let place = (context.role() + 3 - dealer) % 3;
    let step = context.step();
    let shared = match place {
        0 => {
            let own: Vec<T> = step.draw(Side::Before, len);
            let value = value.unwrap_or(&[]);
            let next: Vec<T> = value.iter().zip(&own).map(|(&x, &r)| x.sub(r)).collect();
            context.send(Side::After, &next);
            Shared { own, next }
        }
        2 => Shared { own: vec![T::default(); len], next: step.draw(Side::After, len) },
        _ => Shared::zeros(len),
    };
    PendingShares { shared, due: place == 1 }
}

/// Shares that are whole when the round in which they were dealt is over.
#[derive(Debug)]
pub struct PendingShares<T> {
    shared: Shared<T>,
    due: bool,
}

impl<T: Ring> PendingShares<T> {
    /// The shares; to be called in the order of the deals.
    pub fn receive(mut self, context: &Context) -> Shared<T> {
        if self.due {
            self.shared.own = context.receive(Side::Before, self.shared.len());
        }
        self.shared
    }
}

/// Some words of each row, when a vector is cut in three.
pub type Range = std::ops::Range<usize>;

/// `items` in three ranges, each but the last a multiple of `unit`; empty ones are left out.
#[must_use]
pub fn thirds(items: usize, unit: usize) -> Vec<Range> {
    let size = items.div_ceil(3).next_multiple_of(unit).max(1);
    (0..items).step_by(size).map(|start| start..items.min(start + size)).collect()
}

/// Runs `part` on each third of `items`, with turned roles, side by side: all parties have the same load.
pub async fn in_thirds<'a, U: Send + 'a>(
    context: &Context,
    items: usize,
    unit: usize,
    part: impl Fn(Context, Range) -> Part<'a, U>,
) -> Vec<U> {
    let parts = thirds(items, unit).into_iter().enumerate();
    together(parts.map(|(turn, range)| part(context.split(turn), range)).collect()).await
}

/// Lanes of `bits` times a word of bits for all of them: `bits` has whole vectors as long as `by`.
#[must_use]
pub fn product_by(by: &Shared<Bits>, bits: &Shared<Bits>) -> Vec<Bits> {
    let mut part = Vec::with_capacity(bits.len());
    let vectors = bits.own.chunks_exact(by.len()).zip(bits.next.chunks_exact(by.len()));
    for (own, next) in vectors {
        let by = by.own.iter().zip(&by.next);
        let each = by.zip(own.iter().zip(next));
        part.extend(each.map(|((&t, &t1), (&x, &x1))| t.mul(x.add(x1)).add(t1.mul(x))));
    }
    part
}
