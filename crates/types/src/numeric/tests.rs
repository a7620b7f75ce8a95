//! What the recorded answers of PostgreSQL (`tests/answers`) do not show: the forms inside.

use super::*;
use std::hash::DefaultHasher;

fn n(s: &str) -> Numeric {
    Numeric::parse(s).unwrap()
}

fn encoded(v: &Numeric) -> Vec<u8> {
    let mut b = Vec::new();
    v.encode(&mut b);
    b
}

/// A small generator, so that a failure repeats.
pub(crate) fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*state >> 11) ^ (*state << 31)
}

/// Numbers of all sizes, with many that are near each other.
fn random_numeric(state: &mut u64) -> Numeric {
    let special = ["0", "0.000", "NaN", "inf", "-inf", "1", "1.0", "10", "0.1", "-0.1"];
    if random(state).is_multiple_of(8) {
        return n(special[random(state) as usize % special.len()]);
    }
    let len = [1, 2, 4, 18, 19, 20, 38, 39, 45][random(state) as usize % 9];
    let mut digits: String =
        (0..len).map(|_| ["0", "9", "5", "1", "7"][random(state) as usize % 5]).collect();
    let point = random(state) as usize % (len + 1);
    digits.insert(point, '.');
    let sign = if random(state).is_multiple_of(2) { "-" } else { "" };
    let exponent = [0, 0, 0, -3, 5, -200, 70][random(state) as usize % 7];
    n(&format!("{sign}0{digits}e{exponent}"))
}

#[test]
fn encodings_lead_back() {
    let mut s = 3;
    for _ in 0..20_000 {
        let v = random_numeric(&mut s);
        let back = Numeric::decode(&encoded(&v));
        assert_eq!(back, v);
        assert_eq!(back.to_string(), v.to_string(), "the scale is kept");
    }
}

/// Numbers of every length with every scale, of which the short ones are written in another way.
#[test]
fn stored_forms_are_written_as_values() {
    let mut state = 7;
    for digits in 0..=20 {
        for scale in 0..=20 {
            let power = 10i128.pow(digits);
            for m in [power - 1, power, power + 1, i128::from(random(&mut state)) % power, 0] {
                for m in [m, -m] {
                    let v = Numeric::from_scaled(m, scale);
                    let stored = encoded(&v);
                    let (mut text, mut bytes) = (String::new(), b"before ".to_vec());
                    Numeric::write_encoded(&stored, &mut text);
                    Numeric::write_encoded(&stored, &mut bytes);
                    assert_eq!(text, v.to_string());
                    assert_eq!(bytes, format!("before {text}").as_bytes());
                    assert_eq!(Numeric::scaled(&stored), v.as_scaled());
                }
            }
        }
    }
}

#[test]
fn usual_values_are_short() {
    let len = |s: &str| encoded(&n(s)).len();
    assert_eq!(len("0.00"), 1);
    assert_eq!(len("1.27"), 2);
    assert_eq!(len("-1.28"), 2);
    assert_eq!(len("1.28"), 3);
    assert_eq!(len("9999999999.99"), 7);
    assert!(len("99999999999999999999") <= 12);
    assert!(len("-9999999999.9999999999") <= 12);
    let far = format!("0.{}99999999999999999999", "0".repeat(1000));
    assert!(len(&far) <= 12, "twenty digits far behind the point");
}

#[test]
fn damaged_bytes_are_nan() {
    let mut s = 5;
    for _ in 0..20_000 {
        let len = random(&mut s) as usize % 24;
        let mut b: Vec<u8> = (0..len).map(|_| random(&mut s) as u8).collect();
        if let (Some(head), true) = (b.first_mut(), random(&mut s).is_multiple_of(2)) {
            *head = 128 + *head % 8;
        }
        let v = Numeric::decode(&b);
        // Whatever came out is a value like any other.
        assert_eq!(Numeric::decode(&encoded(&v)), v);
        let _ = (v.to_string(), v.neg(), v.add(&Numeric::ONE), v.to_i64());
    }
    assert!(Numeric::decode(&[]).is_nan());
    assert!(Numeric::decode(&[134]).is_nan());
    assert!(Numeric::decode(&[0; 40]).is_nan(), "a mantissa of more than sixteen bytes");
    assert!(Numeric::decode(&[132, 0, 0, 0xff, 0xff, 0xff, 0xff]).is_nan(), "a limb beyond its base");
    assert!(Numeric::decode(&[131, 0xff, 0xff, 1]).is_nan(), "a scale beyond the limit");
}

#[test]
fn equal_values_hash_alike_and_order_is_total() {
    let hash = |v: &Numeric| {
        let mut h = DefaultHasher::new();
        v.hash(&mut h);
        h.finish()
    };
    let mut s = 9;
    let values: Vec<Numeric> = (0..300).map(|_| random_numeric(&mut s)).collect();
    for a in &values {
        for b in &values {
            assert_eq!(a.cmp(b), b.cmp(a).reverse());
            if a == b {
                assert_eq!(hash(a), hash(b), "{a} {b}");
            }
        }
        if let Some(scale) = a.scale().filter(|s| *s < 100) {
            let padded = a.round(i32::from(scale) + 33).unwrap();
            assert_eq!((&padded, hash(&padded)), (a, hash(a)));
        }
    }
    let mut sorted = values;
    sorted.sort();
    assert!(sorted.windows(2).all(|w| w[0] <= w[1]));
}

#[test]
fn inline_and_long_forms_agree() {
    let mut s = 13;
    for _ in 0..5_000 {
        let (a, b) = (random_numeric(&mut s), random_numeric(&mut s));
        let (Some(x), Some(y)) = (a.dec(), b.dec()) else { continue };
        let same = |found: SqlResult<Numeric>, expected: Dec| {
            assert_eq!(
                found.unwrap().to_string(),
                Numeric::checked(expected).unwrap().to_string(),
                "{a} {b}"
            );
        };
        same(a.add(&b), x.add(&y));
        same(a.sub(&b), x.sub(&y));
        same(a.mul(&b), x.mul(&y));
        assert_eq!(a.cmp(&b), x.compare(&y));
        if !b.is_zero() {
            let scale = div_scale(x.head(), y.head(), x.scale, y.scale);
            same(a.div(&b), x.div(&y, scale, Cut::Round));
        }
        let mut sum = a.clone();
        sum.add_encoded(&encoded(&b));
        assert_eq!(sum.to_string(), a.add(&b).unwrap().to_string());
    }
}

#[test]
fn the_limits_hold() {
    let most = n("1e131071");
    assert!(most.mul(&n("9")).is_ok());
    for over in [most.mul(&n("10")), most.sub(&n("-9e131071")), n("1e-16383").div(&n("1e131071"))] {
        match over {
            Err(e) => assert_eq!(
                (e.sqlstate(), e.to_string().as_str()),
                ("22003", "value overflows numeric format")
            ),
            Ok(v) => assert!(v.is_zero(), "a quotient may vanish, nothing may grow"),
        }
    }
    assert_eq!(n("1e-16383").mul(&n("0.1")).unwrap().scale(), Some(16383));
    assert_eq!(Numeric::from_scaled(i128::MIN, 2).to_string(), "-1701411834604692317316873037158841057.28");
    assert_eq!(
        Numeric::from_scaled(i128::MAX, 0).neg().sub(&Numeric::ONE).unwrap(),
        Numeric::from_scaled(i128::MIN, 0)
    );
}

#[test]
fn floats_lead_back() {
    for f in [0.1, -1e-7, 123456789012345.0, 1e300, 2.5e-300, 5e-324] {
        let v = Numeric::from_f64(f);
        assert_eq!(v.to_f64().unwrap(), f, "{v}");
    }
    assert!(Numeric::from_f64(f64::NAN).is_nan());
    assert_eq!(Numeric::from_f64(-0.0).to_string(), "0");
}
