//! Ctrl-C and SIGTERM end a node cleanly.

use super::Handle;

/// From now on the first Ctrl-C or SIGTERM of this process makes the peer leave cleanly, and the second ends
/// the process at once with exit code 130.
pub fn leave_on_signals(handle: Handle) {
    std::thread::spawn(move || {
        let Ok(mut signals) = Signals::new() else { return };
        loop {
            signals.next();
            if handle.leave() {
                std::process::exit(130);
            }
        }
    });
}

/// Waits for the first Ctrl-C or SIGTERM.
pub(crate) fn wait_for_signal() {
    match Signals::new() {
        Ok(mut signals) => signals.next(),
        // The system ends the process then.
        Err(_) => loop {
            std::thread::park();
        },
    }
}

/// The signals that ask a process to end.
struct Signals {
    runtime: tokio::runtime::Runtime,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        #[cfg(unix)]
        let terminate = {
            let _inside = runtime.enter();
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?
        };
        Ok(Self {
            runtime,
            #[cfg(unix)]
            terminate,
        })
    }

    fn next(&mut self) {
        self.runtime.block_on(async {
            #[cfg(unix)]
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = self.terminate.recv() => {}
            }
            #[cfg(not(unix))]
            let _ = tokio::signal::ctrl_c().await;
        });
    }
}
