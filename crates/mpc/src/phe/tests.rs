//! Compares answers with plain inner products.

use proptest::prelude::*;

use super::*;

fn rows(n: usize, bits: usize, salt: u8) -> Vec<Vec<u64>> {
    let mut bytes = vec![0; n * bits / 8];
    Stream::new(&[salt; 32], "test", &[]).fill(&mut bytes);
    let words: Vec<u64> = bytes.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word)).collect();
    words.chunks(bits / 64).map(<[u64]>::to_vec).collect()
}

fn slices(rows: &[Vec<u64>]) -> Vec<&[u64]> {
    rows.iter().map(Vec::as_slice).collect()
}

fn check(n: usize, m: usize, bits: usize, salt: u8) {
    let (a, b) = (rows(n, bits, salt), rows(m, bits, salt + 100));
    let layout = Layout::new(n, bits);
    let holder = Holder::new(&[salt; 32]);
    let public = Public::new(&holder.public_key()).unwrap();
    let ciphertexts: Vec<_> =
        (0..layout.ciphertexts()).map(|i| holder.encrypt(layout, (i as u32 + 5, i), &slices(&a))).collect();
    assert!(ciphertexts.iter().all(|bytes| bytes.len() == CIPHERTEXT));
    let answers = public.answers(layout, (5, &ciphertexts), &slices(&b), (&[salt + 1; 32], 7)).unwrap();
    for (b, (answer, masks)) in b.iter().zip(answers) {
        assert_eq!(answer.len(), layout.answer());
        let opened = holder.decrypt(layout, &answer).unwrap();
        for ((a, x), mask) in a.iter().zip(opened).zip(masks) {
            let product: u32 = a.iter().zip(b).map(|(a, b)| (a & b).count_ones()).sum();
            assert_eq!(x.wrapping_sub(mask) & (T as u16 - 1), product as u16, "{n} x {m} x {bits}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn answers_less_the_masks_are_the_inner_products(
        n in 1usize..40, m in 1usize..6, words in 1usize..6, salt in 0u8..100,
    ) {
        check(n, m, words * 64, salt);
    }
}

#[test]
fn the_longest_codes_and_most_rows_leave_room_for_the_noise() {
    check(MAX_STRIDE, 2, 16_384, 3);
    check(1, 1, 64, 4);
}

#[test]
fn what_is_no_key_ciphertext_or_answer_is_refused() {
    let (holder, layout) = (Holder::new(&[1; 32]), Layout::new(3, 64));
    let key = holder.public_key();
    assert!(Public::new(&key[1..]).is_none());
    let mut wrong = key.clone();
    wrong[32..40].fill(0xff);
    assert!(Public::new(&wrong).is_none(), "a coefficient that is not below q");
    let mut wrong = holder.encrypt(layout, (0, 0), &[&[1], &[2], &[3]]);
    wrong[CIPHERTEXT - 7..].fill(0xff);
    let answers = Public::new(&key).unwrap().answers(layout, (0, &[wrong]), &[&[5]], (&[2; 32], 0));
    assert!(answers.is_none());
    assert!(holder.decrypt(layout, &vec![0xff; layout.answer()]).is_none());
    assert!(holder.decrypt(layout, &vec![0; layout.answer() + 1]).is_none());
}

/// The holder can compute the noise: the distance of c0 + c1 s from D times the plaintext. For any row
/// of the evaluator, its spread is that of the noise that the evaluator added.
#[test]
fn an_answer_says_the_same_of_no_bits_and_of_all() {
    let (holder, layout) = (Holder::new(&[1; 32]), Layout::new(512, 64));
    let public = Public::new(&holder.public_key()).unwrap();
    let a = rows(512, 64, 9);
    let ciphertexts: Vec<_> =
        (0..layout.ciphertexts()).map(|i| holder.encrypt(layout, (i as u32 + 5, i), &slices(&a))).collect();
    let [prime, _] = primes();
    for row in [0, u64::MAX] {
        let (answer, _) =
            public.answers(layout, (5, &ciphertexts), &[&[row]], (&[3; 32], 0)).unwrap().remove(0);
        let (c0, c1) = answer.split_at(packed_bytes(512));
        let (c0, c1) = (unpack(c0, 512, prime.q).unwrap(), unpack(c1, N, prime.q).unwrap());
        let ones = c1.iter().map(|x| x.count_ones()).sum::<u32>();
        // 204,800 bits: the standard deviation is 226.
        assert!(ones.abs_diff(102_400) < 1_200, "c1 is uniform: {ones}");
        let masks = prime.product(&c1, &holder.secret[0]);
        let step = prime.q / T;
        let noise: Vec<u64> =
            c0.iter().zip(masks.iter()).map(|(&x, &y)| plus(x, y, prime.q) % step).collect();
        // Uniform below 2^33 (2^83 over the second prime).
        let mean = noise.iter().map(|&x| x as f64).sum::<f64>() / 512.0 / 2f64.powi(33);
        assert!((mean - 0.5).abs() < 0.08 && noise.iter().all(|&x| x < (1 << 33) + (1 << 13)), "{mean}");
    }
}
