//! Which replica is the primary of a group, and what an administrator wants to rest: a file for each group.
//!
//! Theory: databases have judges and epochs of their own, which see to it that nothing is lost. A reign is what a group as a whole
//! says of itself: whose definition counts, and as what a server presents itself. Numbers order reigns as they order epochs; a forced
//! failover jumps, so that it counts whatever the other side did meanwhile.
//!
//! The file is written beside the old one, synced and renamed over it: a crash leaves the one or the other.

use daruma_base::{Disk, OpenMode};
use daruma_group::commit::{Replicas, Vote, Word};
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file is never longer.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// A forced failover raises the number by so much.
const FORCED_STEP: u64 = 1 << 16;

/// The time of one primary. The order is that in which they count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Reign {
    pub number: u64,
    /// Drawn at random.
    pub id: [u8; 16],
    /// The primary's place in the group.
    pub primary: u8,
}

impl Reign {
    /// The next one, of another primary.
    pub(super) fn next(self, id: [u8; 16], primary: u8, forced: bool) -> Reign {
        let step = if forced { FORCED_STEP } else { 1 };
        Reign {
            number: self.number.saturating_add(step),
            id,
            primary,
        }
    }

    /// The same, with this number if its own is lower.
    pub(super) fn at_least(self, number: u64) -> Reign {
        Reign {
            number: self.number.max(number),
            ..self
        }
    }
}

/// What a reign, and the epochs of its databases' logs, may be numbered, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbers {
    pub least: u64,
    pub most: u64,
}

impl Numbers {
    pub(super) const ANY: Numbers = Numbers {
        least: 0,
        most: u64::MAX,
    };
}

/// A failover to this server that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Failover {
    /// It counts where a judge has granted it.
    Planned,
    /// It counts: the reign is this server's.
    Forced,
}

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kept {
    pub reign: Reign,
    /// Databases (`group_database_id`) whose data movement rests.
    pub suspended: Vec<[u8; 16]>,
    /// Databases that become the primary's page by page: their files are none until that is done.
    #[serde(default)]
    pub reverting: Vec<[u8; 16]>,
    /// Not completed yet.
    #[serde(default)]
    pub failover: Option<Failover>,
    /// The primary has said that this server is no replica of the group any more.
    #[serde(default)]
    pub is_removed: bool,
    /// The reign of this server's own that an administrator has ended, while no other has begun: it leads nothing.
    #[serde(default)]
    pub resigned: Option<[u8; 16]>,
    /// What this server has voted last (CLUSTER_TYPE = EXTERNAL).
    #[serde(default)]
    pub vote: Option<KeptVote>,
}

/// A vote as the file has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KeptVote {
    promised: u64,
    epoch: u64,
    said: u64,
    replicas: u16,
}

impl From<Vote> for KeptVote {
    fn from(vote: Vote) -> KeptVote {
        KeptVote {
            promised: vote.promised,
            epoch: vote.word.epoch,
            said: vote.word.said,
            replicas: vote.word.replicas.bits(),
        }
    }
}

impl From<KeptVote> for Vote {
    fn from(kept: KeptVote) -> Vote {
        Vote {
            promised: kept.promised,
            word: Word {
                epoch: kept.epoch,
                said: kept.said,
                // Bits that stand for no replica list nobody.
                replicas: Replicas::from_bits(kept.replicas).unwrap_or(Replicas::NONE),
            },
        }
    }
}

impl Kept {
    /// A failover to the replica `me` begins, which gives up what it lacks. `false`: a later reign has begun elsewhere, and it does not.
    pub(super) fn begin_forced(&mut self, id: [u8; 16], me: u8, numbers: Numbers) -> bool {
        let reign = self.reign.next(id, me, true).at_least(numbers.least);
        let is_last = reign.number <= numbers.most;
        if is_last {
            self.reign = reign;
            self.failover = Some(Failover::Forced);
        }
        is_last
    }

    /// Is the replica of this number the primary?
    pub(super) fn leads(&self, number: u8) -> bool {
        self.reign.primary == number && self.resigned != Some(self.reign.id)
    }
}

/// The file of one group.
pub(super) struct KeptFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    kept: Kept,
}

impl KeptFile {
    /// Makes the file of a group that begins here.
    pub(super) fn create(
        disk: &Arc<dyn Disk>,
        path: &Path,
        reign: Reign,
        vote: Option<KeptVote>,
    ) -> io::Result<KeptFile> {
        let kept = Kept {
            reign,
            suspended: Vec::new(),
            reverting: Vec::new(),
            failover: None,
            is_removed: false,
            resigned: None,
            vote,
        };
        let mut file = KeptFile {
            disk: disk.clone(),
            path: path.to_path_buf(),
            kept: kept.clone(),
        };
        file.store(kept)?;
        Ok(file)
    }

    /// Reads the file of a group that was here before. `None`: there is none.
    pub(super) fn open(disk: &Arc<dyn Disk>, path: &Path) -> io::Result<Option<KeptFile>> {
        let file = match disk.open(path, OpenMode::ReadOnly) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        let length = file.len()?;
        if length > FILE_BYTES_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        file.read_at(&mut bytes, 0)?;
        let kept = serde_json::from_slice(&bytes)?;
        Ok(Some(KeptFile {
            disk: disk.clone(),
            path: path.to_path_buf(),
            kept,
        }))
    }

    /// What it says.
    pub(super) fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Changes what it says; durable when this returns.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut Kept)) -> io::Result<()> {
        let mut kept = self.kept.clone();
        change(&mut kept);
        match kept == self.kept {
            true => Ok(()),
            false => self.store(kept),
        }
    }

    fn store(&mut self, kept: Kept) -> io::Result<()> {
        let bytes = serde_json::to_vec(&kept)?;
        let mut beside = self.path.clone().into_os_string();
        beside.push(".new");
        let beside = PathBuf::from(beside);
        match self.disk.remove(&beside) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let file = self.disk.open(&beside, OpenMode::CreateNew)?;
        file.write_at(&bytes, 0)?;
        file.sync_data()?;
        drop(file);
        self.disk.rename(&beside, &self.path)?;
        self.disk
            .sync_dir(self.path.parent().unwrap_or(Path::new(".")))?;
        self.kept = kept;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vote_comes_back_as_it_was() {
        let vote = Vote {
            promised: 50,
            word: Word {
                epoch: 33,
                said: 7,
                replicas: Replicas::from_bits(0b101).expect("replicas"),
            },
        };
        let text = serde_json::to_string(&KeptVote::from(vote)).expect("JSON");
        let kept: KeptVote = serde_json::from_str(&text).expect("the same");
        assert_eq!(Vote::from(kept), vote);
    }

    fn kept(reign: Reign) -> Kept {
        Kept {
            reign,
            suspended: Vec::new(),
            reverting: Vec::new(),
            failover: None,
            is_removed: false,
            resigned: None,
            vote: None,
        }
    }

    #[test]
    fn who_was_left_behind_begins_no_reign_above_the_later_one() {
        let later = Reign {
            number: 3 << 32,
            id: [9; 16],
            primary: 1,
        };
        let numbers = |epoch: u64| Numbers {
            least: epoch << 32,
            most: (epoch << 32) + u64::from(u32::MAX),
        };
        let mut known = kept(later);
        assert!(!known.begin_forced([1; 16], 0, numbers(2)));
        assert_eq!((known.reign, known.failover), (later, None));
        assert!(known.begin_forced([1; 16], 0, numbers(3)), "once more");
        assert!(known.begin_forced([1; 16], 0, numbers(4)));
        assert_eq!(known.reign.number, 4 << 32);
        assert_eq!(known.failover, Some(Failover::Forced));
    }

    #[test]
    fn a_forced_reign_counts_more_than_any_other_of_its_time() {
        let first = Reign {
            number: 1,
            id: [9; 16],
            primary: 0,
        };
        let planned = first.next([1; 16], 1, false);
        let forced = first.next([0; 16], 2, true);
        let later = (0..100).fold(planned, |reign, n| reign.next([n; 16], n % 2, false));
        assert!(first < planned && planned < later && later < forced);
    }
}
