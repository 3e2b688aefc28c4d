//! Options behind WITH, and the second argument.

use crate::error::Result;
use crate::messages;
use crate::session::SystemCall;

#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub command: &'static str,
    pub no_infomsgs: bool,
    pub all_errormsgs: bool,
    pub all_constraints: bool,
    pub physical_only: bool,
    pub tableresults: bool,
    pub estimate_only: bool,
    /// Nonclustered indexes are left out.
    pub no_index: bool,
}

/// Accepted because they change nothing here: a check always reads a snapshot, looks at every value, and is one thread.
const WITHOUT_EFFECT: [&str; 4] = [
    "TABLOCK",
    "DATA_PURITY",
    "EXTENDED_LOGICAL_CHECKS",
    "MAXDOP",
];

impl Options {
    /// `how` is NOINDEX, or one of the repairs, which are refused.
    pub fn new(
        call: &SystemCall<'_, '_>,
        command: &'static str,
        how: Option<String>,
    ) -> Result<Options> {
        let has = |name: &str| call.options.iter().any(|o| o.is(name));
        let options = Options {
            command,
            no_infomsgs: has("NO_INFOMSGS"),
            all_errormsgs: has("ALL_ERRORMSGS"),
            all_constraints: has("ALL_CONSTRAINTS"),
            physical_only: has("PHYSICAL_ONLY"),
            tableresults: has("TABLERESULTS"),
            estimate_only: has("ESTIMATEONLY"),
            no_index: match how.as_deref() {
                None => false,
                Some(word) if word.eq_ignore_ascii_case("NOINDEX") => true,
                Some(word) => return Err(refused(command, word)),
            },
        };
        match call.options.iter().all(|o| is_known(&o.name)) {
            true => Ok(options),
            false => Err(messages::error(2526, &[])),
        }
    }

    /// Errors told of one object.
    pub fn errors_max(&self) -> u64 {
        if self.all_errormsgs { u64::MAX } else { 200 }
    }
}

fn is_known(name: &str) -> bool {
    let known = [
        "NO_INFOMSGS",
        "ALL_ERRORMSGS",
        "ALL_CONSTRAINTS",
        "PHYSICAL_ONLY",
        "TABLERESULTS",
        "ESTIMATEONLY",
    ];
    let mut all = known.iter().chain(&WITHOUT_EFFECT);
    all.any(|k| k.eq_ignore_ascii_case(name))
}

/// Pages are not repaired by throwing away what is on them.
fn refused(command: &str, word: &str) -> crate::error::SqlError {
    let repairs = ["REPAIR_ALLOW_DATA_LOSS", "REPAIR_FAST", "REPAIR_REBUILD"];
    match repairs.iter().any(|r| r.eq_ignore_ascii_case(word)) {
        true => messages::not_supported(&format!("DBCC {command} with {}", word.to_uppercase())),
        false => messages::error(2526, &[]),
    }
}
