//! Serialises byte arrays that are longer than 32, the limit of serde itself. The result is N raw bytes
//! without a length, as bincode writes `[u8; 32]`.

use serde::de::{Error, SeqAccess, Visitor};
use serde::ser::SerializeTuple;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// N bytes, serialised as a tuple of N `u8`.
#[derive(Clone, Copy)]
pub(super) struct Fixed<const N: usize>(pub(super) [u8; N]);

impl<const N: usize> Serialize for Fixed<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut tuple = serializer.serialize_tuple(N)?;
        for byte in &self.0 {
            tuple.serialize_element(byte)?;
        }
        tuple.end()
    }
}

impl<'de, const N: usize> Deserialize<'de> for Fixed<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes<const N: usize>;

        impl<'de, const N: usize> Visitor<'de> for Bytes<N> {
            type Value = Fixed<N>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{N} bytes")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Fixed<N>, A::Error> {
                let mut out = [0; N];
                for (i, byte) in out.iter_mut().enumerate() {
                    *byte = seq.next_element()?.ok_or_else(|| A::Error::invalid_length(i, &self))?;
                }
                Ok(Fixed(out))
            }
        }

        deserializer.deserialize_tuple(N, Bytes)
    }
}
