//! Restricts the files that the engine can open: its own folder, and what a program reads of its system.
//!
//! ClickHouse's grants do not cover the function `file()` in a local session, so the kernel does (Landlock). Needs
//! Linux 5.19, the first whose rules allow renaming between folders. Otherwise the engine runs unconfined.

use std::path::Path;

/// Processes, memory and control groups, time zones, and libraries that the C library loads late. None of it is secret;
/// `/proc/self` is the child itself, whose environment is cleared.
#[cfg(target_os = "linux")]
const READABLE: &[&str] = &[
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys",
    "/proc/uptime",
    "/sys/devices/system",
    "/sys/fs/cgroup",
    "/dev/null",
    "/dev/urandom",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/usr/share/zoneinfo",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
];

/// Confines this thread and its future threads. Call it with the library loaded and before it starts threads.
#[cfg(target_os = "linux")]
pub(super) fn to(folder: &Path, library: &Path) {
    // A kernel without Landlock is no reason not to start.
    let _ = confine(folder, library);
}

#[cfg(not(target_os = "linux"))]
pub(super) fn to(_folder: &Path, _library: &Path) {}

#[cfg(target_os = "linux")]
fn confine(folder: &Path, library: &Path) -> Result<(), landlock::RulesetError> {
    use landlock::{
        ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
        path_beneath_rules,
    };
    // Tables may be on another disk, behind a link.
    let own = [
        folder.to_owned(),
        folder.join("data"),
        folder.join("data/store"),
    ];
    let readable = READABLE.iter().map(Path::new).chain([library]);
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V2))?
        .create()?
        .set_compatibility(CompatLevel::BestEffort)
        .add_rules(path_beneath_rules(readable, AccessFs::from_read(ABI::V2)))?
        .add_rules(path_beneath_rules(own, AccessFs::from_all(ABI::V2)))?
        .restrict_self()?;
    Ok(())
}
