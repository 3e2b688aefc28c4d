//! Bulk load: rows after an accepted `INSERT BULK`, sent while they are made.

use super::{Client, ClientError, Event, Reply, Result};
use daruma_tds::packet::PacketType;
use daruma_tds::request::BulkEncoder;
use daruma_tds::token::Column;
use daruma_value::Value;

/// Full packets leave once this much has gathered.
const FLUSH_BYTES: usize = 64 * 1024;

/// A load under way. Dropped without `finish` it leaves the connection unusable, since the server waits for the rest.
pub struct BulkLoad<'a> {
    client: &'a mut Client,
    encoder: BulkEncoder,
}

impl<'a> BulkLoad<'a> {
    pub(super) fn start(client: &'a mut Client, columns: &[Column]) -> BulkLoad<'a> {
        client.writer.set_packet_type(PacketType::Bulk);
        let version = client.version;
        let encoder = BulkEncoder::start(columns, version, client.writer.buffer());
        BulkLoad { client, encoder }
    }

    /// Adds a row and sends what has gathered when it fills a packet or more.
    pub fn row(&mut self, row: &[Value]) -> Result<()> {
        let buffer = self.client.writer.buffer();
        self.encoder.row(row, buffer)?;
        if buffer.len() < FLUSH_BYTES {
            return Ok(());
        }
        self.client.out.clear();
        self.client.writer.drain_full(&mut self.client.out);
        self.client.transport.write(&self.client.out)
    }

    /// Ends the load; the number of rows the server took.
    pub fn finish(self) -> Result<u64> {
        self.encoder.finish(self.client.writer.buffer());
        self.client.send(PacketType::Bulk, &[])?;
        self.client.expect_reply();
        let mut reply = Reply::new(self.client);
        let (mut rows, mut failure) = (0, None);
        while let Some(event) = reply.next_event()? {
            match event {
                Event::Done(done) => rows += done.count().unwrap_or(0),
                Event::Message(message) if message.is_error() => {
                    failure.get_or_insert(ClientError::Server {
                        message: Box::new(message),
                    });
                }
                _ => {}
            }
        }
        failure.map_or(Ok(rows), Err)
    }
}
