use super::*;

/// zeta(n) from the smallest term on, with the standard library's power.
fn zeta(items: u64) -> f64 {
    (1..=items).rev().map(|i| (i as f64).powf(-0.99)).sum()
}

/// Share of the ranks below `rank` under the interval law. From 2 on it is where rank(u) passes `rank`:
/// n (1 - eta + eta u)^100 = k solved for u, with eta so that k = 2 is at zeta(2) / zeta(n).
fn below(rank: u64, items: u64, zeta_n: f64) -> f64 {
    let exact = zeta(rank.min(2)) / zeta_n;
    if rank <= 2 {
        return exact;
    }
    let root = |k: f64| (k / items as f64).powf(0.01);
    let eta = (1.0 - root(2.0)) / (1.0 - zeta(2) / zeta_n);
    (root(rank as f64) - 1.0 + eta) / eta
}

#[test]
fn the_first_two_ranks_begin_and_end_where_the_zipfian_law_says() {
    let zipfian = Zipfian::new(1000);
    let zeta_n = zeta(1000);
    assert!((zipfian.zeta - zeta_n).abs() < 1e-12 * zeta_n, "{}", zipfian.zeta);
    let (one, two) = (1.0 / zeta_n, (1.0 + 2f64.powf(-0.99)) / zeta_n);
    let around = |u: f64| (zipfian.rank(u - 1e-12), zipfian.rank(u + 1e-12));
    assert_eq!((zipfian.rank(0.0), around(one), around(two)), (0, (0, 1), (1, 2)));
    assert_eq!(zipfian.rank(1.0 - f64::EPSILON / 2.0), 999);
    // One item has every draw; of two, the second has the rest.
    assert_eq!(Zipfian::new(1).rank(0.999), 0);
    assert_eq!((Zipfian::new(2).rank(0.6), Zipfian::new(2).rank(1.0 - f64::EPSILON / 2.0)), (0, 1));
}

#[test]
fn drawn_ranks_pass_the_chi_square_test_against_the_interval_law() {
    const ITEMS: usize = 1000;
    const DRAWS: usize = 1_000_000;
    let (zipfian, zeta_n) = (Zipfian::new(ITEMS as u64), zeta(ITEMS as u64));
    let bounds: Vec<f64> = (0..=ITEMS as u64).map(|k| if k == 0 { 0.0 } else { below(k, 1000, zeta_n) }).collect();
    // 999 degrees of freedom: mean 999, standard deviation sqrt(2 * 999) = 44.7. The 99.9% point by
    // Wilson and Hilferty is 999 (1 - 2 / 8991 + 3.0902 sqrt(2 / 8991))^3 = 1142.8.
    for seed in 1..=5 {
        let mut random = Random::new(seed);
        let mut counts = [0u32; ITEMS];
        (0..DRAWS).for_each(|_| counts[zipfian.rank(random.unit()) as usize] += 1);
        let chi_square: f64 = counts
            .iter()
            .zip(bounds.windows(2))
            .map(|(count, bound)| {
                let expected = (bound[1] - bound[0]) * DRAWS as f64;
                (f64::from(*count) - expected).powi(2) / expected
            })
            .sum();
        assert!(chi_square < 1142.8, "seed {seed}: {chi_square}");
    }
}

/// Gray's law against the exact one. Worked out in Python with `math.fsum`: of a million items, the
/// largest difference of the two cumulative shares up to rank 1000 is 0.010979, at 30 ranks; a single
/// rank's probability is from 0.984 (rank 998) to 1.194 (rank 2) times the exact one.
#[test]
fn the_first_thousand_ranks_have_the_zipfian_share_within_eleven_thousandths() {
    const ITEMS: u64 = 1_000_000;
    let zeta_n = zeta(ITEMS);
    let mut exact = 0.0;
    for rank in 1..=1000u64 {
        exact += (rank as f64).powf(-0.99) / zeta_n;
        assert!((below(rank, ITEMS, zeta_n) - exact).abs() < 0.011, "{rank}");
    }
    let (zipfian, mut random) = (Zipfian::new(ITEMS), Random::new(3));
    let drawn = (0..1_000_000).filter(|_| zipfian.rank(random.unit()) < 1000).count() as f64 / 1e6;
    // Four standard deviations of a share near 1/2 of a million draws are 0.002.
    assert!((drawn - below(1000, ITEMS, zeta_n)).abs() < 0.002, "{drawn}");
    assert!((drawn - exact).abs() < 0.013, "{drawn}");
}

#[test]
fn a_zipfian_that_grew_is_one_made_with_as_many_items() {
    let mut grown = Zipfian::new(10);
    (11..=500).for_each(|items| grown.grow(items));
    let made = Zipfian::new(500);
    assert_eq!((grown.items, grown.zeta, grown.eta), (made.items, made.zeta, made.eta));
    grown.grow(3);
    assert_eq!(grown.items, 500);
}

#[test]
fn the_hash_is_that_of_ycsb() {
    // Python: h = 0xCBF29CE484222325
    //         for _ in range(8): h = (h ^ (v & 255)) * 1099511628211 % 2**64; v >>= 8
    //         abs(h - 2**64 if h >= 2**63 else h)
    // The first one is the key that YCSB's default load begins with, user6284781860667377211.
    let numbers = [0, 1, 2, 255, 256, 999, 10_000_000_000];
    let expected = [
        6284781860667377211,
        8517097267634966620,
        1820151046732198393,
        8064062821143829734,
        2056600594528442646,
        2071219101098386137,
        1201321332300452516,
    ];
    assert_eq!(numbers.map(hash), expected);
}

#[test]
fn the_most_popular_scrambled_items_are_the_hashes_of_the_first_ranks() {
    let (zipfian, mut random) = (ScrambledZipfian::new(1000), Random::new(9));
    let mut counts = [0u32; 1000];
    (0..1_000_000).for_each(|_| counts[zipfian.draw(&mut random) as usize] += 1);
    // 6284781860667377211 mod 1000 and 8517097267634966620 mod 1000. Their ranks' shares are 1 / zeta =
    // 0.03778 and 2^-0.99 / zeta = 0.01902; what else falls on an item by its hash is about (1 - 0.3) / 1000
    // for the ranks from 1000 on, and may be as much as any of the ranks before.
    let (first, second) = (f64::from(counts[211]) / 1e6, f64::from(counts[620]) / 1e6);
    assert!((0.0377..0.0405).contains(&first) && (0.0189..0.0217).contains(&second), "{first} {second}");
    assert_eq!(counts.iter().max(), Some(&counts[211]));
    // zeta of 10^10, from that of 10^6 by Euler and Maclaurin: an integral and half of the ends.
    let (few, many) = (1e6f64, 1e10f64);
    let rest = (many.powf(0.01) - few.powf(0.01)) / 0.01 + (many.powf(-0.99) - few.powf(-0.99)) / 2.0;
    assert!((zeta(1_000_000) + rest - SCRAMBLED_ZETA).abs() < 1e-8);
}

#[test]
fn the_latest_item_is_the_most_popular_and_the_first_is_never_drawn() {
    let (mut latest, mut random) = (SkewedLatest::new(99), Random::new(4));
    let mut ages = [0u32; 120];
    for n in 0..200_000u64 {
        let last = 99 + n / 10_000;
        let item = latest.draw(last, &mut random);
        assert!((1..=last).contains(&item));
        ages[(last - item) as usize] += 1;
    }
    // zeta is 5.284 at 99 items and 5.467 at 118: the newest has between 0.1829 and 0.1893, and four
    // standard deviations are 0.0035.
    assert!((0.179..0.193).contains(&(f64::from(ages[0]) / 2e5)), "{}", ages[0]);
    assert!(ages[0] > ages[1] && ages[1] > ages[2]);
    assert_eq!(SkewedLatest::new(0).draw(0, &mut random), 0);
}

#[test]
fn lognormal_delays_have_their_mean() {
    for sigma in [0.0, 0.5, 1.0] {
        let (lognormal, mut random) = (Lognormal::new(6_000_000, sigma), Random::new(11));
        let mean = (0..1_000_000).map(|_| lognormal.draw(&mut random) as f64).sum::<f64>() / 1e6;
        // The mean's own standard deviation is 6 ms sqrt(e - 1) / 1000 = 0.13% with sigma 1.
        assert!((mean / 6e6 - 1.0).abs() < 0.01, "{sigma}: {mean}");
    }
}

/// Kolmogorov and Smirnov against the distribution function (1 + erf((ln x - mu) / (sigma sqrt 2))) / 2.
/// A true sample is above 1.3581 / sqrt(n) once in 20 times; 20 seeds are above it more than 3 times with
/// a probability of 1.6%, and these 20 never change.
#[test]
fn lognormal_delays_pass_the_kolmogorov_smirnov_test() {
    const DRAWS: usize = 100_000;
    let mu = 6e6f64.ln() - 0.5;
    let mut above = 0;
    for seed in 1..=20 {
        let (lognormal, mut random) = (Lognormal::new(6_000_000, 1.0), Random::new(seed));
        let mut drawn: Vec<u64> = (0..DRAWS).map(|_| lognormal.draw(&mut random)).collect();
        drawn.sort_unstable();
        let distance = drawn.iter().enumerate().fold(0.0f64, |worst, (n, ns)| {
            let share = 0.5 + 0.5 * libm::erf(((*ns as f64).ln() - mu) / std::f64::consts::SQRT_2);
            let (before, after) = (n as f64 / DRAWS as f64, (n + 1) as f64 / DRAWS as f64);
            worst.max((share - before).abs()).max((after - share).abs())
        });
        above += u32::from(distance * (DRAWS as f64).sqrt() > 1.3581);
    }
    assert!(above <= 3, "{above} of 20 seeds are rejected");
}

#[test]
fn the_published_delays_are_rounded_logarithms() {
    // ln 1 = 0, ln 2 = 0.69, ln 4 = 1.39, ln 5 = 1.61, ln 12 = 2.48, ln 13 = 2.56, ln 665 = 6.4998, ln 666 = 6.501.
    let ms = [1, 2, 4, 5, 12, 13, 665, 666].map(|n| published_log_ns(n) / 1_000_000);
    assert_eq!(ms, [0, 1, 1, 2, 2, 3, 6, 7]);
    // The sum of the published 1799: 11.544 s.
    assert_eq!((1..=1799).map(published_log_ns).sum::<u64>(), 11_544_000_000);
}

#[test]
fn gamma_numbers_have_their_mean_variance_and_share_below_the_mean() {
    let mut random = Random::labelled(1, "gamma");
    let numbers: Vec<f64> = (0..100_000).map(|_| gamma(16_384.0, 1.5, &mut random)).collect();
    let count = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / count;
    // Variance is mean^2 / shape: the mean's standard deviation is 16384 / sqrt(1.5 * 100000) = 42.3; five of them.
    assert!((mean - 16_384.0).abs() < 212.0, "{mean}");
    let variance = numbers.iter().map(|n| (n - mean) * (n - mean)).sum::<f64>() / count;
    assert!((variance / (16_384.0 * 16_384.0 / 1.5) - 1.0).abs() < 0.05, "{variance}");
    // P(1.5, 1.5) = erf(sqrt(1.5)) - 2 sqrt(1.5 / pi) exp(-1.5) = 0.91674 - 0.30837 = 0.60837; 5 * 0.00154.
    let below = numbers.iter().filter(|n| **n < 16_384.0).count() as f64 / count;
    assert!((below - 0.608_37).abs() < 0.0078, "{below}");
}
