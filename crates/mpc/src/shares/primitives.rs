//! Reshare, open, products and private inputs (Araki et al., CCS 2016, sections 2 and 3).

use sha2::Digest;
use zeroize::Zeroizing;

use super::accounts::{Account, Place};
use super::proofs::log::{Log, Proved};
use super::proofs::statements::{Masks, products};
use super::round::{Part, Side, together};
use super::{Bits, Context, Ring, Shared};
use flyswarm_sealed_sum::crypto::tagged_hash;

/// Number of lanes of a word of bits.
pub const LANES: usize = 64;

/// Returns shares of the sum of the three parties' parts. Takes one word per party and one round.
///
/// # Panics
/// If the program proves its statements, because this reshare has none.
pub async fn reshare<T: Ring>(context: &mut Context, mut part: Vec<T>) -> Shared<T> {
    assert!(context.log().is_none(), "BUG: a reshare without a statement");
    context.step().mask(&mut part);
    context.send(Side::Before, &part);
    context.round().await;
    let next = context.receive(Side::After, part.len());
    Shared { own: part, next }
}

/// Returns shares of the sum of the three parties' parts, as [`reshare`] does. `statement` adds to the log
/// what the parties must prove.
pub async fn reshare_proved<T: Ring>(
    context: &mut Context,
    mut part: Vec<T>,
    statement: impl FnOnce(&Context, &Log, &Shared<T>, Masks<T>),
) -> Shared<T> {
    let Some(log) = context.log() else { return reshare(context, part).await };
    let masks = context.step().masks(&mut part);
    #[cfg(test)]
    log.cheat("products", context.wire().rounds(), &mut part);
    context.send(Side::Before, &part);
    context.round().await;
    let next = context.receive(Side::After, part.len());
    let shared = Shared { own: part, next };
    statement(context, &log, &shared, masks);
    shared
}

/// Returns shares of sums of products, from this party's part of them. Each of `pairs` has one factor of
/// each sum.
pub async fn reshare_products<T: Proved>(
    context: &mut Context,
    part: Vec<T>,
    pairs: impl FnOnce() -> Vec<(Shared<T>, Shared<T>)>,
) -> Shared<T> {
    reshare_proved(context, part, |_, log, shared, masks| products(log, shared, masks, pairs())).await
}

/// Opens a shared value to all three parties, once all statements so far are proved. Takes one word per
/// party and one round. Each party gets the missing share from the party before it and the hash of that share
/// from the party after it.
///
/// # Errors
/// The place, if they differ.
pub async fn open<T: Ring>(context: &Context, shared: &Shared<T>) -> Result<Vec<T>, Place> {
    if let Some(log) = context.log() {
        log.proved().await;
    }
    let hash = |share: &[T]| -> [u8; 32] {
        let mut bytes = Zeroizing::new(Vec::new());
        T::write_all(share, &mut bytes);
        tagged_hash("opened").chain_update(&*bytes).finalize().into()
    };
    let hashes = [hash(&shared.next), hash(&shared.own)];
    let place = context.place(context.wire().rounds());
    context.wire().account(place, Account::new(hashes));
    #[cfg(test)]
    context.label("opened share", Side::After, shared.len() * T::BYTES);
    context.send(Side::After, &shared.own);
    #[cfg(test)]
    context.label("hash of an opened share", Side::Before, 32);
    context.wire().send_bytes(Side::Before, &hashes[0]);
    context.round().await;
    let missing: Vec<T> = context.receive(Side::Before, shared.len());
    let expected: [u8; 32] =
        context.wire().receive_bytes(Side::After, 32, |hash| hash.try_into().unwrap_or([0; 32]));
    let shown = hash(&missing);
    if let Some(account) = context.wire().account_of(place) {
        account.heard = [Some(shown), Some(expected)];
        account.accepts = shown == expected;
    }
    if shown != expected {
        return Err(place);
    }
    let held = shared.own.iter().zip(&shared.next);
    Ok(held.zip(missing).map(|((&a, &b), c)| a.add(b).add(c)).collect())
}

/// Returns products word by word (`and` for bits). Takes one word per party and one round.
pub async fn multiply<T: Proved>(context: &mut Context, x: &Shared<T>, y: &Shared<T>) -> Shared<T> {
    let part = x.product(y);
    reshare_products(context, part, || vec![(x.clone(), y.clone())]).await
}

/// Returns several products in one round.
pub async fn multiply_all<T: Proved>(
    context: &mut Context,
    pairs: &[(&Shared<T>, &Shared<T>)],
) -> Vec<Shared<T>> {
    let part = pairs.iter().flat_map(|(x, y)| x.product(y)).collect();
    let factors = || {
        let (x, y) = (pairs.iter().map(|pair| pair.0), pairs.iter().map(|pair| pair.1));
        vec![(Shared::concat(x), Shared::concat(y))]
    };
    let products = reshare_products(context, part, factors).await;
    let ends = pairs.iter().scan(0, |end, (x, _)| {
        *end += x.len();
        Some((*end - x.len(), *end))
    });
    ends.map(|(start, end)| products.slice(start..end)).collect()
}

/// Makes shares of a value that only role `dealer` knows. The dealer draws its own share with the
/// neighbour before it and sends the rest to the neighbour after it; the third share is 0. Only the dealer
/// passes a `value`. The caller waits for the end of the round.
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
            #[cfg(test)]
            let next = context.log().map_or(next.clone(), |log| {
                let mut next = next;
                log.cheat("dealing", context.wire().rounds(), &mut next);
                next
            });
            context.send(Side::After, &next);
            Shared { own, next }
        }
        2 => Shared { own: vec![T::default(); len], next: step.draw(Side::After, len) },
        _ => Shared::zeros(len),
    };
    PendingShares { shared, due: place == 1 }
}

/// Shares that are complete at the end of the round in which they were dealt.
#[derive(Debug)]
pub struct PendingShares<T> {
    shared: Shared<T>,
    due: bool,
}

impl<T: Ring> PendingShares<T> {
    /// Returns the shares. Must be called in the order of the deals. `statement` adds to the log what the
    /// dealer must prove.
    pub fn receive(mut self, context: &Context, statement: impl FnOnce(&Log, &Shared<T>)) -> Shared<T> {
        if self.due {
            self.shared.own = context.receive(Side::Before, self.shared.len());
        }
        if let Some(log) = context.log() {
            statement(&log, &self.shared);
        }
        self.shared
    }
}

/// Range of the words of each row, if a vector is cut in three.
pub type Range = std::ops::Range<usize>;

/// Splits `items` into three ranges. Each except the last is a multiple of `unit`; empty ones are left
/// out.
#[must_use]
pub fn thirds(items: usize, unit: usize) -> Vec<Range> {
    let size = items.div_ceil(3).next_multiple_of(unit).max(1);
    (0..items).step_by(size).map(|start| start..items.min(start + size)).collect()
}

/// Runs `part` on each third of `items` in parallel, with rotated roles, so that all parties have the same
/// load.
pub async fn in_thirds<'a, U: Send + 'a>(
    context: &Context,
    items: usize,
    unit: usize,
    part: impl Fn(Context, Range) -> Part<'a, U>,
) -> Vec<U> {
    let parts = thirds(items, unit).into_iter().enumerate();
    together(parts.map(|(turn, range)| part(context.split(turn), range)).collect()).await
}

/// Returns this party's part of the product of `bits` and one word of bits per lane. `bits` consists of
/// whole vectors as long as `by`.
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
