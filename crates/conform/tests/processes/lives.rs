//! Restarts, pauses, signals, too few peers, a full disk.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::check::same_and_exact;
use super::swarm::{Ended, NAMES, Swarm, files};
use flyswarm::session::Faults;

/// Returns the only line that a failed run prints.
pub fn one_line(ended: &Ended) -> &str {
    let text = ended.errors.strip_suffix('\n').unwrap_or(&ended.errors);
    assert!(text.starts_with("flyswarm: ") && !text.contains('\n'), "not one line: {ended:?}");
    text
}

pub fn succeeded(ended: &Ended) {
    assert_eq!((ended.code, &*ended.errors), (Some(0), ""));
}

#[test]
fn restarted_peers_are_given_the_committed_result() {
    let mut swarm = Swarm::new(5, |session| session.timing.linger_ms = 40_000);
    let tree = swarm.first_tree();
    let (early, late) = (tree[3], tree[4]);
    for i in 0..5 {
        if i == early { swarm.start(i, &["--hold-at", "counts.compute"]) } else { swarm.start(i, &[]) }
    }
    swarm.wait(&format!("{} held", NAMES[early]), |told| (told.value["event"] == "held").then_some(()));
    swarm.signal(early, "KILL");
    swarm.wait_end(early);
    let others: Vec<_> = (0..5).filter(|&i| i != early).collect();
    swarm.wait_all(&others, "finished");
    // While the others linger for `early`, one of them is killed. Its state has the result, and its
    // model is written.
    swarm.signal(late, "KILL");
    swarm.wait_end(late);
    std::fs::remove_file(swarm.file(late, "model")).expect("the model was there");
    swarm.start(late, &[]);
    swarm.wait_event(late, "finished");
    // A second process of the same identity is refused.
    let mut second = swarm.command(late);
    let output = second.stdin(Stdio::null()).output().expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let ended = Ended { code: output.status.code(), signal: None, errors };
    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert!(one_line(&ended).ends_with("another process runs this session with this identity"), "{ended:?}");
    swarm.start(early, &[]);
    for i in 0..5 {
        succeeded(&swarm.wait_end(i));
    }
    let counted = same_and_exact(&swarm, &[0, 1, 2, 3, 4]);
    assert_eq!(counted.len(), 4);
    // The victim's rows are in the sums before its loss. This is its last event.
    let sentence = |i: usize| swarm.told(i, "own-rows").pop().expect("told")["text"].clone();
    assert_eq!(sentence(early), "your rows are in holders, moments; not in the later ones");
    assert!(sentence(late).as_str().expect("text").starts_with("your rows are in all sums"));
    for i in [early, late] {
        assert_eq!(swarm.receipt(i)["own_rows"]["text"], sentence(i));
        let finished = swarm.told(i, "finished").pop().expect("told");
        assert_eq!(finished["own_rows"]["text"], sentence(i));
    }
}

#[test]
fn a_peer_that_comes_back_in_time_is_counted() {
    // Three are left, and the session needs four: they wait until one peer returns.
    let mut swarm = Swarm::new(5, |session| {
        session.min_peers = 4;
        session.timing.no_quorum_timeout_ms = 40_000;
    });
    let tree = swarm.first_tree();
    let victims = [tree[1], tree[4]];
    for i in 0..5 {
        if victims.contains(&i) { swarm.start(i, &["--hold-at", "moments.sum"]) } else { swarm.start(i, &[]) }
    }
    swarm.wait_all(&victims, "held");
    for i in victims {
        swarm.signal(i, "KILL");
        swarm.wait_end(i);
    }
    swarm.start(victims[0], &[]);
    let others: Vec<_> = (0..5).filter(|i| *i != victims[1]).collect();
    for &i in &others {
        succeeded(&swarm.wait_end(i));
    }
    let counted = same_and_exact(&swarm, &others);
    assert!(counted.iter().any(|name| name == NAMES[victims[0]]), "{counted:?}");
}

#[test]
fn below_min_peers_the_rest_end_with_one_line_that_names_the_missing() {
    let mut swarm = Swarm::new(5, |session| session.voting.faults = Some(Faults::Crash));
    let tree = swarm.first_tree();
    let (victims, rest) = ([tree[1], tree[2], tree[3]], [tree[0], tree[4]]);
    for i in 0..5 {
        if victims.contains(&i) {
            // A peer that is held before it computes has not forwarded the order yet.
            swarm.start(i, &["--hold-at", "counts.sum"])
        } else {
            swarm.start(i, &[])
        }
    }
    swarm.wait_all(&victims, "held");
    for i in victims {
        swarm.signal(i, "KILL");
        swarm.wait_end(i);
    }
    for i in rest {
        let ended = swarm.wait_end(i);
        assert_eq!(ended.code, Some(3), "{ended:?}");
        let line = one_line(&ended);
        assert!(line.contains("only 2 of 5 peers are reachable") && line.contains("needs 3"), "{line}");
        for missing in victims {
            assert!(line.contains(NAMES[missing]), "{line}");
        }
        assert!(!swarm.file(i, "model").exists() && !swarm.file(i, "receipt.json").exists());
        assert_eq!(swarm.told(i, "error").len(), 1);
    }
}

#[test]
fn a_short_pause_does_not_hurt() {
    let mut swarm = Swarm::new(5, |session| session.timing.view_timeout_ms = 20_000);
    let paused = swarm.first_tree()[1];
    swarm.start_all();
    // From the first sum on, all peers are in the view. Before that, a peer that the view has not
    // reached yet would propose another one.
    swarm.wait("the first sum", |told| {
        (told.peer == paused && told.value["stage"] == "compute").then_some(())
    });
    swarm.signal(paused, "STOP");
    std::thread::sleep(Duration::from_secs(3));
    swarm.signal(paused, "CONT");
    for i in 0..5 {
        succeeded(&swarm.wait_end(i));
        assert_eq!(swarm.receipt(i)["views"], 1);
    }
    assert_eq!(same_and_exact(&swarm, &[0, 1, 2, 3, 4]).len(), 5);
}

#[test]
fn two_that_sleep_longer_than_every_time_out_are_given_the_result_when_they_wake() {
    let mut swarm = Swarm::new(5, |session| {
        session.timing.linger_ms = 60_000;
        session.voting.faults = Some(Faults::Crash);
    });
    let tree = swarm.first_tree();
    let (held, sleeper) = (tree[3], tree[2]);
    for i in 0..5 {
        if i == held { swarm.start(i, &["--hold-at", "counts.compute"]) } else { swarm.start(i, &[]) }
    }
    swarm.wait(&format!("{} held", NAMES[held]), |told| (told.value["event"] == "held").then_some(()));
    // To its view, the held peer already seems to be asleep. When stopped, its transport is silent too.
    swarm.signal(sleeper, "STOP");
    swarm.signal(held, "STOP");
    let others: Vec<_> = (0..5).filter(|i| ![held, sleeper].contains(i)).collect();
    swarm.wait_all(&others, "finished");
    swarm.signal(sleeper, "CONT");
    swarm.wait_event(sleeper, "finished");
    swarm.signal(held, "KILL");
    swarm.wait_end(held);
    swarm.start(held, &[]);
    for i in 0..5 {
        succeeded(&swarm.wait_end(i));
    }
    assert_eq!(same_and_exact(&swarm, &[0, 1, 2, 3, 4]).len(), 3);
}

#[test]
fn a_peer_that_is_told_to_leave_says_so_and_the_rest_end() {
    let mut swarm = Swarm::new(5, |_| {});
    let leaver = swarm.first_tree()[1];
    for i in 0..5 {
        if i == leaver { swarm.start(i, &["--hold-at", "counts.sum"]) } else { swarm.start(i, &[]) }
    }
    swarm.wait_event(leaver, "held");
    swarm.signal(leaver, "TERM");
    let ended = swarm.wait_end(leaver);
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert_eq!(one_line(&ended), "flyswarm: interrupted: left the session before it was finished");
    assert!(!swarm.file(leaver, "model").exists());
    let others: Vec<_> = (0..5).filter(|&i| i != leaver).collect();
    for &i in &others {
        succeeded(&swarm.wait_end(i));
    }
    assert_eq!(same_and_exact(&swarm, &others).len(), 4);
}

#[test]
fn ctrl_c_while_waiting_for_peers_ends_at_once_and_while_lingering_ends_well() {
    let mut swarm = Swarm::new(3, |session| {
        session.timing.start_wait_ms = 60_000;
        session.timing.linger_ms = 60_000;
    });
    swarm.start(0, &[]);
    swarm.wait_event(0, "listening");
    swarm.signal(0, "INT");
    let ended = swarm.wait_end(0);
    assert_eq!(ended.code, Some(130), "{ended:?}");
    one_line(&ended);
    let held = swarm.first_tree()[2];
    for i in 0..3 {
        if i == held { swarm.start(i, &["--hold-at", "counts.open"]) } else { swarm.start(i, &[]) }
    }
    let others: Vec<_> = (0..3).filter(|&i| i != held).collect();
    swarm.wait_all(&others, "finished");
    swarm.signal(held, "KILL");
    for &i in &others {
        swarm.signal(i, "INT");
        succeeded(&swarm.wait_end(i));
    }
    assert_eq!(same_and_exact(&swarm, &others).len(), 3);
}

/// A very small file system; unmounted when dropped.
struct Tiny<'a>(&'a Path);

impl<'a> Tiny<'a> {
    fn mount(path: &'a Path, kilobytes: u32) -> Option<Self> {
        std::fs::create_dir_all(path).expect("a folder");
        let size = format!("size={kilobytes}k");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(path).output();
        mounted.is_ok_and(|output| output.status.success()).then_some(Self(path))
    }
}

impl Drop for Tiny<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_is_told_in_one_line_and_leaves_nothing_half_written() {
    for (what, kilobytes) in [("state", 48), ("out", 16)] {
        let mut swarm = Swarm::new(5, |_| {});
        let place = swarm.folder.path().join("tiny");
        let Some(_tiny) = Tiny::mount(&place, kilobytes) else {
            let test = "a_full_disk_is_told_in_one_line_and_leaves_nothing_half_written";
            crate::skipped(test, "no right to mount a tmpfs");
            return;
        };
        let full = swarm.first_tree()[1];
        for i in 0..5 {
            let mut command = swarm.command(i);
            if i == full {
                let path = if what == "state" { place.clone() } else { place.join("erin.model") };
                command = Command::new(super::swarm::PROGRAM);
                swarm.arguments_with(&mut command, i, what, &path);
            }
            swarm.start_command(i, command);
        }
        let ended = swarm.wait_end(full);
        assert_eq!(ended.code, Some(4), "{what}: {ended:?}");
        let line = one_line(&ended);
        assert!(line.contains("No space left on device") && line.contains("tiny"), "{line}");
        assert!(!swarm.file(full, "model").exists() && !swarm.file(full, "receipt.json").exists());
        for file in files(&place) {
            let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            assert!(what == "state" && !name.starts_with('.'), "left behind: {}", file.display());
        }
        let others: Vec<_> = (0..5).filter(|&i| i != full).collect();
        for &i in &others {
            succeeded(&swarm.wait_end(i));
        }
        // Its part was already in the sum when it could not acknowledge. The others decide whether that
        // sum is committed.
        let counted = same_and_exact(&swarm, &others);
        assert!(counted.len() == 5 || what == "state", "{counted:?}");
    }
}

/// Returns every file below a folder.
fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { below(&path) } else { vec![path] }).collect()
}

#[test]
fn after_the_session_no_pad_total_or_outcome_is_on_the_disk_and_its_state_is_not_taken_up_again() {
    let mut swarm = Swarm::new(5, |session| session.timing.linger_ms = 40_000);
    let held = swarm.first_tree()[3];
    for i in 0..5 {
        if i == held { swarm.start(i, &["--hold-at", "counts.compute"]) } else { swarm.start(i, &[]) }
    }
    swarm.wait(&format!("{} held", NAMES[held]), |told| (told.value["event"] == "held").then_some(()));
    swarm.signal(held, "KILL");
    swarm.wait_end(held);
    let others: Vec<_> = (0..5).filter(|&i| i != held).collect();
    swarm.wait_all(&others, "finished");
    // The files that are kept while the peers linger, with a piece of each that is in no other file.
    let secret = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        ["total-", "committed-", "drawn-", "kept-", "outcome-", "accepted"]
            .iter()
            .any(|kind| name.starts_with(kind))
    };
    let kept = below(&swarm.folder.path().join("state"));
    let pieces: Vec<(PathBuf, Vec<u8>)> = kept
        .into_iter()
        .filter(secret)
        .filter_map(|path| {
            let bytes = std::fs::read(&path).expect("readable");
            let piece = bytes.last_chunk::<32>()?.to_vec();
            piece.iter().any(|&byte| byte != 0).then_some((path, piece))
        })
        .collect();
    let names = |kind: &str| pieces.iter().filter(|(path, _)| path.to_string_lossy().contains(kind)).count();
    assert!(names("/total-") >= 4 && names("/committed-") >= 8, "{pieces:?}");
    swarm.start(held, &[]);
    for i in 0..5 {
        succeeded(&swarm.wait_end(i));
    }
    for path in below(swarm.folder.path()) {
        let bytes = std::fs::read(&path).expect("readable");
        for (was, piece) in &pieces {
            let found = bytes.windows(piece.len()).any(|window| window == piece);
            assert!(!found, "{} holds what was in {}", path.display(), was.display());
        }
    }
    // If this peer joins again, it reports that it has finished, and changes nothing.
    let model = std::fs::read(swarm.file(others[0], "model")).expect("a model");
    swarm.start(others[0], &[]);
    let ended = swarm.wait_end(others[0]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(one_line(&ended).contains("this peer has finished the session"), "{ended:?}");
    assert_eq!(std::fs::read(swarm.file(others[0], "model")).expect("a model"), model);
}
