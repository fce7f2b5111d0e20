//! Result of the first exchange for a peer: its shares of the output if it is a computing member, and
//! commitments to the inputs (spec, section 15b).

use bytes::Bytes;
use sha2::Digest;

use crate::crypto::tagged_hash;
use crate::session::Peer;
use crate::sketch::lsh::Codes;

/// Returns an owner's commitment to its input.
#[must_use]
pub fn commitment(
    session: &[u8; 32],
    owner: Peer,
    salt: &[u8; 32],
    codes: &Codes,
    labels: &[Option<u16>],
) -> [u8; 32] {
    let mut hash = tagged_hash("input").chain_update(session).chain_update(owner.0.to_le_bytes());
    hash.update(salt);
    (0..codes.rows()).flat_map(|row| codes.row(row)).for_each(|word| hash.update(word.to_le_bytes()));
    labels.iter().for_each(|label| hash.update(label.unwrap_or(u16::MAX).to_le_bytes()));
    hash.finalize().into()
}

/// Returns the digest of the commitments of all owners, in the order of their places.
#[must_use]
pub(crate) fn inputs_digest(commitments: impl IntoIterator<Item = (Peer, [u8; 32])>) -> [u8; 32] {
    let mut hash = tagged_hash("inputs");
    for (owner, commitment) in commitments {
        hash.update(owner.0.to_le_bytes());
        hash.update(commitment);
    }
    hash.finalize().into()
}

/// Result of the exchange for a peer.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Computed {
    /// For a computing member: its number, from 0, and its shares of the output.
    pub party: Option<(u8, Vec<u8>)>,
    /// The peer's commitment to its input; zeros for a peer without rows.
    pub commitment: [u8; 32],
    /// For a computing member: [`inputs_digest`] of the commitments that owners announced to it; otherwise
    /// zeros.
    pub inputs: [u8; 32],
}

impl std::fmt::Debug for Computed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Computed({:?}, <redacted>)", self.party.as_ref().map(|(number, _)| number))
    }
}

impl Computed {
    /// Encodes the result for storage: the number plus one (0 if the peer did not compute), the commitment,
    /// the digest of all commitments, and the shares.
    #[must_use]
    pub(crate) fn to_bytes(&self) -> Bytes {
        let (number, shares) = self.party.as_ref().map_or((0, &[][..]), |(n, shares)| (n + 1, shares));
        [&[number][..], &self.commitment, &self.inputs, shares].concat().into()
    }

    /// Decodes the bytes of [`Computed::to_bytes`]; returns `None` if they are invalid.
    #[must_use]
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (&number, rest) = bytes.split_first()?;
        let (commitment, rest) = rest.split_first_chunk::<32>()?;
        let (inputs, shares) = rest.split_first_chunk::<32>()?;
        let party = number.checked_sub(1).map(|number| (number, shares.to_vec()));
        (number <= 3 && party.is_some() != shares.is_empty()).then_some(Self {
            party,
            commitment: *commitment,
            inputs: *inputs,
        })
    }
}
