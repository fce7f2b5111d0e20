//! Runs a full session with full logs and metrics. Checks that no written file holds key material.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use super::ports;
use crate::processes::swarm::{Swarm, files};

fn http(port: u16, request: &str) -> String {
    let mut connection = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    // The server may close the connection before it has read the whole request.
    let _ = connection.write_all(request.as_bytes());
    let mut text = String::new();
    let _ = connection.read_to_string(&mut text);
    text
}

/// Returns every form in which 32 secret bytes may be written as text.
fn spellings(secret: &[u8]) -> Vec<Vec<u8>> {
    let list = |separator: &str| {
        let numbers: Vec<_> = secret.iter().map(u8::to_string).collect();
        numbers[..12].join(separator).into_bytes()
    };
    let hex = hex::encode(secret);
    // The middle of a base64 text, whatever bytes come before the secret: there are three alignments, and the
    // ends are left out.
    let base64 = |skip: usize| {
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let letters = secret[skip..].chunks_exact(3).take(6).flat_map(|three| {
            let bits = u32::from(three[0]) << 16 | u32::from(three[1]) << 8 | u32::from(three[2]);
            [18, 12, 6, 0].map(|shift| LETTERS[(bits >> shift & 63) as usize])
        });
        letters.collect::<Vec<u8>>()
    };
    vec![
        secret[..16].to_vec(),
        hex.as_bytes()[..32].to_vec(),
        hex[..32].to_uppercase().into_bytes(),
        bs58::encode(secret).into_string().into_bytes(),
        list(", "),
        list(","),
        base64(0),
        base64(1),
        base64(2),
    ]
}

fn holds(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[test]
fn a_full_run_logs_and_measures_without_any_secret() {
    let mut swarm = Swarm::new(3, |session| session.timing.linger_ms = 6_000);
    let folder = swarm.folder.path().to_owned();
    let key = folder.join("net.key");
    let made = Command::new(super::PROGRAM)
        .args(["id", "--new", "--network-key"])
        .arg(&key)
        .output()
        .expect("it runs");
    assert!(made.status.success());
    let ports = ports(3);
    for (i, port) in ports.iter().enumerate() {
        let mut command = swarm.command(i);
        command.args(["--metrics", &port.to_string(), "--log", "trace", "--network-key"]).arg(&key);
        if i > 0 {
            command.arg("--log-json");
        }
        // The harness keeps the first MiB of standard error; a full log is longer.
        let log = folder.join(format!("{i}.log"));
        let mut through = Command::new("sh");
        through.args(["-c", "log=$1; shift; exec \"$@\" 2>\"$log\"", "sh"]).arg(log);
        through.arg(command.get_program()).args(command.get_args());
        swarm.start_command(i, through);
    }
    let mut texts = Vec::new();
    swarm.wait_all(&[0, 1, 2], "metrics");
    let asked = |what: &str| {
        let head = format!("Host: 127.0.0.1:{}", ports[0]);
        http(ports[0], &format!("{what} HTTP/1.0\r\n{head}\r\n\r\n"))
    };
    let during = asked("GET /metrics");
    swarm.wait_all(&[0, 1, 2], "finished");
    let after = asked("GET /metrics");
    assert!(asked("GET /").starts_with("HTTP/1.0 404 "));
    assert!(asked("POST /metrics").starts_with("HTTP/1.0 405 "));
    let stranger = http(ports[0], "GET /metrics HTTP/1.1\r\nHost: stranger.example\r\n\r\n");
    assert!(stranger.starts_with("HTTP/1.1 403 "), "{stranger}");
    let long = format!("GET /{} HTTP/1.0\r\n", "x".repeat(20_000));
    let refused = http(ports[0], &long);
    // The client does not get the refusal if the connection is reset before it reads.
    assert!(
        refused.is_empty() || refused.starts_with("HTTP/1.1 431 "),
        "a request without an end: {refused}"
    );
    for i in 0..3 {
        let ended = swarm.wait_end(i);
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
    // The metrics are present.
    assert!(during.starts_with("HTTP/1.0 200 OK\r\n") && during.ends_with("# EOF\n"), "{during}");
    let lines: Vec<_> = after.lines().collect();
    for line in ["flyswarm_finished 1", "flyswarm_faults_total{peer=\"bob\"} 0"] {
        assert!(lines.contains(&line), "{line} is not in {after}");
    }
    let value = |begins: &str| {
        let line = lines
            .iter()
            .find(|line| line.starts_with(begins))
            .unwrap_or_else(|| panic!("{begins} in {after}"));
        line.rsplit(' ').next().and_then(|number| number.parse::<u64>().ok()).expect("a number")
    };
    // There is one view, or more on a busy machine.
    assert!(value("flyswarm_views_total") >= 1, "{after}");
    let session = &swarm.session;
    let size = 4 * session
        .task
        .part::<flyswarm::tasks::ModelSpec>()
        .expect("a model")
        .counts(session.data.classes.len()) as u64;
    assert_eq!(value("flyswarm_aggregate_bytes{aggregate=\"counts\"}"), size);
    assert!(value("flyswarm_sum_bytes{aggregate=\"counts\",way=\"down\"}") >= size);
    // The other peer is the neighbour in the tree if it leads the view.
    let sent = |peer: &str| {
        let begins = format!("flyswarm_bytes_total{{direction=\"sent\",peer=\"{peer}\"");
        lines.iter().filter(|line| line.starts_with(&begins)).count()
    };
    assert!(sent("bob").max(sent("carol")) > 1, "by stage: {after}");
    texts.push(("metrics".to_owned(), [during, after].concat().into_bytes()));
    for i in 0..3 {
        let name = format!("{i}.log");
        let log = fs::read(folder.join(&name)).expect("a log");
        assert!(log.len() > 10_000, "{name} has {} bytes", log.len());
        if i > 0 {
            for line in String::from_utf8_lossy(&log).lines() {
                serde_json::from_str::<serde_json::Value>(line)
                    .unwrap_or_else(|error| panic!("{line}: {error}"));
            }
        }
        texts.push((name, log));
    }
    let said: String = swarm.log.iter().map(|told| told.value.to_string()).collect();
    texts.push(("standard output".to_owned(), said.into_bytes()));
    // These secrets must not appear: identities, the secret keys for signatures and for key agreement, the
    // network key, and the contents of files with mode 0600.
    let mut secrets: Vec<Vec<u8>> = Vec::new();
    for identity in &swarm.keys {
        let seed = identity.seed();
        let expanded = <sha2::Sha512 as sha2::Digest>::digest(seed.as_slice());
        secrets.push(seed.to_vec());
        secrets.push(expanded[..32].to_vec());
        secrets.push(expanded[32..].to_vec());
    }
    let network = fs::read_to_string(&key).expect("the key");
    secrets.push(hex::decode(network.lines().last().expect("three lines")).expect("hexadecimal digits"));
    for (name, text) in &texts {
        for secret in &secrets {
            for spelling in spellings(secret) {
                assert!(
                    !holds(text, &spelling),
                    "{name} holds a secret: {}",
                    String::from_utf8_lossy(&spelling)
                );
            }
        }
        assert!(!holds(text, b"flyswarm-identity 1"), "{name} holds a key file");
    }
    // The search finds a secret that is put there on purpose.
    let planted = [b"level=debug key=".as_slice(), hex::encode(&secrets[0]).as_bytes()].concat();
    assert!(spellings(&secrets[0]).iter().any(|spelling| holds(&planted, spelling)));
    let left = files(&folder).iter().filter(|path| path.extension().is_some_and(|end| end == "log")).count();
    assert_eq!(left, 3);
}
