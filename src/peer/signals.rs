//! Ctrl-C and SIGTERM end a node cleanly.

use super::Handle;

/// From now on the first Ctrl-C or SIGTERM of this process makes the peer leave cleanly, and the second ends
/// the process at once with exit code 130.
pub fn leave_on_signals(handle: Handle) {
    std::thread::spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            #[cfg(unix)]
            let Ok(mut terminate) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
            else {
                return;
            };
            loop {
                #[cfg(unix)]
                tokio::select! {
                    _ = tokio::signal::ctrl_c() => {}
                    _ = terminate.recv() => {}
                }
                #[cfg(not(unix))]
                let _ = tokio::signal::ctrl_c().await;
                if handle.leave() {
                    std::process::exit(130);
                }
            }
        });
    });
}
