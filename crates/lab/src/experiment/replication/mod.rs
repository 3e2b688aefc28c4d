//! `daruma lab replication`: what synchronous commit and the compression of the log stream cost and save.
//!
//! After the article "The Curious Case of Compression": two databases in two groups, one asynchronous and one synchronous, the same
//! inserts in both, from one statement of all rows to one row a statement; the penalty of the synchronous group with the defaults of 2014, of
//! 2016, with trace flag 9592, and with Daruma's own. Over this machine's loopback and over links that a relay makes slow. Then what
//! the article did not measure: many sessions, seeding, readers on the secondary, how far redo is behind, and failovers.
//!
//! | module | what it is |
//! |---|---|
//! | `beyond` | readers, redo and failovers |
//! | `pair` | two servers, two groups |
//! | `published` | the article's tables |
//! | `relay` | a slow link |
//! | `sessions` | single rows by many sessions |
//! | `shapes` | the inserts, and how long they take |
//! | `tables` | what is shown of them |
//!
//! A run counts when its rows have arrived on the secondary; bytes are those of the log blocks, before compression and after, as the primary's view
//! has them.

mod beyond;
mod pair;
mod published;
mod relay;
mod sessions;
mod shapes;
mod tables;

use super::{Ending, Lab, LabError, LabOptions};
use crate::report::Report;
use clap::{Args, ValueEnum};
use pair::Pair;
use relay::Model;
use serde::Serialize;
use std::time::Duration;

/// Options of `daruma lab replication`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ReplicationArgs {
    #[command(flatten)]
    pub options: LabOptions,

    /// Rows of the source table, which each shape inserts [default: 1000000; quick: 10000]
    #[arg(help_heading = "Experiment", long, value_name = "N", value_parser = clap::value_parser!(u64).range(1000..=10_000_000))]
    pub rows: Option<u64>,

    /// Runs of each shape, the two groups taking turns; tables show medians [default: 3; quick: 1]
    #[arg(help_heading = "Experiment", long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub loops: Option<u64>,

    /// Shapes: so many INSERT statements for all rows; 1,10,100 and so on if not given
    #[arg(help_heading = "Experiment", long, value_name = "N,N..", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub inserts: Vec<u64>,

    /// Compression of the log stream: which ones to try
    #[arg(help_heading = "Experiment", long, value_name = "NAME,..", value_enum, value_delimiter = ',', default_values_t = Variant::ALL)]
    pub variants: Vec<Variant>,

    /// Links between the servers [default: all; quick: loopback,100mbit]
    #[arg(
        help_heading = "Experiment",
        long,
        value_name = "NAME,..",
        value_enum,
        value_delimiter = ','
    )]
    pub links: Vec<Link>,

    /// A run ends after so many seconds; what all its statements would have taken is reckoned from those that it did [default: 60; quick: 2]
    #[arg(help_heading = "Experiment", long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub limit: Option<u64>,
}

const EXAMPLES: &str = "\
Two servers are started on scratch folders and removed at the end: the experiment restarts and kills them, and sets relays
between them, so it takes no -S.

What the columns say: Async ms and Sync ms are how long all inserts of a shape take; the penalty is what the wait for the
secondary's disk adds. Variants: 2014 compresses every stream, 2016 those to asynchronous replicas only, 2016-9592 all
again by trace flag 9592, automatic each block where that is faster on this link.

Examples:
  daruma lab replication --quick
  daruma lab replication --rows 100000 --loops 5 --links loopback
  daruma lab replication --inserts 10,1000 --variants 2016,automatic --links 20mbit";

/// How the log stream is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
pub enum Variant {
    /// Every stream, as SQL Server 2012 and 2014
    #[value(name = "2014")]
    #[serde(rename = "2014")]
    Of2014,
    /// To asynchronous replicas only, as SQL Server 2016 and later
    #[value(name = "2016")]
    #[serde(rename = "2016")]
    Of2016,
    /// As 2016, with trace flag 9592
    #[value(name = "2016-9592")]
    #[serde(rename = "2016-9592")]
    Of2016With9592,
    /// Daruma's own: each block when that is faster
    #[value(name = "automatic")]
    #[serde(rename = "automatic")]
    Automatic,
}

impl Variant {
    /// In the article's order, Daruma's own last.
    pub const ALL: [Variant; 4] = [
        Variant::Of2014,
        Variant::Of2016,
        Variant::Of2016With9592,
        Variant::Automatic,
    ];

    /// In tables and charts.
    pub const fn title(self) -> &'static str {
        match self {
            Variant::Of2014 => "2014: always",
            Variant::Of2016 => "2016: asynchronous only",
            Variant::Of2016With9592 => "2016 with 9592",
            Variant::Automatic => "automatic",
        }
    }

    /// Arguments of the primary's `daruma serve`.
    const fn arguments(self) -> &'static [&'static str] {
        match self {
            Variant::Of2014 => &["--log-compression", "2014"],
            Variant::Of2016 => &["--log-compression", "2016"],
            Variant::Of2016With9592 => &["--log-compression", "2016", "-T", "9592"],
            Variant::Automatic => &["--log-compression", "automatic"],
        }
    }
}

/// What is between the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
pub enum Link {
    /// This machine's own
    #[value(name = "loopback")]
    #[serde(rename = "loopback")]
    Loopback,
    /// 1 Gbit/s, round trip of 0.2 ms
    #[value(name = "1gbit")]
    #[serde(rename = "1gbit")]
    Gigabit,
    /// 100 Mbit/s, round trip of 5 ms
    #[value(name = "100mbit")]
    #[serde(rename = "100mbit")]
    Fast,
    /// 20 Mbit/s, round trip of 40 ms
    #[value(name = "20mbit")]
    #[serde(rename = "20mbit")]
    Wide,
}

impl Link {
    const ALL: [Link; 4] = [Link::Loopback, Link::Gigabit, Link::Fast, Link::Wide];

    /// In headings.
    pub const fn title(self) -> &'static str {
        match self {
            Link::Loopback => "loopback",
            Link::Gigabit => "1 Gbit/s, 0.2 ms",
            Link::Fast => "100 Mbit/s, 5 ms",
            Link::Wide => "20 Mbit/s, 40 ms",
        }
    }

    /// What a relay does to be such a link; `None` needs none.
    pub const fn model(self) -> Option<Model> {
        let (mbit_per_s, delay_us) = match self {
            Link::Loopback => return None,
            Link::Gigabit => (1_000.0, 100),
            Link::Fast => (100.0, 2_500),
            Link::Wide => (20.0, 20_000),
        };
        Some(Model {
            bytes_per_s: mbit_per_s * 1e6 / 8.0,
            delay: Duration::from_micros(delay_us),
        })
    }
}

impl ReplicationArgs {
    fn rows(&self) -> u64 {
        let quick = if self.options.quick {
            10_000
        } else {
            1_000_000
        };
        self.rows.unwrap_or(quick)
    }

    fn loops(&self) -> u64 {
        let quick = if self.options.quick { 1 } else { 3 };
        self.loops.unwrap_or(quick)
    }

    fn links(&self) -> &[Link] {
        match (self.links.is_empty(), self.options.quick) {
            (false, _) => &self.links,
            (true, true) => &[Link::Loopback, Link::Fast],
            (true, false) => &Link::ALL,
        }
    }

    fn limit(&self) -> Duration {
        let quick = if self.options.quick { 2 } else { 60 };
        Duration::from_secs(self.limit.unwrap_or(quick))
    }
}

/// Starts two servers, runs the shapes in each variant over each link, then readers and failovers, and writes the report.
pub fn run(args: &ReplicationArgs) -> Result<Ending, LabError> {
    if args.options.connect.server.is_some() && !args.options.private {
        return Err(LabError::OwnServersOnly);
    }
    let report = Report {
        experiment: "replication".into(),
        title: "Synchronous commit and the compression of the log stream".into(),
        lead: "What does a commit that waits for the secondary's disk cost beside one that does not, and when does it pay to compress the \
               log on its way?"
            .into(),
        source: published::source(),
        ..Report::default()
    };
    let arguments = pair::arguments(pair::PRIMARY, Variant::Automatic);
    let mut lab = Lab::start_with(&args.options, report, arguments)?;
    let outcome = steps(&mut lab, args);
    lab.finish(outcome)
}

fn steps(lab: &mut Lab, args: &ReplicationArgs) -> Result<(), LabError> {
    let mut pair = Pair::start(lab)?;
    pair.create_groups(lab, args.rows())?;
    let shapes = shapes::all(args.rows(), &args.inserts);
    for link in args.links() {
        pair.set_link(lab, *link)?;
        let mut results = Vec::new();
        for variant in &args.variants {
            pair.restart_primary(lab, *variant)?;
            let measured = shapes::measure_all(lab, &pair, args, (*link, *variant), &shapes)?;
            results.push((*variant, measured));
        }
        tables::publish(lab, *link, &results);
    }
    pair.set_link(lab, Link::Loopback)?;
    pair.restart_primary(lab, Variant::Automatic)?;
    sessions::run(lab, &pair)?;
    beyond::run(lab, &mut pair, args)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_bytes_each_second_and_half_a_round_trip() {
        assert_eq!(Link::Loopback.model(), None);
        let wide = Link::Wide.model().expect("a relay");
        assert!((wide.bytes_per_s - 2.5e6).abs() < 1.0);
        assert_eq!(wide.delay, Duration::from_millis(20));
    }
}
