//! OVERLAPS: whether two periods have a moment in common.
//!
//! Source: PostgreSQL 15's documentation, 9.9, and its answers.

/// Two ends, in any order; of one that is unknown the other is the beginning.
pub type Period<T> = (Option<T>, Option<T>);

/// The beginning, and the end if it is known; nothing of a period without both.
fn ordered<T: Ord + Copy>(period: Period<T>) -> Option<(T, Option<T>)> {
    match period {
        (Some(a), Some(b)) => Some((a.min(b), Some(a.max(b)))),
        (a, b) => Some((a.or(b)?, None)),
    }
}

/// NULL where it depends on an end that is not known. A period has its beginning, and not its end, unless
/// both are one.
pub fn overlap<T: Ord + Copy>(a: Period<T>, b: Period<T>) -> Option<bool> {
    let ((a, a_end), (b, b_end)) = (ordered(a)?, ordered(b)?);
    if a == b {
        return a_end.and(b_end).map(|_| true);
    }
    let (early_end, late, late_end) = if a < b { (a_end, b, b_end) } else { (b_end, a, a_end) };
    match early_end? > late {
        true => Some(true),
        false => late_end.map(|_| false),
    }
}
