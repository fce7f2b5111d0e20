//! Log of all statements that are still to be proved, and their proofs in the rounds of the program.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as Wakeup, Poll};

use super::super::accounts::Place;
use super::super::round::Part;
use super::super::{Bits, Context, Ring};
use super::extension::{Galois, Gf64};
use super::gates::{Gates, MakeSum, Terms};
use super::prove::{Batch, Make, prove};

/// Number of words from which on a batch is closed.
const FULL: usize = if cfg!(test) { 1 << 9 } else { 1 << 18 };

/// Prover of a statement, as seen from one party.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prover {
    /// This party.
    Me,
    /// The party after it.
    After,
    /// The party before it.
    Before,
}

/// Statements over one kind of word that are in no batch yet.
struct Open<R: Gates> {
    batches: [Batch<R>; 3],
    sizes: [usize; 3],
}

impl<R: Gates> Default for Open<R> {
    fn default() -> Self {
        Self { batches: Default::default(), sizes: [0; 3] }
    }
}

/// Words whose statements are proved in an extension.
pub trait Proved: Ring {
    /// The extension.
    type Extension: Gates<Word = Self>;
    /// Returns the statements of this kind of word.
    #[doc(hidden)]
    fn open(log: &mut Statements) -> &mut dyn Kind<Self>;
}

/// One kind of statements.
#[doc(hidden)]
pub trait Kind<T: Proved> {
    fn open(&mut self) -> (&mut [Batch<T::Extension>; 3], &mut [usize; 3]);
}

impl<T: Proved> Kind<T> for Open<T::Extension> {
    fn open(&mut self) -> (&mut [Batch<T::Extension>; 3], &mut [usize; 3]) {
        (&mut self.batches, &mut self.sizes)
    }
}

macro_rules! proved {
    ($($word:ty, $extension:ty, $field:ident;)*) => {$(
        impl Proved for $word {
            type Extension = $extension;
            fn open(log: &mut Statements) -> &mut dyn Kind<Self> {
                &mut log.$field
            }
        }
    )*};
}

proved!(Bits, Gf64, bits; u16, Galois<u16>, short; u64, Galois<u64>, long;);

/// Statements that are still to be proved.
#[derive(Default)]
#[doc(hidden)]
pub struct Statements {
    bits: Open<Gf64>,
    short: Open<Galois<u16>>,
    long: Open<Galois<u64>>,
    sealed: Vec<Job>,
    /// Number of batches whose proofs have not ended.
    waiting: usize,
}

impl std::fmt::Debug for Statements {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Statements({} batches wait, <redacted>)", self.waiting)
    }
}

type Job = Box<dyn FnOnce(Context) -> Part<'static, Result<(), Place>> + Send>;

/// Log of a party.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Statements>>, #[cfg(test)] pub(super) super::tests::Cheat);

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Log(<redacted>)")
    }
}

impl Log {
    /// Returns the log of a party that cheats, or does not.
    #[cfg(test)]
    pub(super) fn new(cheat: super::tests::Cheat) -> Self {
        Self(Arc::default(), cheat)
    }

    /// Changes a message that this party makes, if a test has planted such a change.
    #[cfg(test)]
    pub fn cheat<T: Ring>(&self, kind: &'static str, round: u32, words: &mut [T]) {
        self.cheat_in(kind, round, 8 * T::BYTES, words);
    }

    /// Changes words in the same way. Only their lowest `width` bits are sent.
    #[cfg(test)]
    pub fn cheat_in<T: Ring>(&self, kind: &'static str, round: u32, width: usize, words: &mut [T]) {
        self.1.change((kind, round), width, words);
    }

    /// Closes the batches in which one prover has `least` words or more. All parties do so at the same
    /// place of the program, because each adds its own statements first.
    fn seal(&self, least: usize) {
        let mut statements = self.statements();
        seal::<Bits>(&mut statements, least);
        seal::<u16>(&mut statements, least);
        seal::<u64>(&mut statements, least);
    }

    fn statements(&self) -> std::sync::MutexGuard<'_, Statements> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds statements of one prover, when all their messages have been received.
    pub fn add<T: Proved>(&self, prover: Prover, terms: Terms<T>) {
        let mut statements = self.statements();
        let (batches, sizes) = T::open(&mut statements).open();
        sizes[prover as usize] += terms.products.max(1) * terms.len;
        batches[prover as usize].terms.push(terms);
    }

    /// Adds a linear statement of one prover about vectors of `len` elements.
    pub fn add_linear<T: Proved>(&self, prover: Prover, len: usize, make: Make<T::Extension>) {
        let mut statements = self.statements();
        let (batches, sizes) = T::open(&mut statements).open();
        sizes[prover as usize] += len;
        batches[prover as usize].linear.push((len, make));
    }

    /// Adds a sum of `len` products of a coin and a word of one prover.
    pub fn add_sum<T: Proved>(&self, prover: Prover, len: usize, make: MakeSum<T::Extension>) {
        let mut statements = self.statements();
        let (batches, sizes) = T::open(&mut statements).open();
        sizes[prover as usize] += len;
        batches[prover as usize].sums.push((len, make));
    }

    /// Returns a future that is ready when all statements so far are proved.
    pub fn proved(&self) -> impl Future<Output = ()> + Send + use<> {
        self.seal(1);
        let log = self.clone();
        std::future::poll_fn(
            move |_| if log.statements().waiting == 0 { Poll::Ready(()) } else { Poll::Pending },
        )
    }
}

/// Closes the batch of one kind of words, if one prover has `least` words or more in it.
fn seal<T: Proved>(statements: &mut Statements, least: usize) {
    let (batches, sizes) = T::open(statements).open();
    if sizes.iter().all(|&size| size < least) {
        return;
    }
    *sizes = [0; 3];
    let batches = std::mem::take(batches);
    statements.sealed.push(Box::new(move |mut context| {
        Box::pin(async move { prove::<T::Extension>(&mut context, batches).await })
    }));
    statements.waiting += 1;
}

/// A program and the proofs of its statements, which share its rounds. It ends when all statements are
/// proved.
///
/// In every round the program sends before the proofs, so it also reads first. The program may wait for
/// the proofs only if no other part of it sends at that time.
pub struct Alongside<'a, T> {
    root: Context,
    log: Log,
    program: Part<'a, T>,
    result: Option<T>,
    running: Vec<Part<'static, Result<(), Place>>>,
}

impl<T> std::fmt::Debug for Alongside<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Alongside({} proofs)", self.running.len())
    }
}

impl<'a, T> Alongside<'a, T> {
    /// Makes the future. `root` is the context of the whole program.
    #[must_use]
    pub fn new(root: Context, log: Log, program: Part<'a, T>) -> Self {
        Self { root, log, program, result: None, running: Vec::new() }
    }
}

impl<T> Unpin for Alongside<'_, T> {}

impl<T> Future for Alongside<'_, T> {
    type Output = Result<T, Place>;

    fn poll(mut self: Pin<&mut Self>, wakeup: &mut Wakeup<'_>) -> Poll<Self::Output> {
        loop {
            if self.result.is_none()
                && let Poll::Ready(result) = self.program.as_mut().poll(wakeup)
            {
                self.result = Some(result);
            }
            self.log.seal(if self.result.is_some() { 1 } else { FULL });
            let sealed = std::mem::take(&mut self.log.statements().sealed);
            for job in sealed {
                let context = self.root.split(0);
                self.running.push(job(context));
            }
            let (mut ended, mut fails) = (0, None);
            self.running.retain_mut(|proof| match proof.as_mut().poll(wakeup) {
                Poll::Pending => true,
                Poll::Ready(result) => {
                    ended += 1;
                    fails = fails.or(result.err());
                    false
                }
            });
            if let Some(place) = fails {
                return Poll::Ready(Err(place));
            }
            self.log.statements().waiting -= ended;
            if self.running.is_empty()
                && let Some(result) = self.result.take()
            {
                return Poll::Ready(Ok(result));
            }
            // The program may have waited for the proofs.
            if ended == 0 || self.result.is_some() {
                return Poll::Pending;
            }
        }
    }
}
