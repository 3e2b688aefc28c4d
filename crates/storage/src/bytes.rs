//! Little-endian integers in byte slices. The `get_*` forms are for bytes that were validated before and panic on a
//! bug of our own; [`Reader`] is for bytes that may say anything.

/// One check of the bounds for all of the bytes.
#[inline]
fn array<const N: usize>(b: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&b[at..at + N]);
    array
}

/// Little-endian, as everything on disk; the caller has checked that there are enough bytes.
#[inline]
pub fn get_u16(b: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array(b, at))
}

/// As [`get_u16`], four bytes.
#[inline]
pub fn get_u32(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(b, at))
}

/// As [`get_u16`], six bytes.
#[inline]
pub fn get_u48(b: &[u8], at: usize) -> u64 {
    let [a, b, c, d, e, f] = array(b, at);
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

/// As [`get_u16`], eight bytes.
#[inline]
pub fn get_u64(b: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(b, at))
}

/// Little-endian; the caller has checked that there is room.
#[inline]
pub fn put_u16(b: &mut [u8], at: usize, v: u16) {
    b[at..at + 2].copy_from_slice(&v.to_le_bytes());
}

/// As [`put_u16`], four bytes.
#[inline]
pub fn put_u32(b: &mut [u8], at: usize, v: u32) {
    b[at..at + 4].copy_from_slice(&v.to_le_bytes());
}

/// As [`put_u16`], six bytes; `v` must fit them.
#[inline]
pub fn put_u48(b: &mut [u8], at: usize, v: u64) {
    debug_assert!(v < 1 << 48);
    b[at..at + 6].copy_from_slice(&v.to_le_bytes()[..6]);
}

/// As [`put_u16`], eight bytes.
#[inline]
pub fn put_u64(b: &mut [u8], at: usize, v: u64) {
    b[at..at + 8].copy_from_slice(&v.to_le_bytes());
}

/// Appends integers to a growing buffer.
pub trait Put {
    /// Appends one byte.
    fn put_u8(&mut self, v: u8);
    /// Appends two bytes, little-endian.
    fn put_u16(&mut self, v: u16);
    /// Appends four bytes, little-endian.
    fn put_u32(&mut self, v: u32);
    /// Appends six bytes, little-endian; `v` must fit them.
    fn put_u48(&mut self, v: u64);
    /// Appends eight bytes, little-endian.
    fn put_u64(&mut self, v: u64);
    /// u16 length, then the bytes. Callers bound the length.
    fn put_short(&mut self, bytes: &[u8]);
}

impl Put for Vec<u8> {
    #[inline]
    fn put_u8(&mut self, v: u8) {
        self.push(v);
    }
    #[inline]
    fn put_u16(&mut self, v: u16) {
        self.extend_from_slice(&v.to_le_bytes());
    }
    #[inline]
    fn put_u32(&mut self, v: u32) {
        self.extend_from_slice(&v.to_le_bytes());
    }
    #[inline]
    fn put_u48(&mut self, v: u64) {
        self.extend_from_slice(&v.to_le_bytes()[..6]);
    }
    #[inline]
    fn put_u64(&mut self, v: u64) {
        self.extend_from_slice(&v.to_le_bytes());
    }
    #[inline]
    fn put_short(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.len() <= usize::from(u16::MAX));
        self.put_u16(bytes.len() as u16);
        self.extend_from_slice(bytes);
    }
}

/// Reads from bytes that may be damaged: every step may answer `None`.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader at the first byte.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// Is nothing left to read?
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The bytes that were not read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `len` bytes; `None` when there are fewer, as with all that follow.
    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.rest.split_at_checked(len)?;
        self.rest = tail;
        Some(head)
    }

    /// The next byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|b| b[0])
    }

    /// The next two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        self.take(2).map(|b| get_u16(b, 0))
    }

    /// The next four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.take(4).map(|b| get_u32(b, 0))
    }

    /// The next six bytes.
    pub fn u48(&mut self) -> Option<u64> {
        self.take(6).map(|b| get_u48(b, 0))
    }

    /// The next eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        self.take(8).map(|b| get_u64(b, 0))
    }

    /// A two-byte length and as many bytes.
    pub fn short(&mut self) -> Option<&'a [u8]> {
        let len = self.u16()?;
        self.take(usize::from(len))
    }
}
