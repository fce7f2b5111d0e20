//! A frame on the wire, and the two state machines that write and read it on a substream.
//!
//! ```text
//! u32 LE  length of what follows (4 to max_frame)
//! u32 LE  length of the header
//! header  that many bytes
//! payload the rest
//! ```
//!
//! A reader first checks the length against `max_frame`, and only then allocates one buffer of this length.
//! Header and payload are slices of the buffer.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures::{AsyncRead, AsyncWrite};

use super::Channel;
use crate::buffers::{Buffer, Buffers};

/// Bytes of the length field.
const LENGTH: usize = 4;
/// Bytes of the header's length field.
const HEADER_LENGTH: usize = 4;
/// Largest piece that is written at once. Other implementations of Yamux send each write as one frame, and
/// Yamux in Rust refuses frames over 1 MiB (measured). 64 KiB are accepted by every implementation.
pub(super) const PIECE: usize = 64 * 1024;
/// Largest payload that is copied after its header, so that a small frame needs only one write (guess).
const SMALL_PAYLOAD: usize = 4 * 1024;

/// A frame: a header and a payload. This layer does not know their meaning.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frame {
    /// Header, which may be empty.
    pub header: Bytes,
    /// Payload, which may be empty.
    pub payload: Bytes,
}

impl Frame {
    /// Returns the value of the length field: the number of bytes after it.
    pub(super) fn length(&self) -> usize {
        HEADER_LENGTH + self.header.len() + self.payload.len()
    }

    /// Returns the number of bytes on the substream.
    pub(super) fn wire_length(&self) -> usize {
        LENGTH + self.length()
    }
}

/// Reasons why no frame could be read.
#[derive(Debug)]
pub(super) enum ReadError {
    /// The peer broke the format.
    Malformed(String),
    /// The substream ended or failed inside a frame.
    Broken(String),
}

/// Reads the frames of one substream, one at a time.
#[derive(Debug)]
pub(super) struct Reader {
    channel: Channel,
    max_frame: usize,
    buffers: Buffers,
    prefix: [u8; LENGTH],
    /// Buffer for the rest of the frame, or `None` while the length fields are read.
    body: Option<Buffer>,
    /// Number of bytes that were read of the length fields or, after them, of the body.
    filled: usize,
    /// Bytes read since the beginning.
    total: u64,
}

impl Reader {
    pub(super) fn new(channel: Channel, max_frame: usize, buffers: Buffers) -> Self {
        Self { channel, max_frame, buffers, prefix: [0; LENGTH], body: None, filled: 0, total: 0 }
    }

    /// Returns the bytes read since the beginning, including those of an unfinished frame.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the next frame, or `None` if the peer ended the substream between two frames.
    pub(super) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> Poll<Result<Option<Frame>, ReadError>> {
        loop {
            let in_prefix = self.body.is_none();
            let buffer = match &mut self.body {
                None => &mut self.prefix[self.filled..],
                Some(body) => &mut body.bytes_mut()[self.filled..],
            };
            let read = match ready!(Pin::new(&mut *stream).poll_read(cx, buffer)) {
                Ok(read) => read,
                Err(error) => return Poll::Ready(Err(self.broken(&error.to_string()))),
            };
            if read == 0 {
                return Poll::Ready(if in_prefix && self.filled == 0 {
                    Ok(None)
                } else {
                    Err(self.broken("it ended inside a frame"))
                });
            }
            self.filled += read;
            self.total += read as u64;
            if in_prefix && self.filled == LENGTH {
                let length = self.check_length(u32::from_le_bytes(self.prefix))?;
                self.body = Some(self.buffers.take(length));
                self.filled = 0;
            } else if let Some(body) = self.body.take_if(|body| body.as_ref().len() == self.filled) {
                self.filled = 0;
                return Poll::Ready(self.split(body.freeze()).map(Some));
            }
        }
    }

    fn check_length(&self, length: u32) -> Result<usize, ReadError> {
        let malformed = |text| Err(ReadError::Malformed(text));
        match usize::try_from(length) {
            Ok(length) if length < HEADER_LENGTH => malformed(format!(
                "frame of {length} bytes on {}, the least is {HEADER_LENGTH}",
                self.channel
            )),
            Ok(length) if length <= self.max_frame => Ok(length),
            _ => malformed(format!(
                "frame of {length} bytes on {}, the limit is {}",
                self.channel, self.max_frame
            )),
        }
    }

    fn split(&self, mut body: Bytes) -> Result<Frame, ReadError> {
        let header_length = usize::try_from(body.get_u32_le()).unwrap_or(usize::MAX);
        if header_length > body.len() {
            return Err(ReadError::Malformed(format!(
                "header of {header_length} bytes on {}, the frame has {} left",
                self.channel,
                body.len()
            )));
        }
        let header = body.split_to(header_length);
        Ok(Frame { header, payload: body })
    }

    fn broken(&self, why: &str) -> ReadError {
        ReadError::Broken(format!("the {} stream of the peer broke: {why}", self.channel))
    }
}

/// Writes one frame in pieces.
#[derive(Debug)]
pub(super) struct Writer {
    head: Bytes,
    payload: Bytes,
    /// Maximum number of bytes of a piece.
    piece: usize,
}

impl Writer {
    /// Makes a writer. The caller has checked that the frame's lengths fit their fields.
    pub(super) fn new(frame: Frame, piece: usize) -> Self {
        let small = frame.payload.len() <= SMALL_PAYLOAD;
        let mut head = BytesMut::with_capacity(
            LENGTH + HEADER_LENGTH + frame.header.len() + if small { frame.payload.len() } else { 0 },
        );
        head.put_u32_le(u32::try_from(frame.length()).unwrap_or(u32::MAX));
        head.put_u32_le(u32::try_from(frame.header.len()).unwrap_or(u32::MAX));
        head.put_slice(&frame.header);
        let payload = if small {
            head.put_slice(&frame.payload);
            Bytes::new()
        } else {
            frame.payload
        };
        Self { head: head.freeze(), payload, piece }
    }

    /// Writes the frame. Ready when all of it has been given to the substream.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<io::Result<()>> {
        for part in [&mut self.head, &mut self.payload] {
            while !part.is_empty() {
                let piece = &part[..part.len().min(self.piece)];
                let written = ready!(Pin::new(&mut *stream).poll_write(cx, piece))?;
                if written == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                part.advance(written);
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::executor::block_on;
    use futures::io::Cursor;
    use std::future::poll_fn;

    fn encode(frame: &Frame) -> Vec<u8> {
        in_pieces(frame, PIECE)
    }

    fn in_pieces(frame: &Frame, piece: usize) -> Vec<u8> {
        let mut out = Cursor::new(Vec::new());
        let mut writer = Writer::new(frame.clone(), piece);
        block_on(poll_fn(|cx| writer.poll_write(cx, &mut out))).expect("a vector takes everything");
        out.into_inner()
    }

    fn decode(bytes: &[u8]) -> Result<Vec<Frame>, ReadError> {
        let mut reader = Reader::new(Channel::Bulk, 1000, Buffers::default());
        let mut input = Cursor::new(bytes);
        let mut frames = Vec::new();
        while let Some(frame) = block_on(poll_fn(|cx| reader.poll_frame(cx, &mut input)))? {
            frames.push(frame);
        }
        Ok(frames)
    }

    fn malformed(bytes: &[u8]) -> String {
        match decode(bytes) {
            Err(ReadError::Malformed(reason)) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_frame_is_length_header_length_header_payload() {
        let frame = Frame { header: Bytes::from_static(b"hd"), payload: Bytes::from_static(b"pay") };
        assert_eq!(encode(&frame), b"\x09\0\0\0\x02\0\0\0hdpay");
        assert_eq!(frame.wire_length(), 13);
    }

    #[test]
    fn frames_come_back_as_they_were_written() {
        let frames = [
            Frame::default(),
            Frame { header: vec![1; 500].into(), payload: vec![2; 496].into() },
            Frame { header: Bytes::new(), payload: vec![3; 996].into() },
        ];
        let bytes: Vec<u8> = frames.iter().flat_map(encode).collect();
        assert_eq!(decode(&bytes).expect("well formed"), frames);
        let pieces: Vec<u8> = frames.iter().flat_map(|frame| in_pieces(frame, 1)).collect();
        assert_eq!(pieces, bytes);
    }

    #[test]
    fn lengths_outside_the_limits_are_malformed_and_name_the_limit() {
        assert_eq!(malformed(&[0; 4]), "frame of 0 bytes on bulk, the least is 4");
        assert_eq!(malformed(&[1, 0, 0, 0, 9]), "frame of 1 bytes on bulk, the least is 4");
        assert_eq!(malformed(&1001_u32.to_le_bytes()), "frame of 1001 bytes on bulk, the limit is 1000");
        assert_eq!(malformed(&[0xff; 4]), "frame of 4294967295 bytes on bulk, the limit is 1000");
        assert_eq!(
            malformed(&[5, 0, 0, 0, 2, 0, 0, 0, 7]),
            "header of 2 bytes on bulk, the frame has 1 left"
        );
    }

    #[test]
    fn a_stream_cut_inside_a_frame_is_broken() {
        let whole = encode(&Frame { header: vec![1; 5].into(), payload: vec![2; 5].into() });
        for cut in 1..whole.len() {
            assert!(matches!(decode(&whole[..cut]), Err(ReadError::Broken(_))), "cut at {cut}");
        }
    }
}
