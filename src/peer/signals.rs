//! Ctrl-C, SIGTERM and the end of the terminal (SIGHUP) end a node cleanly.

use super::Handle;

/// Makes the peer leave cleanly on the first Ctrl-C, SIGTERM or SIGHUP of this process. A second Ctrl-C
/// or SIGTERM ends the process at once with exit code 130. A process that was started with SIGHUP
/// ignored, as by `nohup`, continues to ignore it.
pub fn leave_on_signals(handle: Handle) {
    // The signals are registered here and not in the thread, because a signal may come before the thread
    // begins.
    let Ok(mut signals) = Signals::new() else { return };
    std::thread::spawn(move || {
        loop {
            let signal = signals.next();
            // A closed terminal may send SIGHUP twice.
            if handle.leave() && signal == Signal::End {
                crate::tasks::end_programs();
                std::process::exit(130);
            }
        }
    });
}

/// Waits for the first Ctrl-C, SIGTERM or SIGHUP.
pub(crate) fn wait_for_signal() {
    match Signals::new() {
        Ok(mut signals) => drop(signals.next()),
        // If no handlers can be set, the system ends the process on a signal.
        Err(_) => loop {
            std::thread::park();
        },
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    /// Ctrl-C or SIGTERM.
    End,
    /// SIGHUP.
    Hangup,
}

/// The signals that ask a process to end.
struct Signals {
    runtime: tokio::runtime::Runtime,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    /// `None` if SIGHUP is ignored.
    #[cfg(unix)]
    hangup: Option<tokio::signal::unix::Signal>,
}

impl Signals {
    #[cfg(unix)]
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};

        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let inside = runtime.enter();
        let interrupt = signal(SignalKind::interrupt())?;
        let terminate = signal(SignalKind::terminate())?;
        let hangup = if ignores_hangup() { None } else { Some(signal(SignalKind::hangup())?) };
        drop(inside);
        Ok(Self { runtime, interrupt, terminate, hangup })
    }

    #[cfg(not(unix))]
    fn new() -> std::io::Result<Self> {
        Ok(Self { runtime: tokio::runtime::Builder::new_current_thread().enable_all().build()? })
    }

    fn next(&mut self) -> Signal {
        #[cfg(unix)]
        let Self { runtime, interrupt, terminate, hangup } = self;
        #[cfg(unix)]
        let hangup = async {
            match hangup {
                Some(hangup) => drop(hangup.recv().await),
                None => std::future::pending().await,
            }
        };
        #[cfg(unix)]
        return runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => Signal::End,
                _ = terminate.recv() => Signal::End,
                () = hangup => Signal::Hangup,
            }
        });
        #[cfg(not(unix))]
        self.runtime.block_on(async {
            let _ = tokio::signal::ctrl_c().await;
            Signal::End
        })
    }
}

/// Returns whether this process was started with SIGHUP ignored. Without `/proc` this is unknown, and
/// the result is false.
#[cfg(unix)]
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // Signal n has bit n - 1, and SIGHUP is 1.
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}
