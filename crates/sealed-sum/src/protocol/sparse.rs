//! Wire format of chunks with few nonzero words, in sums without masks (Ram & Sinha, Lemma 5: a release of
//! T counts costs O(T), not O(m L)).
//!
//! A chunk of up to 65,536 words of 4 bytes is sent as pairs LE16(place in the chunk) || LE32(word) of all
//! nonzero words, places ascending. A pair has 6 bytes. A chunk of zeros has no pairs, and no chunk has
//! more than 393,216 bytes.

use bytes::Bytes;

use super::Fault;

/// Bytes of a pair.
const PAIR: usize = 6;
const WORD: usize = 4;

/// Encodes a chunk of words of 4 bytes, little-endian, as pairs.
#[must_use]
pub fn encode(words: &[u8]) -> Bytes {
    let (words, _) = words.as_chunks::<WORD>();
    let pairs = (0u16..=u16::MAX).zip(words).filter(|(_, word)| **word != [0; WORD]);
    pairs.flat_map(|(place, word)| place.to_le_bytes().into_iter().chain(*word)).collect::<Vec<u8>>().into()
}

/// Decodes the words of a chunk of `length` bytes. Each chunk has exactly one encoding; everything else is
/// a fault.
pub fn decode(pairs: &[u8], length: usize) -> Result<Bytes, Fault> {
    let wrong = |what: &str| Fault::Inconsistent(format!("a chunk of pairs {what}"));
    let (pairs, []) = pairs.as_chunks::<PAIR>() else { return Err(wrong("ends in the middle of one")) };
    let mut words = vec![0; length];
    let (places, _) = words.as_chunks_mut::<WORD>();
    let mut next = 0;
    for &[a, b, word @ ..] in pairs {
        let place = usize::from(u16::from_le_bytes([a, b]));
        if place < next {
            return Err(wrong("is out of order"));
        }
        if word == [0; WORD] {
            return Err(wrong("names a word that is 0"));
        }
        *places.get_mut(place).ok_or_else(|| wrong("names a word outside the chunk"))? = word;
        next = place + 1;
    }
    Ok(words.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_chunk_has_one_encoding(
            words in proptest::collection::vec(prop_oneof![Just(0u32), any::<u32>()], 0..300)
        ) {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let pairs = encode(&bytes);
            prop_assert_eq!(pairs.len(), 6 * words.iter().filter(|word| **word != 0).count());
            prop_assert_eq!(decode(&pairs, bytes.len()).unwrap(), bytes);
        }

        #[test]
        fn whatever_decodes_is_what_its_words_encode_to(
            pairs in proptest::collection::vec(prop_oneof![Just(0u8), Just(1), any::<u8>()], 0..40)
        ) {
            if let Ok(words) = decode(&pairs, 40) {
                prop_assert_eq!(encode(&words), pairs);
            }
        }
    }

    #[test]
    fn a_full_chunk_fits_a_frame_and_other_pairs_are_refused() {
        let full = vec![1; super::super::all_reduce::CHUNK];
        assert_eq!(encode(&full).len(), 393_216);
        assert_eq!(decode(&encode(&full), full.len()).unwrap(), full);
        let pair = |place: u16, word: u32| [&place.to_le_bytes()[..], &word.to_le_bytes()].concat();
        for (pairs, why) in [
            (vec![0; 5], "middle"),
            (pair(3, 0), "is 0"),
            (pair(10, 1), "outside"),
            ([pair(3, 1), pair(3, 1)].concat(), "order"),
            ([pair(3, 1), pair(2, 1)].concat(), "order"),
        ] {
            let Err(Fault::Inconsistent(text)) = decode(&pairs, 40) else { panic!("{why}") };
            assert!(text.contains(why), "{text}");
        }
    }
}
