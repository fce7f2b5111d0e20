//! Checks that any bytes are refused or are the only encoding of the model that they give.
//!
//! Input: 0 and a complete file, or another byte and a file without its checksum, which is then appended.
#![no_main]

mod seeds;

use flyswarm::Model;
use flyswarm_learn::model::bloom::Counts;
use flyswarm_learn::model::file::MAGIC;
use flyswarm_learn::model::origin::Origin;
use flyswarm_learn::sketch::Parameters;
use flyswarm_data::scaling::{Scaler, Scaling};
use libfuzzer_sys::fuzz_target;
use sha2::{Digest, Sha256};

fuzz_target!(init: seeds::write("model", inputs()), |data: &[u8]| {
    let Some((&kind, file)) = data.split_first() else { return };
    let mut file = file.to_vec();
    if kind != 0 {
        let body = file.strip_prefix(MAGIC).unwrap_or(&file);
        let sum = Sha256::new().chain_update(b"flyswarm/5 model file\0").chain_update(body).finalize();
        file.extend(sum);
    }
    if let Ok(model) = Model::decode(&file) {
        assert_eq!(model.encode(), file);
    }
});

fn inputs() -> Vec<Vec<u8>> {
    let range = Scaling::Range { lo: vec![0.0; 3], hi: vec![1.0; 3] };
    [Scaling::None, Scaling::UnitNorm, range]
        .into_iter()
        .flat_map(|scaling| {
            let scaler = Scaler::new(&scaling, 3, None).expect("no moments needed");
            let parameters = Parameters { d: 3, m: 8, s: 2, rho: 3, seed: [1; 32], densify: true, scaling };
            let sketch = parameters.check(2).expect("sound parameters");
            let counts = Counts::from_values((0..16).collect(), 2, 8).expect("sound counts");
            let model =
                Model::new(sketch, 0.5, vec!["a".into(), "b".into()], scaler, counts).expect("a sound model");
            let model = model.with_columns(vec!["x".into(), "y".into(), "z".into()]).expect("sound names");
            let (session, program) = ("session".into(), "flyswarm 1.2.3".into());
            let origin = Origin {
                session,
                members: vec!["alice".into()],
                roster: 3,
                program,
                unix: 1,
                ..Origin::default()
            };
            let model = model.with_origin(origin);
            let file = model.encode();
            let body = &file[..file.len() - 32];
            [[&[0], &file[..]].concat(), [&[1], body].concat()]
        })
        .collect()
}
