//! Measures the built-in learner: trained samples per CPU second, on one thread.
//!
//! ```sh
//! cargo run --release --package flyswarm-lab --example learner -- [SECONDS]
//! ```
//!
//! It trains each network on made-up images, in batches of 32 with momentum, for SECONDS of CPU time
//! (default 3). `lab/scripts/bench-learner.py` compares it with PyTorch.

use cpu_time::ProcessTime;
use flyswarm_learn::learner::{Architecture, Network, Settings, train};
use flyswarm_sealed_sum::crypto::stream::Stream;
use ndarray::Array2;

fn main() {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(3.0);
    let cnn = |filters| Architecture::Convolutional { image: [3, 32, 32], filters, hidden: 128 };
    let networks = [
        ("cnn 16-32-32", cnn([16, 32, 32])),
        ("cnn 32-64-64", cnn([32, 64, 64])),
        ("mlp 128", Architecture::Perceptron { hidden: vec![128] }),
        ("logistic", Architecture::Logistic),
    ];
    let mut stream = Stream::new(b"learner", "images", &[]);
    let rows = Array2::from_shape_fn((256, 3072), |_| stream.next_u32() as f32 / 2f32.powi(32));
    let labels: Vec<u16> = (0..256).map(|row| row % 10).collect();
    let (rate, momentum, decay, proximal) = (0.01, 0.9, 1e-4, 0.0);
    let settings =
        Settings { epochs: 1, steps: 0, batch: 32, rate, momentum, decay, proximal, augment: None };
    println!("{:<14} {:>9} {:>20}", "network", "weights", "samples/CPU second");
    for (name, architecture) in networks {
        let network = match Network::new(&architecture, 3072, 10) {
            Ok(network) => network,
            Err(error) => return eprintln!("{name}: {error}"),
        };
        let mut weights = network.initial(&[0; 32]);
        let (start, mut samples) = (ProcessTime::now(), 0);
        while start.elapsed().as_secs_f64() < seconds {
            let trained = train(&network, weights, rows.view(), &labels, None, &settings, &mut stream);
            (weights, samples) = (trained.weights, samples + trained.seen.rows);
        }
        let rate = samples as f64 / start.elapsed().as_secs_f64();
        println!("{name:<14} {:>9} {rate:>20.0}", network.weights());
    }
}
