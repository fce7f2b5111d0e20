//! Reusable memory for chunks: a sum masks and receives thousands of chunks of the same size, and fresh
//! memory must be zeroed for each chunk.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// Smallest frame that is worth a reused buffer, in bytes.
const SMALLEST: usize = 64 * 1024;
/// Largest number of spare buffers: 8 MiB of chunks.
const SPARE: usize = 32;

/// Pool of spare buffers.
#[derive(Clone, Debug, Default)]
pub struct Buffers(Arc<Mutex<Vec<Vec<u8>>>>);

/// Memory of `len` bytes to write into.
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    len: usize,
    home: Option<Buffers>,
}

impl Buffers {
    /// Returns a buffer of `len` bytes with arbitrary content.
    pub fn take(&self, len: usize) -> Buffer {
        if len < SMALLEST {
            return Buffer { bytes: vec![0; len], len, home: None };
        }
        let spare = {
            let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // The buffer that was returned last is the likeliest to be in a cache.
            spare.iter().rposition(|bytes| bytes.len() >= len).map(|at| spare.swap_remove(at))
        };
        let bytes = spare.unwrap_or_else(|| vec![0; len]);
        Buffer { bytes, len, home: Some(self.clone()) }
    }
}

impl Buffer {
    /// Returns the bytes to write into.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }

    /// Returns the written bytes. The memory goes back to the pool when the last slice of it is dropped.
    pub fn freeze(mut self) -> Bytes {
        match self.home {
            Some(_) => Bytes::from_owner(self),
            None => std::mem::take(&mut self.bytes).into(),
        }
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Self {
        Self { bytes: self.as_ref().to_vec(), len: self.len, home: None }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let Some(home) = &self.home else { return };
        let mut spare = home.0.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE {
            spare.push(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_with_the_last_slice_and_is_never_seen_by_two() {
        let buffers = Buffers::default();
        let mut first = buffers.take(SMALLEST);
        first.bytes_mut().fill(1);
        let frame = first.freeze();
        let slice = frame.slice(10..20);
        drop(frame);
        let mut second = buffers.take(SMALLEST);
        second.bytes_mut().fill(2);
        assert_eq!(slice[..], [1; 10]);
        let place = slice.as_ptr();
        drop(slice);
        let mut third = buffers.take(SMALLEST);
        assert_eq!(third.bytes_mut()[10..].as_ptr(), place, "the memory of the first buffer is reused");
        // A longer frame does not fit into the spare buffer, and a small frame does not use it.
        drop(third);
        assert_eq!(buffers.take(SMALLEST + 1).bytes_mut().len(), SMALLEST + 1);
        assert_eq!(buffers.take(5).freeze().len(), 5);
    }

    #[test]
    fn no_more_than_so_many_wait() {
        let buffers = Buffers::default();
        let taken: Vec<_> = (0..2 * SPARE).map(|_| buffers.take(SMALLEST)).collect();
        drop(taken);
        assert_eq!(buffers.0.lock().unwrap().len(), SPARE);
    }
}
