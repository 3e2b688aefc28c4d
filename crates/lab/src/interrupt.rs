//! Ctrl-C: the first one asks a run to end in good order, the second one ends the program.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag as signal_flag;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Set once the user wants an end. The first call makes Ctrl-C set it.
pub fn flag() -> Arc<AtomicBool> {
    FLAG.get_or_init(|| {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // Order matters: the first signal finds the flag unset, sets it, and the second one ends the program.
            // Where a handler cannot be set, the signal ends the program at once, as it always did.
            let _ = signal_flag::register_conditional_shutdown(signal, 130, flag.clone());
            let _ = signal_flag::register(signal, flag.clone());
        }
        flag
    })
    .clone()
}
