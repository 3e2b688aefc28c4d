//! LOGIN7 of a client.

use super::{Feature, Login7, option3};
use crate::wire::text;
use crate::{Result, TdsError};

/// Clients' texts are names; a longer one is a mistake of the caller.
const TEXT_UNITS_MAX: usize = 128;

/// The fixed part grows at the front, the data behind it.
struct Layout {
    fixed: Vec<u8>,
    data: Vec<u8>,
    fixed_bytes: usize,
}

impl Login7 {
    /// The bytes of the message; an error when a name is too long for it.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let fixed_bytes = if self.version.has_wide_fields() {
            94
        } else {
            86
        };
        let mut layout = Layout {
            fixed: vec![0; 4],
            data: Vec::new(),
            fixed_bytes,
        };
        let with_features = self.version.has_features() && !self.features.is_empty();
        self.put_numbers(&mut layout.fixed, with_features);
        layout.text(&self.host_name, "host name")?;
        layout.text(&self.user_name, "user name")?;
        layout.obfuscated(&self.password.to_wire(), "password")?;
        layout.text(&self.app_name, "application name")?;
        layout.text(&self.server_name, "server name")?;
        let pointer = layout.data.len();
        layout.bytes(&[0; 4][..if with_features { 4 } else { 0 }], 1, "extension")?;
        layout.text(&self.library_name, "library name")?;
        layout.text(&self.language, "language")?;
        layout.text(&self.database, "database")?;
        layout.fixed.extend_from_slice(&self.client_id);
        layout.bytes(&self.sspi, 1, "SSPI")?;
        layout.text(&self.attach_db_file, "attach file")?;
        if self.version.has_wide_fields() {
            layout.obfuscated(&self.new_password.to_wire(), "new password")?;
            layout.fixed.extend_from_slice(&[0; 4]);
        }
        if with_features {
            layout.features(&self.features, pointer);
        }
        Ok(layout.join())
    }

    fn put_numbers(&self, fixed: &mut Vec<u8>, with_features: bool) {
        fixed.extend_from_slice(&self.version.login_value().to_le_bytes());
        for number in [
            self.packet_bytes,
            self.client_version,
            self.client_pid,
            self.connection_id,
        ] {
            fixed.extend_from_slice(&number.to_le_bytes());
        }
        let extension = if with_features { option3::EXTENSION } else { 0 };
        let flags3 = self.option_flags3 & !option3::EXTENSION | extension;
        fixed.extend_from_slice(&[
            self.option_flags1,
            self.option_flags2,
            self.type_flags,
            flags3,
        ]);
        fixed.extend_from_slice(&self.time_zone.to_le_bytes());
        fixed.extend_from_slice(&self.lcid.to_le_bytes());
    }
}

impl Layout {
    fn text(&mut self, content: &str, what: &'static str) -> Result<()> {
        let mut bytes = Vec::new();
        text::put_utf16(&mut bytes, content);
        self.obfuscated(&bytes, what)
    }

    fn obfuscated(&mut self, utf16: &[u8], what: &'static str) -> Result<()> {
        let found = utf16.len() / 2;
        if found > TEXT_UNITS_MAX {
            return Err(TdsError::TooLong {
                what,
                limit: TEXT_UNITS_MAX,
                found,
            });
        }
        self.bytes(utf16, 2, what)
    }

    fn bytes(&mut self, content: &[u8], unit: usize, what: &'static str) -> Result<()> {
        let offset = self.fixed_bytes + self.data.len();
        for (found, limit) in [
            (offset, usize::from(u16::MAX)),
            (content.len() / unit, usize::from(u16::MAX) - 1),
        ] {
            let number = u16::try_from(found).ok().filter(|_| found <= limit);
            let number = number.ok_or(TdsError::TooLong { what, limit, found })?;
            self.fixed.extend_from_slice(&number.to_le_bytes());
        }
        self.data.extend_from_slice(content);
        Ok(())
    }

    fn features(&mut self, features: &[Feature], pointer: usize) {
        let offset = u32::try_from(self.fixed_bytes + self.data.len()).unwrap_or(u32::MAX);
        if let Some(room) = self.data.get_mut(pointer..pointer + 4) {
            room.copy_from_slice(&offset.to_le_bytes());
        }
        Feature::encode_list(features, &mut self.data);
    }

    fn join(mut self) -> Vec<u8> {
        self.fixed.append(&mut self.data);
        let length = u32::try_from(self.fixed.len()).unwrap_or(u32::MAX);
        if let Some(room) = self.fixed.first_chunk_mut::<4>() {
            *room = length.to_le_bytes();
        }
        self.fixed
    }
}
