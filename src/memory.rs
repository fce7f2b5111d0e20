//! Finds out how much memory is left for this process.

use std::path::{Path, PathBuf};

/// Returns the number of bytes that the system reports as available or, if it is less, the number that the
/// control groups of this process still allow. Returns `None` if the system reports neither.
pub(crate) fn available() -> Option<u64> {
    available_in(Path::new("/"))
}

fn available_in(root: &Path) -> Option<u64> {
    let read = |path: &Path| std::fs::read_to_string(root.join(path)).ok();
    let number = |path: PathBuf| read(&path)?.trim().parse::<u64>().ok();
    let system = read(Path::new("proc/meminfo")).and_then(|text| entry(&text, "MemAvailable:"));
    let mut least = system.map(|kilobytes| kilobytes.saturating_mul(1024));
    let groups = read(Path::new("proc/self/cgroup")).unwrap_or_default();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else { continue };
        // In version 2 of control groups, the list of controllers is empty.
        let [folder, limit, used, cache] = match controllers {
            "" => ["sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"],
            _ if controllers.split(',').any(|name| name == "memory") => [
                "sys/fs/cgroup/memory",
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
                "total_inactive_file",
            ],
            _ => continue,
        };
        // Inside a container, the path of the group itself may be missing. The limits of the groups above it
        // apply too.
        for group in Path::new(group.trim_start_matches('/')).ancestors() {
            let folder = Path::new(folder).join(group);
            let Some(limit) = number(folder.join(limit)) else { continue };
            let used = number(folder.join(used)).unwrap_or(0);
            // Cached files are subtracted, because the system can drop them.
            let cache = read(&folder.join("memory.stat")).and_then(|text| entry(&text, cache)).unwrap_or(0);
            let left = limit.saturating_sub(used.saturating_sub(cache));
            least = Some(least.map_or(left, |least| least.min(left)));
        }
    }
    least
}

/// Returns the number after a name at the start of a line.
fn entry(text: &str, name: &str) -> Option<u64> {
    let lines = text.lines().map(str::split_whitespace);
    lines.filter_map(|mut words| (words.next()? == name).then(|| words.next()?.parse().ok())?).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_what_system_and_control_groups_leave_is_available() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let found = || available_in(folder.path());
        assert_eq!(found(), None);
        write("proc/meminfo", "MemTotal:       24684528 kB\nMemAvailable:    1000000 kB\n");
        assert_eq!(found(), Some(1_024_000_000));
        // In version 2: a group without a limit is inside a group with a limit.
        write("proc/self/cgroup", "0::/user/job\n");
        write("sys/fs/cgroup/user/job/memory.max", "max\n");
        write("sys/fs/cgroup/user/memory.max", "900000000\n");
        assert_eq!(found(), Some(900_000_000));
        write("sys/fs/cgroup/user/memory.current", "500000000\n");
        assert_eq!(found(), Some(400_000_000));
        write("sys/fs/cgroup/user/memory.stat", "anon 1\ninactive_file 100000000\n");
        assert_eq!(found(), Some(500_000_000));
        // In version 1: the container does not show its own path.
        write("proc/self/cgroup", "5:cpu:/x\n4:memory,other:/docker/abc\n");
        write("sys/fs/cgroup/memory/memory.limit_in_bytes", "300000000\n");
        write("sys/fs/cgroup/memory/memory.usage_in_bytes", "100000000\n");
        assert_eq!(found(), Some(200_000_000));
    }
}
