//! LOGIN7 from a client.

use super::{Feature, Login7, Secret, option3};
use crate::wire::{Reader, text};
use crate::{Result, TdsError, TdsVersion};

/// The long SSPI length counts only when the short one is this.
const SSPI_LONG: u16 = u16::MAX;

/// An offset and a length, whose unit depends on the field.
#[derive(Clone, Copy)]
struct Slot {
    offset: u16,
    length: u16,
}

impl Login7 {
    /// Reads a LOGIN7 message; every offset and length in it is checked.
    pub fn decode(body: &[u8]) -> Result<Login7> {
        let mut fixed = Reader::new(body);
        let length = usize::try_from(fixed.u32("LOGIN7 length")?).unwrap_or(usize::MAX);
        let bytes = Reader::new(body).take(length, "LOGIN7")?;
        let mut fixed = Reader::new(bytes).sub(length, "LOGIN7")?;
        fixed.u32("LOGIN7 length")?;
        let mut login = Login7::new(TdsVersion::from_login(fixed.u32("TDS version")?)?);
        login.decode_numbers(&mut fixed)?;
        login.decode_texts(&mut fixed, bytes)?;
        Ok(login)
    }

    fn decode_numbers(&mut self, fixed: &mut Reader<'_>) -> Result<()> {
        self.packet_bytes = fixed.u32("packet size")?;
        self.client_version = fixed.u32("client version")?;
        self.client_pid = fixed.u32("client process")?;
        self.connection_id = fixed.u32("connection id")?;
        self.option_flags1 = fixed.u8("option flags 1")?;
        self.option_flags2 = fixed.u8("option flags 2")?;
        self.type_flags = fixed.u8("type flags")?;
        self.option_flags3 = fixed.u8("option flags 3")?;
        self.time_zone = fixed.i32("time zone")?;
        self.lcid = fixed.u32("client LCID")?;
        Ok(())
    }

    fn decode_texts(&mut self, fixed: &mut Reader<'_>, bytes: &[u8]) -> Result<()> {
        self.host_name = text_field(fixed, bytes, "host name")?;
        self.user_name = text_field(fixed, bytes, "user name")?;
        self.password = Secret::from_wire(text_bytes(fixed, bytes, "password")?)?;
        self.app_name = text_field(fixed, bytes, "application name")?;
        self.server_name = text_field(fixed, bytes, "server name")?;
        let extension = slot(fixed, "extension")?;
        self.library_name = text_field(fixed, bytes, "library name")?;
        self.language = text_field(fixed, bytes, "language")?;
        self.database = text_field(fixed, bytes, "database")?;
        self.client_id = fixed.array("client id")?;
        let sspi = slot(fixed, "SSPI")?;
        self.attach_db_file = text_field(fixed, bytes, "attach file")?;
        let mut sspi_length = u32::from(sspi.length);
        if self.version.has_wide_fields() {
            self.new_password = Secret::from_wire(text_bytes(fixed, bytes, "new password")?)?;
            let long = fixed.u32("SSPI long length")?;
            if sspi.length == SSPI_LONG && long > 0 {
                sspi_length = long;
            }
        }
        self.sspi = range(bytes, u32::from(sspi.offset), sspi_length, "SSPI")?.to_vec();
        if self.version.has_features() && self.option_flags3 & option3::EXTENSION != 0 {
            self.features = features(bytes, extension)?;
        }
        Ok(())
    }
}

/// The extension slot points to the offset of the feature list.
fn features(bytes: &[u8], extension: Slot) -> Result<Vec<Feature>> {
    let pointer = range(bytes, u32::from(extension.offset), 4, "extension")?;
    let offset = Reader::new(pointer).u32("feature list offset")?;
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    let mut whole = Reader::new(bytes).sub(bytes.len(), "LOGIN7")?;
    whole.take(start, "feature list offset")?;
    Feature::decode_list(&mut whole)
}

fn slot(fixed: &mut Reader<'_>, what: &'static str) -> Result<Slot> {
    Ok(Slot {
        offset: fixed.u16(what)?,
        length: fixed.u16(what)?,
    })
}

fn text_bytes<'a>(fixed: &mut Reader<'_>, bytes: &'a [u8], what: &'static str) -> Result<&'a [u8]> {
    let slot = slot(fixed, what)?;
    range(
        bytes,
        u32::from(slot.offset),
        u32::from(slot.length) * 2,
        what,
    )
}

fn text_field(fixed: &mut Reader<'_>, bytes: &[u8], what: &'static str) -> Result<String> {
    text::from_utf16(text_bytes(fixed, bytes, what)?, what).map(String::from)
}

/// An empty field's offset may be anything.
fn range<'a>(bytes: &'a [u8], offset: u32, length: u32, what: &'static str) -> Result<&'a [u8]> {
    if length == 0 {
        return Ok(&[]);
    }
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let end = start.saturating_add(length);
    bytes.get(start..end).ok_or(TdsError::Overrun {
        what,
        expected: end,
        found: bytes.len(),
    })
}
