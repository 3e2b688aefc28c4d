//! Compression of frames. Each frame stands alone, so that frames are compressed and read in parallel.

use crate::frame::PAYLOAD_BYTES_MAX;
use crate::tail::TailAligned;

/// How frames are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    None,
    /// Level 1 (fast) to 19.
    Zstd {
        level: i32,
    },
    Lz4,
}

impl Compression {
    /// What BACKUP uses by default until it finds time for a higher level.
    pub const ZSTD_FAST: Compression = Compression::Zstd { level: 1 };

    pub(crate) fn code(self) -> u8 {
        match self {
            Compression::None => 0,
            Compression::Zstd { .. } => 1,
            Compression::Lz4 => 2,
        }
    }

    pub(crate) fn from_code(code: u8) -> Option<Compression> {
        match code {
            0 => Some(Compression::None),
            1 => Some(Compression::Zstd { level: 0 }),
            2 => Some(Compression::Lz4),
            _ => None,
        }
    }

    /// Name as `msdb.dbo.backupset.compression_algorithm` shows it.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Compression::None => None,
            Compression::Zstd { .. } => Some("ZSTD"),
            Compression::Lz4 => Some("LZ4"),
        }
    }
}

/// A thread's compressor: keeps its working memory between frames.
pub struct Encoder {
    compression: Compression,
    zstd: Option<zstd::bulk::Compressor<'static>>,
    out: Vec<u8>,
}

impl Encoder {
    /// Takes the working memory that this compression needs; fails when there is none.
    pub fn new(compression: Compression) -> std::io::Result<Encoder> {
        let zstd = match compression {
            Compression::Zstd { level } => Some(zstd::bulk::Compressor::new(level)?),
            _ => None,
        };
        Ok(Encoder {
            compression,
            zstd,
            out: Vec::new(),
        })
    }

    /// Compresses at another level from here on, if it is ZSTD.
    pub fn set_level(&mut self, level: i32) -> std::io::Result<()> {
        let other = Compression::Zstd { level };
        match &mut self.zstd {
            Some(zstd) if self.compression != other => {
                zstd.set_compression_level(level)?;
                self.compression = other;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The payload to store, and how it is stored: as it is when compression does not make it smaller.
    pub fn encode<'a>(&'a mut self, plain: &'a [u8]) -> std::io::Result<(Compression, &'a [u8])> {
        let stored = match (self.compression, &mut self.zstd) {
            (Compression::Zstd { .. }, Some(zstd)) => {
                self.out
                    .resize(zstd::zstd_safe::compress_bound(plain.len()), 0);
                zstd.compress_to_buffer(plain, &mut self.out)?
            }
            (Compression::Lz4, _) => {
                let bound = lz4_flex::block::get_maximum_output_size(plain.len());
                self.out.resize(bound, 0);
                lz4_flex::block::compress_into(plain, &mut self.out)
                    .map_err(std::io::Error::other)?
            }
            _ => plain.len(),
        };
        if stored < plain.len() {
            Ok((self.compression, &self.out[..stored]))
        } else {
            Ok((Compression::None, plain))
        }
    }
}

/// A thread's decompressor.
pub struct Decoder {
    zstd: Option<zstd::bulk::Decompressor<'static>>,
    out: TailAligned,
}

impl Decoder {
    /// Takes its working memory with the first frame that needs it.
    pub fn new() -> Decoder {
        Decoder {
            zstd: None,
            out: TailAligned::default(),
        }
    }

    /// The plain payload; `None` when the stored bytes do not decompress to exactly `plain_bytes`.
    pub fn decode<'a>(
        &'a mut self,
        codec: Compression,
        stored: &'a [u8],
        plain_bytes: usize,
    ) -> Option<&'a [u8]> {
        if plain_bytes > PAYLOAD_BYTES_MAX {
            return None;
        }
        if codec == Compression::None {
            return (stored.len() == plain_bytes).then_some(stored);
        }
        let out = self.out.space(plain_bytes);
        let len = match codec {
            Compression::Lz4 => lz4_flex::block::decompress_into(stored, out).ok()?,
            _ => {
                if self.zstd.is_none() {
                    self.zstd = Some(zstd::bulk::Decompressor::new().ok()?);
                }
                let zstd = self.zstd.as_mut()?;
                zstd.decompress_to_buffer(stored, out).ok()?
            }
        };
        (len == plain_bytes).then_some(&*out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_come_back_and_random_bytes_are_stored() {
        let soft: Vec<u8> = (0..100_000u32).map(|n| (n / 100) as u8).collect();
        let mut seed = 1u64;
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as u8
        };
        let hard: Vec<u8> = (0..10_000).map(|_| random()).collect();
        for compression in [
            Compression::None,
            Compression::ZSTD_FAST,
            Compression::Zstd { level: 12 },
            Compression::Lz4,
        ] {
            let mut encoder = Encoder::new(compression).expect("an encoder");
            for plain in [&soft, &hard, &Vec::new()] {
                let (codec, stored) = encoder.encode(plain).expect("compresses");
                assert!(stored.len() <= plain.len());
                let mut decoder = Decoder::new();
                let read = Compression::from_code(codec.code()).expect("a codec");
                assert_eq!(decoder.decode(read, stored, plain.len()), Some(&plain[..]));
                assert_eq!(decoder.decode(read, stored, plain.len() + 1), None);
            }
        }
    }
}
