//! Memory that there is, and memory that was freed, given back to the system.
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

/// Memory that this process can have, in bytes: the machine's, or less where its control groups (a container's, a service's) have a bound.
pub fn machine_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    let machine = info.totalram.saturating_mul(u64::from(info.mem_unit));
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let bound = bound_of(&groups, |file| std::fs::read_to_string(file).ok());
    bound.map_or(machine, |bound| bound.min(machine))
}

/// The least bound of the control groups in `/proc/self/cgroup`, and of those around them. A container may see its own group where the
/// root would be, under another name than the list has: so the root is asked as well.
fn bound_of(groups: &str, read: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let mut least = None;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else {
            continue;
        };
        let (root, name) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|c| c == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let mut group = group.trim_end_matches('/');
        loop {
            let bound = read(&format!("{root}{group}/{name}"));
            let bound = bound.and_then(|text| text.trim().parse::<u64>().ok());
            least = least.into_iter().chain(bound).min();
            match group.rsplit_once('/') {
                Some((around, _)) => group = around,
                None => break,
            }
        }
    }
    least
}

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
    fn the_least_bound_of_all_groups_counts() {
        let files = [
            ("/sys/fs/cgroup/memory.max", "max\n"),
            ("/sys/fs/cgroup/a/memory.max", "1000\n"),
            ("/sys/fs/cgroup/a/b/memory.max", "2000\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "3000\n"),
        ];
        let read = |path: &str| {
            let found = files.iter().find(|(name, _)| *name == path);
            found.map(|(_, text)| (*text).to_string())
        };
        let bound = |groups: &str| super::bound_of(groups, read);
        assert_eq!(bound("0::/a/b\n"), Some(1000));
        assert_eq!(bound("0::/\n"), None);
        assert_eq!(bound("3:cpu:/x\n4:cpuset,memory:/docker/c\n"), Some(3000));
        assert_eq!(bound("4:memory:/docker/c\n0::/a\n"), Some(1000));
        assert_eq!(bound(""), None);
        assert_eq!(bound("nonsense\n0:\n::\n"), None);
        assert!(super::machine_bytes() > 0);
    }

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
