//! The article's own figures: SE の雑記, 8 March 2015, a 12 GB database on an Azure virtual machine.

use crate::report::Source;

/// The article, and what it says of its machine.
pub fn source() -> Source {
    Source {
        // In Latin letters first: not every machine has a font for the title as it stands there.
        text: "Published figures: \"Taking backups with performance in mind with SQL Server in an Azure virtual machine\", \
               SE no zakki (masayuki.ozawa), 8 March 2015 (SQL Server in Azure Virtual Machine \
               でパフォーマンスを考慮したバックアップ取得について, SE の雑記)."
            .into(),
        setting: "Measured there with SQL Server on an Azure virtual machine, 1,600,755 pages, onto a data disk of 60 MB/s and \
                  500 requests a second."
            .into(),
    }
}

/// Numbers of files that the article compares.
pub const FILES: [u32; 5] = [1, 2, 4, 8, 16];

/// Seconds by number of files: plain and compressed on one disk, compressed on two.
pub const PLAIN_S: [f64; 5] = [812.0, 404.0, 264.0, 181.0, 183.0];
/// Compressed, on one disk.
pub const COMPRESSED_S: [f64; 5] = [305.0, 193.0, 149.0, 145.0, 171.0];
/// Compressed, on two disks.
pub const TWO_DISKS_S: [f64; 5] = [206.0, 141.0, 130.0, 135.0, 155.0];

/// The best tuning against the plain single file.
pub const BEST: f64 = 5.6;

/// The disk's limits, and what one request at a time moved (the plain single file).
pub const BYTES_PER_S: f64 = 60e6;
/// Requests a second that the disk takes.
pub const REQUESTS_PER_S: f64 = 500.0;
/// What the plain single file moved, in bytes a second: one request at a time.
pub const STREAM_BYTES_PER_S: f64 = 15.39 * 1_048_576.0;
