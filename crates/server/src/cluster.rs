//! The server as a node of a cluster.
//!
//! A server is a node if its folder says so (`daruma cluster create`, `join`), and one that cannot be what its folder says does not start: it
//! would be missed where it is counted on. What it decides of groups is followed in `hadr::owner`.

use crate::cloud::Clouds;
use crate::error::ServerError;
use daruma_cluster::{Cluster, ClusterOptions, Timing, WitnessKind, folder_in};
use daruma_object::ObjectDevices;
use daruma_tsql::instance::Instance;
use daruma_tsql::instance::hadr::{ClusterMemberKind, ClusterMemberSeen, ClusterSeen};
use std::sync::Arc;
use std::time::Duration;

/// A node that stops in order waits so long for the others to take its vote.
const LEAVE_WAIT: Duration = Duration::from_secs(3);

/// Starts the node, if the server is one.
pub(crate) fn start(
    instance: &Arc<Instance>,
    objects: &Arc<ObjectDevices>,
) -> Result<Option<Arc<Cluster>>, ServerError> {
    let folder = folder_in(instance.data_dir());
    let log = instance.clone();
    let options = ClusterOptions {
        env: instance.env().clone(),
        folder: folder.clone(),
        timing: Timing::default(),
        listen: None,
        cloud: Some(Arc::new(Clouds::new(instance, objects))),
        log: Arc::new(move |text| log.log.write("cluster", text)),
    };
    let cluster = Cluster::start(options)?;
    if cluster.is_some() {
        for file in ["register", "register.new", "identity", "left", "lock"] {
            instance.keep_file(&folder.join(file));
        }
    }
    Ok(cluster.map(Arc::new))
}

/// Ends the node; `in_order`: its vote goes first, if the others can take it.
pub(crate) fn stop(cluster: &Cluster, in_order: bool) {
    if in_order {
        cluster.leave(LEAVE_WAIT);
    }
    cluster.stop();
}

/// The cluster as views show it.
pub(crate) fn seen(cluster: &Cluster) -> Option<ClusterSeen> {
    let view = cluster.show()?;
    let nodes = view.nodes.into_iter().map(|n| ClusterMemberSeen {
        is_up: n.state == "Up",
        votes: n.dynamic_weight,
        name: n.name,
        kind: ClusterMemberKind::Node,
    });
    let witness = view.witness.map(|w| ClusterMemberSeen {
        is_up: w.state == "Online",
        votes: view.witness_dynamic_weight,
        kind: match w.kind {
            WitnessKind::Share => ClusterMemberKind::ShareWitness,
            WitnessKind::Disk => ClusterMemberKind::DiskWitness,
            WitnessKind::Cloud => ClusterMemberKind::CloudWitness,
        },
        name: w.path,
    });
    Some(ClusterSeen {
        name: view.name,
        quorum: view.quorum,
        members: nodes.chain(witness).collect(),
    })
}
