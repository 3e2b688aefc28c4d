//! What the servers of a group tell each other of it: the definition, and whose reign it is.
//!
//! A definition is text of the catalog's own form, which another server of the group sent; what it says of this server is checked
//! before it counts. Bounded by the transport.

use super::reign::Reign;
use daruma_catalog::{GroupDef, names_equal};
use daruma_group::commit::REPLICAS_MAX;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Databases of a group.
const DATABASES_MAX: usize = 100;

/// A group as its primary sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Definition {
    pub group: GroupDef,
    pub reign: Reign,
}

impl Definition {
    /// As bytes. `None`: it is longer than a message may be.
    pub(super) fn encode(&self) -> Option<Arc<[u8]>> {
        let bytes = serde_json::to_vec(self).ok()?;
        (bytes.len() <= daruma_group::wire::DEFINITION_BYTES_MAX).then(|| Arc::from(bytes))
    }

    /// Reads one. `None`: it cannot be a group's.
    pub(super) fn decode(bytes: &[u8]) -> Option<Definition> {
        let definition: Definition = serde_json::from_slice(bytes).ok()?;
        let GroupDef {
            replicas,
            databases,
            ..
        } = &definition.group;
        let is_bounded = replicas.len() <= usize::from(REPLICAS_MAX)
            && databases.len() <= DATABASES_MAX
            && replicas.iter().all(|r| r.number < REPLICAS_MAX);
        let is_once = |at: usize| {
            let (before, rest) = replicas.split_at(at);
            rest.first().is_some_and(|r| {
                before
                    .iter()
                    .all(|b| b.number != r.number && !names_equal(&b.server, &r.server))
            })
        };
        let holds = is_bounded && (0..replicas.len()).all(is_once);
        holds.then_some(definition)
    }
}
