//! Checks when messages are sent, and runs schedules with random faults (`tests/security/xclp-audit.md`).

use std::sync::Mutex;

use super::*;
use crate::crypto::stream::Stream;
use crate::protocol::view::{self, Order, Report};

/// Messages that are recorded, in the order of sending.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Seen {
    /// Shares that open the sum of a slot. The committee has decided this slot.
    Decided(u32),
    /// Share of an output, in the exchange of a slot.
    Output(u32),
}

fn seen(message: &Message) -> Option<Seen> {
    match message {
        Message::View(view::Message::Up(_, Report::Release(_, items))) => {
            items.first().map(|item| Seen::Decided(item.item.sum.slot))
        }
        Message::View(view::Message::Down(_, Order::Open(slot, _))) => Some(Seen::Decided(*slot)),
        Message::Exchange { sum, content } => {
            let (body, _) = talk::read(content.clone()).ok()?;
            part(&body, What::Output).then_some(Seen::Output(sum.slot))
        }
        _ => None,
    }
}

/// Counts the shares of an output that are sent before the slot `computed` is decided, or in an exchange
/// other than the last one.
fn early(trace: &[Seen], computed: u32) -> usize {
    let outputs = trace.iter().enumerate().filter(|(_, seen)| matches!(seen, Seen::Output(_)));
    let decided = |at: usize| trace[..at].contains(&Seen::Decided(computed));
    outputs.filter(|(at, seen)| **seen != Seen::Output(computed + 1) || !decided(*at)).count()
}

#[test]
fn no_share_of_an_output_leaves_before_the_decision_and_one_that_does_is_found_and_blamed() {
    const COMPUTED: u32 = 2;
    for planted in [false, true] {
        // With this seed, three candidates are left after one is blamed. With some other seeds, too few are
        // left and the session ends.
        let mut lab = lab(&[12, 12, 12, 12, 0], Scaling::None, 1, spec());
        let trace = Arc::new(Mutex::new(Vec::new()));
        let of_all = trace.clone();
        lab.net.hold = Some(Box::new(move |_, _, message| {
            of_all.lock().unwrap().extend(seen(message));
            false
        }));
        if planted {
            // In the first exchange, a computing member sends its current shares as if they were shares of
            // the output.
            lab.net.liars.extend((0..5).map(Peer));
            let (of_all, mut told) = (trace.clone(), false);
            lab.net.rewrite = Some(Box::new(move |_, _, message| {
                let Message::Exchange { sum, content } = message else { return None };
                let (body, data) = talk::read(content.clone()).ok()?;
                if told || !part(&body, What::Round(300)) {
                    return None;
                }
                told = true;
                let content = talk::content(&Body::Part { what: What::Output, last: true }, data);
                let message = Message::Exchange { sum: *sum, content };
                of_all.lock().unwrap().extend(seen(&message));
                Some(message)
            }));
        }
        lab.net.run_unchecked(120_000, |_| false);
        let trace = trace.lock().unwrap().clone();
        let outputs = trace.iter().filter(|seen| matches!(seen, Seen::Output(_))).count();
        assert!(outputs > 4, "{outputs}");
        assert_eq!(early(&trace, COMPUTED), usize::from(planted), "{trace:?}");
        let blamed = lab.net.blames.iter().any(|(.., fault)| fault.contains("another part"));
        assert_eq!(blamed, planted, "{:?}", lab.net.blames);
    }
}

/// Crashes one or two peers at random times during the exchanges, for a while or for good.
fn schedule(seed: u64) -> bool {
    let mut stream = Stream::new(&seed.to_le_bytes(), "schedule", &[]);
    let mut lab = lab(&[6, 7, 5, 8, 0], Scaling::None, seed, spec());
    // Both exchanges have about 5,500 messages.
    let mut left = stream.below(6000);
    for _ in 0..1 + stream.below(2) {
        let sent = Arc::new(Mutex::new((0, None)));
        let count = sent.clone();
        lab.net.hold = Some(Box::new(move |from, _, message| {
            if matches!(message, Message::Exchange { .. }) {
                let mut count = count.lock().unwrap();
                count.0 += 1;
                if count.0 > left {
                    count.1.get_or_insert(from);
                }
            }
            false
        }));
        let until = lab.net.now_ms() + 60_000;
        lab.net.run_unchecked(until, |_| sent.lock().unwrap().1.is_some());
        lab.net.hold = None;
        let Some(victim) = sent.lock().unwrap().1 else { break };
        let now = lab.net.now_ms();
        lab.net.at_ms(now, Fault::Crash(victim));
        if stream.below(3) > 0 {
            lab.net.at_ms(now + 100 + u64::from(stream.below(8000)), Fault::Restart(victim));
        }
        left = stream.below(3000);
    }
    lab.net.run_unchecked(lab.net.now_ms() + 300_000, |_| false);
    if histories(&lab.net).is_empty() {
        let endings = lab.endings();
        let told = |text: &String| {
            let reasons = ["three computing parties", "three candidates must", "fewer than two"];
            reasons.iter().any(|reason| text.contains(reason))
        };
        assert!(endings.iter().all(told), "seed {seed}: {endings:?}");
        let over = |peer: &Peer| {
            lab.net.events.iter().any(|(_, who, event)| who == peer && matches!(event, Event::Ended(_)))
        };
        assert!((0..5).map(Peer).filter(over).count() >= 3, "seed {seed} hangs: {:?}", lab.net.events);
        return false;
    }
    assert!(!lab.holds().is_empty(), "seed {seed}: {:?}", lab.net.events);
    true
}

#[test]
fn whoever_crashes_whenever_all_that_have_labels_have_those_of_the_rows_in_one_place() {
    let count = std::env::var("FLYSWARM_SCHEDULES").ok().and_then(|count| count.parse().ok()).unwrap_or(3);
    let labelled = (0..count).filter(|&seed| schedule(seed)).count();
    println!("{count} schedules: labels in {labelled}, in the others too few were left");
    assert!(labelled as u64 * 2 > count, "{labelled} of {count}");
}
