//! A follower hears of more than one primary.

use daruma_base::Lsn;
use daruma_group::commit::{
    Epoch, EpochId, Follower, FollowerInput, FollowerOutput, Fork, History, ReplicaId,
};

fn epoch(number: u64) -> EpochId {
    EpochId {
        number,
        id: u128::from(number) * 10,
    }
}

fn history(epochs: &[(u64, u64)]) -> History {
    let epochs = epochs.iter().map(|(number, start)| Epoch {
        name: epoch(*number),
        start: Lsn(*start),
    });
    History::new(epochs.collect()).expect("a history")
}

/// A primary that was frozen wakes, and tells of the epoch that it led.
#[test]
fn an_older_primary_is_deposed_and_the_present_one_followed_on() {
    let me = ReplicaId::new(2).expect("a replica");
    let before = history(&[(1, 0)]);
    let mut follower = Follower::new(me, epoch(1), before.clone(), Lsn(8), Lsn(8));
    follower.step(FollowerInput::Lead {
        epoch: epoch(2),
        history: history(&[(1, 0), (2, 8)]),
    });
    assert!(follower.is_following());
    let told = follower.step(FollowerInput::Lead {
        epoch: epoch(1),
        history: before,
    });
    let depose = FollowerOutput::Depose {
        promised: epoch(2),
        led: true,
    };
    assert_eq!(told, [depose]);
    assert!(follower.is_following(), "it knows better");
    let taken = follower.step(FollowerInput::Blocks {
        epoch: epoch(2),
        first: Lsn(8),
        end: Lsn(16),
        quorum: Lsn(8),
    });
    assert_eq!(taken, [FollowerOutput::Append]);
}

/// A primary that was restarted, and follows one that it knew nothing of, applies no more than what is acknowledged.
#[test]
fn a_former_primary_applies_only_what_is_acknowledged() {
    let me = ReplicaId::new(0).expect("a replica");
    let mut follower = Follower::new(me, epoch(1), history(&[(1, 0)]), Lsn(100), Lsn::MAX);
    // What it may have acknowledged is not given up.
    let outputs = follower.step(FollowerInput::Lead {
        epoch: epoch(2),
        history: history(&[(1, 0), (2, 60)]),
    });
    let parts = FollowerOutput::Rejoin(Fork::At(Lsn(60)));
    assert!(outputs.contains(&parts), "{outputs:?}");
    follower.step(FollowerInput::Lead {
        epoch: epoch(3),
        history: history(&[(1, 0), (3, 100)]),
    });
    assert!(follower.is_following());
    follower.step(FollowerInput::Blocks {
        epoch: epoch(3),
        first: Lsn(100),
        end: Lsn(150),
        quorum: Lsn(90),
    });
    follower.step(FollowerInput::Synced(Lsn(150)));
    assert_eq!(follower.may_apply(), Lsn(90));
}
