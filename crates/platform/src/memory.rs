//! Memory that was freed, given back to the system.
//!
//! The allocator keeps what is freed for the next request. glibc gives back whole pages of it when it is told to
//! (`malloc_trim(3)`); what lies between blocks that are in use stays, less than a page for each. mimalloc, which programs for musl
//! have (`daruma_base::memory`), gives back what this thread and dead ones freed.

/// Gives back what the allocator can. Takes milliseconds for each 100 MB, during which others may wait for memory.
#[cfg(target_env = "gnu")]
pub fn give_back() {
    unsafe extern "C" {
        fn malloc_trim(pad: usize) -> i32;
    }
    // SAFETY: the function may be called at any time, from any thread, and changes no block that is in use.
    unsafe {
        malloc_trim(0);
    }
}

/// Gives back what the allocator can.
#[cfg(target_env = "musl")]
pub fn give_back() {
    // SAFETY: the function may be called at any time, from any thread, and changes no block that is in use.
    unsafe {
        libmimalloc_sys::mi_collect(true);
    }
}

/// Other allocators do it by themselves, or not at all.
#[cfg(not(any(target_env = "gnu", target_env = "musl")))]
pub fn give_back() {}

/// Memory of this process that is resident and no file's, in bytes; `None` where the system does not say.
pub fn resident_bytes() -> Option<i64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kilobytes: i64 = line.split_whitespace().next()?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(target_os = "linux")]
    fn memory_that_is_written_is_resident() {
        let before = super::resident_bytes().expect("told");
        let written = vec![1_u8; 64 << 20];
        let after = super::resident_bytes().expect("told");
        assert!(after - before >= 60 << 20, "{before} {after}");
        drop(written);
    }
}
