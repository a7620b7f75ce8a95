//! `to_char` and `to_number` of numbers.
//!
//! A format is cut into patterns and text, as that of a time ([`super::format`]). What the patterns ask for
//! together is gathered first ([`Wanted`]); then each pattern writes its part of the digits, or reads it.
//!
//! - **M1** The digits before the point stand at the right of their patterns: for those that are missing,
//!   blanks are written, or zeros from the first 0 on. A number with more of them than there are patterns is
//!   a row of `#`.
//! - **M2** A sign that no pattern places stands in front of the first digit, and takes a blank's place where
//!   it is positive.
//! - **M3** FM takes blanks, and zeros behind the point that no 0 asks for.
//! - **M4** What a pattern reads need not be there; text in a format skips as many characters.
//!
//! Source: PostgreSQL 15's documentation, 9.8, and its answers. As in the C locale, D is a point, G a comma
//! and L a blank.

use super::Call;
use crate::limits::Limits;
use crate::numeric::Numeric;
use crate::{SqlError, SqlResult, Value, sqlstate};

/// The patterns, the longer of two with the same beginning first. Each may be in lower case as well.
const WORDS: &[(&str, Word)] = &[
    (",", Word::Comma),
    (".", Word::Point),
    ("0", Word::Zero),
    ("9", Word::Nine),
    ("B", Word::Blank),
    ("C", Word::Nothing),
    ("D", Word::Decimal),
    ("EEEE", Word::Exponent),
    ("FM", Word::Fill),
    ("G", Word::Group),
    ("L", Word::Currency),
    ("MI", Word::Minus),
    ("PL", Word::Plus),
    ("PR", Word::Bracket),
    ("RN", Word::Roman),
    ("SG", Word::Both),
    ("SP", Word::Nothing),
    ("S", Word::Sign),
    ("TH", Word::Ordinal),
    ("V", Word::Shift),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Word {
    Comma,
    Point,
    Zero,
    Nine,
    Blank,
    Nothing,
    Decimal,
    Exponent,
    Fill,
    Group,
    Currency,
    Minus,
    Plus,
    Bracket,
    Roman,
    Both,
    Sign,
    Ordinal,
    Shift,
}

enum Piece {
    Text(char),
    /// In lower case or not.
    Pattern(Word, bool),
}

fn pieces(format: &str) -> Vec<Piece> {
    let mut found = Vec::new();
    let mut rest = format;
    let mut is_quoted = false;
    while let Some(c) = rest.chars().next() {
        let word = WORDS.iter().find(|(w, _)| {
            let own = rest.as_bytes().get(..w.len());
            !is_quoted && own.is_some_and(|o| o == w.as_bytes() || o == w.to_ascii_lowercase().as_bytes())
        });
        if let Some((text, word)) = word {
            found.push(Piece::Pattern(*word, c.is_ascii_lowercase()));
            rest = &rest[text.len()..];
            continue;
        }
        rest = &rest[c.len_utf8()..];
        let next = rest.chars().next();
        match (c, next) {
            ('"', _) => is_quoted = !is_quoted,
            ('\\', Some(n)) if is_quoted || n == '"' => {
                found.push(Piece::Text(n));
                rest = &rest[n.len_utf8()..];
            }
            _ => found.push(Piece::Text(c)),
        }
    }
    found
}

/// Where S puts the sign.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Anchor {
    #[default]
    None,
    Before,
    Behind,
}

/// What the patterns ask for.
#[derive(Clone, Default)]
struct Wanted {
    /// Digits before the point and behind it.
    pre: i32,
    post: i32,
    /// Digits behind V.
    shift: i32,
    /// The digits, from 1, from and to which there are zeros.
    zero_start: i32,
    zero_end: i32,
    anchor: Anchor,
    /// The digits in front of S.
    before_sign: i32,
    has_point: bool,
    has_zero: bool,
    has_sign: bool,
    has_minus: bool,
    has_plus: bool,
    in_brackets: bool,
    is_bare: bool,
    is_blank: bool,
    is_roman: bool,
    is_shifted: bool,
    is_scientific: bool,
}

fn wrong(message: &str) -> SqlError {
    SqlError::new(sqlstate::SYNTAX_ERROR, message)
}

fn together(a: &str, b: &str) -> SqlError {
    wrong(&format!("cannot use \"{a}\" and {b} together"))
}

impl Wanted {
    fn of(pieces: &[Piece]) -> SqlResult<Wanted> {
        let mut w = Wanted::default();
        for piece in pieces {
            if let Piece::Pattern(word, _) = piece {
                w.add(*word)?
            }
        }
        Ok(w)
    }

    fn add(&mut self, word: Word) -> SqlResult<()> {
        if self.is_scientific && word != Word::Exponent {
            return Err(wrong("\"EEEE\" must be the last pattern used"));
        }
        let signs = "\"PL\"/\"MI\"/\"SG\"/\"PR\"";
        match word {
            Word::Nine | Word::Zero if self.in_brackets => {
                let digit = if word == Word::Nine { "9" } else { "0" };
                return Err(wrong(&format!("\"{digit}\" must be ahead of \"PR\"")));
            }
            Word::Nine if self.is_shifted => self.shift += 1,
            Word::Nine if self.has_point => self.post += 1,
            Word::Nine => self.pre += 1,
            Word::Zero => {
                if !self.has_zero && !self.has_point {
                    self.has_zero = true;
                    self.zero_start = self.pre + 1;
                }
                if self.has_point {
                    self.post += 1
                } else {
                    self.pre += 1
                }
                self.zero_end = self.pre + self.post;
            }
            Word::Point | Word::Decimal => {
                if self.has_point {
                    return Err(wrong("multiple decimal points"));
                }
                if self.is_shifted {
                    return Err(together("V", "decimal point"));
                }
                self.has_point = true
            }
            Word::Fill => self.is_bare = true,
            Word::Blank => self.is_blank |= self.pre == 0 && self.post == 0 && !self.has_zero,
            Word::Sign => {
                if self.has_sign {
                    return Err(wrong("cannot use \"S\" twice"));
                }
                if self.has_plus || self.has_minus || self.in_brackets {
                    return Err(together("S", signs));
                }
                self.has_sign = true;
                match self.has_point {
                    true => self.anchor = Anchor::Behind,
                    false => (self.anchor, self.before_sign) = (Anchor::Before, self.pre),
                }
            }
            Word::Minus | Word::Plus | Word::Both => {
                if self.has_sign {
                    let name = match word {
                        Word::Minus => "\"MI\"",
                        Word::Plus => "\"PL\"",
                        _ => "\"SG\"",
                    };
                    return Err(together("S", name));
                }
                self.has_minus |= word != Word::Plus;
                self.has_plus |= word != Word::Minus;
            }
            Word::Bracket => {
                if self.has_sign || self.has_plus || self.has_minus {
                    return Err(together("PR", "\"S\"/\"PL\"/\"MI\"/\"SG\""));
                }
                self.in_brackets = true
            }
            Word::Roman => self.is_roman = true,
            Word::Shift => {
                if self.has_point {
                    return Err(together("V", "decimal point"));
                }
                self.is_shifted = true
            }
            Word::Exponent => {
                if self.is_scientific {
                    return Err(wrong("cannot use \"EEEE\" twice"));
                }
                if self.is_bare
                    || self.is_blank
                    || self.has_sign
                    || self.in_brackets
                    || self.has_minus
                    || self.has_plus
                    || self.is_roman
                    || self.is_shifted
                {
                    return Err(wrong("\"EEEE\" is incompatible with other formats").detail(
                        "\"EEEE\" may only be used together with digit and decimal point patterns.",
                    ));
                }
                self.is_scientific = true
            }
            _ => {}
        }
        Ok(())
    }
}

/// A number to be written: its digits, with a point perhaps, and its sign apart.
struct Digits {
    text: String,
    is_negative: bool,
}

/// Digits and a sign from the usual form of a number.
fn digits(written: &str) -> Digits {
    match written.strip_prefix('-') {
        Some(rest) => Digits { text: rest.to_string(), is_negative: true },
        None => Digits { text: written.to_string(), is_negative: false },
    }
}

/// What a number is to be written as.
trait Number {
    /// Its digits; what is asked for may become less.
    fn digits(&self, wanted: &mut Wanted) -> SqlResult<Digits>;
    /// With an exponent and so many decimals; `None` if it is none of the finite ones.
    fn scientific(&self, decimals: usize) -> SqlResult<Option<String>>;
    /// As an integer.
    fn whole(&self) -> SqlResult<i32>;
}

/// `1.5e+00`, with two digits of the exponent at least.
fn with_exponent(written: &str) -> String {
    let (mantissa, exponent) = written.split_once('e').unwrap_or((written, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(e) => ('-', e),
        None => ('+', exponent),
    };
    format!("{mantissa}e{sign}{exponent:0>2}")
}

/// Ten to so many, as far as it is one.
fn ten_to(n: i32) -> i64 {
    10i64.checked_pow(n.unsigned_abs()).unwrap_or(i64::MAX)
}

fn with_zeros(integer: String, decimals: i32) -> Digits {
    let mut d = digits(&integer);
    if decimals > 0 {
        d.text.push('.');
        d.text.extend(std::iter::repeat_n('0', decimals as usize));
    }
    d
}

impl Number for i32 {
    fn digits(&self, w: &mut Wanted) -> SqlResult<Digits> {
        let mut n = *self;
        if w.is_shifted {
            n = n.wrapping_mul(ten_to(w.shift) as i32);
            w.pre += w.shift;
        }
        Ok(with_zeros(n.to_string(), w.post))
    }
    fn scientific(&self, decimals: usize) -> SqlResult<Option<String>> {
        f64::from(*self).scientific(decimals)
    }
    fn whole(&self) -> SqlResult<i32> {
        Ok(*self)
    }
}

impl Number for i64 {
    fn digits(&self, w: &mut Wanted) -> SqlResult<Digits> {
        let mut n = *self;
        if w.is_shifted {
            n = n.checked_mul(ten_to(w.shift)).ok_or_else(|| super::out_of_range("bigint"))?;
            w.pre += w.shift;
        }
        Ok(with_zeros(n.to_string(), w.post))
    }
    fn scientific(&self, decimals: usize) -> SqlResult<Option<String>> {
        Numeric::from_scaled((*self).into(), 0).scientific(decimals)
    }
    fn whole(&self) -> SqlResult<i32> {
        i32::try_from(*self).map_err(|_| super::out_of_range("integer"))
    }
}

fn out_of(n: &Numeric) -> String {
    let mut written = String::new();
    n.write_to(&mut written);
    written
}

impl Number for Numeric {
    fn digits(&self, w: &mut Wanted) -> SqlResult<Digits> {
        let mut n = self.clone();
        if w.is_shifted {
            let factor = 10i128.checked_pow(w.shift.unsigned_abs()).unwrap_or(i128::MAX);
            n = n.mul(&Numeric::from_scaled(factor, 0))?;
            w.pre += w.shift;
        }
        Ok(digits(&out_of(&n.round(w.post)?)))
    }
    fn scientific(&self, decimals: usize) -> SqlResult<Option<String>> {
        if self.is_nan() || self.is_infinite() {
            return Ok(None);
        }
        let zero = || format!("{:.*}e+00", decimals, 0.0);
        if self.is_zero() {
            return Ok(Some(zero()));
        }
        // The place of the first digit that is not zero, counted from the point.
        let exponent = |n: &Numeric| {
            let text = digits(&out_of(n)).text;
            let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
            match whole.trim_start_matches('0').len() {
                0 => -(part.bytes().take_while(|b| *b == b'0').count() as i32) - 1,
                n => n as i32 - 1,
            }
        };
        let mut place = exponent(self);
        let mut rounded = self.round(decimals as i32 - place)?;
        if exponent(&rounded) != place {
            // 9.99 became 10.
            place += 1;
            rounded = self.round(decimals as i32 - place)?;
        }
        let d = digits(&out_of(&rounded));
        let all: String = d.text.chars().filter(char::is_ascii_digit).collect();
        let mut all = all.trim_start_matches('0').to_string();
        while all.len() < decimals + 1 {
            all.push('0')
        }
        all.truncate(decimals + 1);
        let (first, rest) = all.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        let sign = if d.is_negative { "-" } else { "" };
        Ok(Some(with_exponent(&format!("{sign}{first}{point}{rest}e{place}"))))
    }
    fn whole(&self) -> SqlResult<i32> {
        self.round(0)?.to_i32()
    }
}

/// `%.*f` as C writes it.
fn plain(f: f64, decimals: usize) -> String {
    match f {
        f if f.is_nan() => "NaN".into(),
        f if f.is_infinite() => if f > 0.0 { "Infinity" } else { "-Infinity" }.into(),
        f => format!("{f:.decimals$}"),
    }
}

/// Of a float with so many digits that count.
fn float_digits(f: f64, w: &mut Wanted, most: i32) -> Digits {
    let before = plain(f.abs(), 0).len() as i32;
    if before >= most {
        w.post = 0
    } else if before + w.post > most {
        w.post = most - before
    }
    digits(&plain(f, w.post as usize))
}

impl Number for f64 {
    fn digits(&self, w: &mut Wanted) -> SqlResult<Digits> {
        let mut f = *self;
        if w.is_shifted {
            f *= 10f64.powi(w.shift);
            w.pre += w.shift;
        }
        Ok(float_digits(f, w, f64::DIGITS as i32))
    }
    fn scientific(&self, decimals: usize) -> SqlResult<Option<String>> {
        Ok(self.is_finite().then(|| with_exponent(&format!("{self:.decimals$e}"))))
    }
    fn whole(&self) -> SqlResult<i32> {
        Ok(self.round_ties_even() as i32)
    }
}

impl Number for f32 {
    fn digits(&self, w: &mut Wanted) -> SqlResult<Digits> {
        let mut f = *self;
        if w.is_shifted {
            f *= 10f32.powi(w.shift);
            w.pre += w.shift;
        }
        Ok(float_digits(f.into(), w, f32::DIGITS as i32))
    }
    fn scientific(&self, decimals: usize) -> SqlResult<Option<String>> {
        f64::from(*self).scientific(decimals)
    }
    fn whole(&self) -> SqlResult<i32> {
        f64::from(*self).whole()
    }
}

/// Longer than any Roman number that there is.
const ROMAN_WIDTH: usize = 15;

fn roman(n: i32) -> String {
    const ONES: [&str; 10] = ["", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX"];
    const TENS: [&str; 10] = ["", "X", "XX", "XXX", "XL", "L", "LX", "LXX", "LXXX", "XC"];
    const HUNDREDS: [&str; 10] = ["", "C", "CC", "CCC", "CD", "D", "DC", "DCC", "DCCC", "CM"];
    let Some(n) = usize::try_from(n).ok().filter(|n| (1..4000).contains(n)) else {
        return "#".repeat(ROMAN_WIDTH);
    };
    let (hundreds, tens, ones) = (HUNDREDS[n / 100 % 10], TENS[n / 10 % 10], ONES[n % 10]);
    format!("{}{hundreds}{tens}{ones}", "M".repeat(n / 1000))
}

fn to_char(number: &impl Number, format: &str) -> SqlResult<Value> {
    let pieces = pieces(format);
    let mut w = Wanted::of(&pieces)?;
    if w.is_scientific {
        return Ok(Value::Text(match number.scientific(w.post as usize)? {
            Some(written) if written.starts_with('-') => written,
            Some(written) => format!(" {written}"),
            // As many as a number would have.
            None => format!(" {}.{}", "#".repeat(w.pre as usize), "#".repeat(w.post as usize + 4)),
        }));
    }
    if w.is_roman {
        let text = roman(number.whole()?);
        let bare = Wanted { is_roman: true, is_bare: w.is_bare, ..Wanted::default() };
        return NumberWriter::new(bare, Digits { text, is_negative: false }, 0)
            .write(&pieces)
            .map(Value::Text);
    }
    let mut d = number.digits(&mut w)?;
    let before = d.text.find('.').unwrap_or(d.text.len()) as i32;
    if before > w.pre {
        d.text = format!("{}.{}", "#".repeat(w.pre as usize), "#".repeat(w.post as usize));
    }
    let missing = (w.pre - before).max(0);
    NumberWriter::new(w, d, missing).write(&pieces).map(Value::Text)
}

/// Writes a number by its format.
struct NumberWriter {
    w: Wanted,
    digits: Vec<u8>,
    is_negative: bool,
    /// Digits that the number has not (M1).
    missing: i32,
    /// The next digit.
    at: usize,
    /// The digit's pattern, from 0, and how many there are.
    place: i32,
    places: i32,
    /// Behind which no digits of a bare number count (M3).
    last: Option<usize>,
    sign_is_there: bool,
    /// A digit was written.
    begun: bool,
    out: String,
    /// Where what is written ends: a pattern of a digit or point that the number has not ends it, and so does
    /// the sign of a Roman one.
    end: Option<usize>,
}

impl NumberWriter {
    fn new(mut w: Wanted, digits: Digits, missing: i32) -> NumberWriter {
        if w.zero_start > 0 {
            w.zero_start -= 1
        }
        let bytes = digits.text.into_bytes();
        let is_negative = digits.is_negative;
        let sign_is_there = if w.has_plus || w.has_minus {
            w.has_minus || !w.has_plus
        } else {
            if !is_negative && w.is_bare {
                w.in_brackets = false
            }
            if w.anchor == Anchor::Before && w.pre == w.before_sign {
                w.anchor = Anchor::Behind
            }
            !is_negative && w.is_bare && !w.has_sign || w.is_roman
        };
        let mut last = None;
        if w.is_bare
            && w.has_point
            && let Some(point) = bytes.iter().position(|b| *b == b'.')
        {
            let behind = bytes[point..].iter().rposition(|b| *b != b'0').unwrap_or(0);
            let mut end = point + behind;
            if w.zero_end > missing {
                end = end.max((bytes.len() - 1).min((w.zero_end - missing) as usize))
            }
            last = Some(end)
        }
        let places = w.post + w.pre - 1 + i32::from(!sign_is_there && missing == 0);
        NumberWriter {
            digits: bytes,
            is_negative,
            missing,
            at: 0,
            place: 0,
            places,
            last,
            sign_is_there,
            begun: false,
            out: String::new(),
            end: None,
            w,
        }
    }

    fn digit(&self, at: usize) -> Option<u8> {
        self.digits.get(at).copied()
    }

    fn blank(&mut self) {
        if !self.w.is_bare {
            self.out.push(' ')
        }
    }

    fn write(mut self, pieces: &[Piece]) -> SqlResult<String> {
        for piece in pieces {
            match *piece {
                Piece::Text(c) => self.out.push(c),
                Piece::Pattern(word, is_lower) => self.pattern(word, is_lower)?,
            }
        }
        self.out.truncate(self.end.unwrap_or(self.out.len()));
        Ok(self.out)
    }

    fn ends(&mut self) {
        self.end.get_or_insert(self.out.len());
    }

    fn pattern(&mut self, word: Word, is_lower: bool) -> SqlResult<()> {
        match word {
            Word::Nine | Word::Zero | Word::Point | Word::Decimal => self.part(word),
            Word::Comma | Word::Group if self.begun => self.out.push(','),
            Word::Comma | Word::Group => self.blank(),
            Word::Currency => self.out.push(' '),
            Word::Roman => {
                let text = String::from_utf8_lossy(&self.digits).into_owned();
                let text = if is_lower { text.to_lowercase() } else { text };
                match self.w.is_bare {
                    true => self.out.push_str(&text),
                    false => self.out.push_str(&format!("{text:>ROMAN_WIDTH$}")),
                }
            }
            Word::Ordinal => {
                let is_none = self.w.is_roman
                    || self.digits.first() == Some(&b'#')
                    || self.is_negative
                    || self.w.has_point;
                if !is_none {
                    let number = String::from_utf8_lossy(&self.digits);
                    if !number.ends_with(|c: char| c.is_ascii_digit()) {
                        let message = format!("\"{number}\" is not a number");
                        return Err(SqlError::new(sqlstate::INVALID_TEXT_REPRESENTATION, message));
                    }
                    let ending = super::format::ordinal_ending(&number);
                    self.out.push_str(&if is_lower { ending.to_string() } else { ending.to_uppercase() })
                }
            }
            Word::Both if self.w.is_roman => self.ends(),
            Word::Minus | Word::Plus if self.w.is_roman => self.blank(),
            Word::Minus if self.is_negative => self.out.push('-'),
            Word::Plus if !self.is_negative => self.out.push('+'),
            Word::Minus | Word::Plus => self.blank(),
            Word::Both => self.out.push(if self.is_negative { '-' } else { '+' }),
            _ => {}
        }
        Ok(())
    }

    /// A zero in front of the point that nothing asks for.
    fn is_bare_zero(&self) -> bool {
        !self.w.has_zero && self.at == 0 && self.digit(0) == Some(b'0') && self.w.post != 0
    }

    fn ends_at_point(&self) -> bool {
        self.last.is_some_and(|l| self.digit(l) == Some(b'.'))
    }

    /// The sign in front of the number (M2).
    fn sign(&mut self) {
        let begins = self.place >= self.missing || self.w.has_zero && self.w.zero_start == self.place;
        if self.sign_is_there || !begins || self.is_bare_zero() && !self.ends_at_point() {
            return;
        }
        if self.w.has_sign {
            if self.w.anchor == Anchor::Before {
                self.out.push(if self.is_negative { '-' } else { '+' });
                self.sign_is_there = true
            }
            return;
        }
        match (self.w.in_brackets, self.is_negative) {
            (true, negative) => self.out.push(if negative { '<' } else { ' ' }),
            (false, true) => self.out.push('-'),
            (false, false) => self.blank(),
        }
        self.sign_is_there = true
    }

    /// What stands at the pattern of a digit, or of the point.
    fn part(&mut self, word: Word) {
        if self.w.is_roman {
            return;
        }
        self.begun = false;
        self.sign();
        let is_missing = self.place < self.missing;
        if is_missing && (!self.w.has_zero || self.w.zero_start > self.place) {
            self.blank()
        } else if is_missing {
            self.out.push('0');
            self.begun = true
        } else {
            self.real(word);
            if self.at < self.digits.len() {
                self.at += 1
            }
        }
        let mut end = self.places + i32::from(self.missing > 0) + i32::from(self.w.has_point);
        if self.last == Some(self.at) {
            end = self.place
        }
        if self.place + 1 == end {
            if self.sign_is_there && self.w.in_brackets {
                self.out.push(if self.is_negative { '>' } else { ' ' })
            } else if self.w.has_sign && self.w.anchor == Anchor::Behind {
                self.out.push(if self.is_negative { '-' } else { '+' })
            }
        }
        self.place += 1
    }

    /// A digit that the number has, or its point.
    fn real(&mut self, word: Word) {
        match self.digit(self.at) {
            Some(b'.') => {
                if !self.ends_at_point() || self.w.is_bare {
                    self.out.push('.')
                }
            }
            _ if self.last.is_some_and(|l| self.at > l) && word != Word::Zero => {}
            _ if self.is_bare_zero() => match self.w.is_bare {
                false => self.out.push(' '),
                true if self.ends_at_point() => self.out.push('0'),
                true => {}
            },
            Some(d) => {
                self.out.push(char::from(d));
                self.begun = true
            }
            None => {
                self.ends();
                self.begun = true
            }
        }
    }
}

fn unsupported_for_input(pattern: &str) -> SqlError {
    SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, format!("\"{pattern}\" not supported for input"))
}

/// Reads a number by a format.
struct NumberReader<'a> {
    w: Wanted,
    text: &'a [u8],
    at: usize,
    /// What is read so far, without the sign.
    digits: String,
    sign: Option<u8>,
    before: i32,
    behind: i32,
    has_point: bool,
}

impl NumberReader<'_> {
    fn next(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }
    /// Goes to the next character.
    fn skip(&mut self) {
        self.at += 1;
        while self.next().is_some_and(|b| b & 0xc0 == 0x80) {
            self.at += 1
        }
    }
    /// Skips characters that are no part of a number.
    fn skip_text(&mut self, n: usize) {
        for _ in 0..n {
            match self.next() {
                Some(b'0'..=b'9' | b'.' | b',' | b'+' | b'-') | None => return,
                Some(_) => self.skip(),
            }
        }
    }

    fn pattern(&mut self, word: Word) {
        match word {
            Word::Nine | Word::Zero | Word::Point | Word::Decimal => {
                self.part(word);
                self.at += 1
            }
            Word::Comma | Word::Group if self.next() == Some(b',') => self.at += 1,
            Word::Currency => self.skip_text(1),
            Word::Ordinal if self.w.is_roman || self.sign == Some(b'-') || self.w.has_point => {}
            Word::Ordinal => self.skip_text(2),
            Word::Minus | Word::Plus | Word::Both => {
                let signs: &[u8] = match word {
                    Word::Minus => b"-",
                    Word::Plus => b"+",
                    _ => b"+-",
                };
                match self.next().filter(|b| signs.contains(b)) {
                    Some(sign) => {
                        self.sign = Some(sign);
                        self.at += 1
                    }
                    None => self.skip_text(1),
                }
            }
            _ => {}
        }
    }

    /// A digit or the point, with a sign beside it.
    fn part(&mut self, word: Word) {
        if self.next() == Some(b' ') {
            self.at += 1
        }
        if self.next().is_none() {
            return;
        }
        let count = self.before + self.behind;
        if self.sign.is_none() && matches!(word, Word::Nine | Word::Zero) && count == 0 {
            let in_brackets = self.w.in_brackets;
            let is_anchored = self.w.has_sign && self.w.anchor == Anchor::Before;
            self.sign = match self.next() {
                Some(b'<') if in_brackets && !is_anchored => Some(b'-'),
                here => here.filter(|b| matches!(b, b'+' | b'-')),
            };
            self.at += usize::from(self.sign.is_some());
        }
        let Some(here) = self.next() else { return };
        let mut is_read = false;
        if here.is_ascii_digit() {
            if self.has_point && self.behind == self.w.post {
                return;
            }
            self.digits.push(char::from(here));
            if self.has_point {
                self.behind += 1
            } else {
                self.before += 1
            }
            is_read = true
        } else if self.w.has_point && !self.has_point && here == b'.' {
            self.digits.push('.');
            self.has_point = true;
            is_read = true
        }
        if self.sign.is_none() && self.before + self.behind > 0 {
            // A sign behind the last digit.
            let behind = self.text.get(self.at + 1).copied();
            if self.w.has_sign && is_read {
                if let Some(sign @ (b'+' | b'-')) = behind {
                    self.sign = Some(sign);
                    self.at += 1
                }
            } else if !is_read && !self.w.has_sign && (self.w.has_plus || self.w.has_minus) {
                self.sign = self.next().filter(|b| matches!(b, b'+' | b'-'))
            }
        }
    }
}

fn to_number(text: &str, format: &str, limits: &Limits<'_>) -> SqlResult<Value> {
    if format.is_empty() {
        return Ok(Value::Null);
    }
    let pieces = pieces(format);
    let w = Wanted::of(&pieces)?;
    if w.is_scientific {
        return Err(unsupported_for_input("EEEE"));
    }
    if w.is_roman {
        return Err(unsupported_for_input("RN"));
    }
    let precision = w.pre + w.shift;
    let shift = w.is_shifted.then_some(w.shift);
    let mut r = NumberReader {
        w,
        text: text.as_bytes(),
        at: 0,
        digits: String::new(),
        sign: None,
        before: 0,
        behind: 0,
        has_point: false,
    };
    for piece in &pieces {
        if r.at >= r.text.len() {
            break;
        }
        match *piece {
            Piece::Text(_) => r.skip(),
            Piece::Pattern(word, _) => r.pattern(word),
        }
    }
    let digits = r.digits.strip_suffix('.').unwrap_or(&r.digits);
    let sign = char::from(r.sign.unwrap_or(b' '));
    let scale = r.behind;
    let number =
        Numeric::parse(&format!("{sign}{digits}"))?.apply_typmod((precision + scale) as u32, scale)?;
    Ok(Value::Numeric(match shift {
        None => number,
        Some(n) => {
            let power = Numeric::from_scaled((-n).into(), 0);
            number.mul(&Numeric::from_scaled(10, 0).power(&power, limits)?)?
        }
    }))
}

fn real(c: &Call<'_>) -> SqlResult<f32> {
    Ok(c.opaque(0)?.first_chunk().map_or(0.0, |b| f32::from_le_bytes(*b)))
}

/// The bucket of an operand among so many between two bounds.
fn bucket_of_float(x: f64, low: f64, high: f64, count: i32) -> SqlResult<Value> {
    let no_number = x.is_nan() || low.is_nan() || high.is_nan();
    check_buckets(count, no_number, low.is_infinite() || high.is_infinite())?;
    let beyond = || count.checked_add(1).ok_or_else(|| super::out_of_range("integer"));
    let part = |top: f64, bottom: f64| {
        let n = (f64::from(count) * (top / bottom)) as i32;
        // Rounding may have made it one too many.
        n.min(count - 1) + 1
    };
    // Halved where the difference is no number.
    let far = (high - low).is_infinite();
    let between = |from: f64, to: f64| if far { from / 2.0 - to / 2.0 } else { from - to };
    Ok(Value::Int4(if low < high {
        match x {
            x if x < low => 0,
            x if x >= high => beyond()?,
            x => part(between(x, low), between(high, low)),
        }
    } else if low > high {
        match x {
            x if x > low => 0,
            x if x <= high => beyond()?,
            x => part(between(low, x), between(low, high)),
        }
    } else {
        return Err(invalid_bucket("lower bound cannot equal upper bound"));
    }))
}

fn invalid_bucket(message: &str) -> SqlError {
    SqlError::new("2201G", message)
}

/// Whether there is a bucket to be told.
fn check_buckets(count: i32, no_number: bool, endless: bool) -> SqlResult<()> {
    if count <= 0 {
        return Err(invalid_bucket("count must be greater than zero"));
    }
    if no_number {
        return Err(invalid_bucket("operand, lower bound, and upper bound cannot be NaN"));
    }
    if endless {
        return Err(invalid_bucket("lower and upper bounds must be finite"));
    }
    Ok(())
}

fn bucket_of_numeric(x: &Numeric, low: &Numeric, high: &Numeric, count: i32) -> SqlResult<Value> {
    let no_number = x.is_nan() || low.is_nan() || high.is_nan();
    check_buckets(count, no_number, low.is_infinite() || high.is_infinite())?;
    let beyond = || count.checked_add(1).ok_or_else(|| super::out_of_range("integer"));
    let part = |top: Numeric, bottom: Numeric| -> SqlResult<i32> {
        let many = top.mul(&Numeric::from_scaled(count.into(), 0))?;
        many.div_trunc(&bottom)?.to_i32().map(|n| n.min(count - 1) + 1)
    };
    let order = low.cmp(high);
    Ok(Value::Int4(match order {
        std::cmp::Ordering::Equal => return Err(invalid_bucket("lower bound cannot equal upper bound")),
        std::cmp::Ordering::Less if *x < *low => 0,
        std::cmp::Ordering::Less if *x >= *high => beyond()?,
        std::cmp::Ordering::Less => part(x.sub(low)?, high.sub(low)?)?,
        std::cmp::Ordering::Greater if *x > *low => 0,
        std::cmp::Ordering::Greater if *x <= *high => beyond()?,
        std::cmp::Ordering::Greater => part(low.sub(x)?, low.sub(high)?)?,
    }))
}

functions! {
    1503 TO_CHAR_INT4 "to_char" (Int4, Text) -> Text = |c| to_char(&c.int4(0)?, c.text(1)?), stable;
    1504 TO_CHAR_INT8 "to_char" (Int8, Text) -> Text = |c| to_char(&c.int8(0)?, c.text(1)?), stable;
    1505 TO_CHAR_FLOAT4 "to_char" (Float4, Text) -> Text = |c| to_char(&real(c)?, c.text(1)?), stable;
    1506 TO_CHAR_FLOAT8 "to_char" (Float8, Text) -> Text = |c| to_char(&c.float8(0)?, c.text(1)?), stable;
    1507 TO_CHAR_NUMERIC "to_char" (Numeric, Text) -> Text =
        |c| to_char(&c.numeric(0)?, c.text(1)?), stable;
    1508 TO_NUMBER "to_number" (Text, Text) -> Numeric = |c| to_number(c.text(0)?, c.text(1)?, c.limits()), stable;
    1509 WIDTH_BUCKET_FLOAT8 "width_bucket" (Float8, Float8, Float8, Int4) -> Int4 =
        |c| bucket_of_float(c.float8(0)?, c.float8(1)?, c.float8(2)?, c.int4(3)?);
    1510 WIDTH_BUCKET_NUMERIC "width_bucket" (Numeric, Numeric, Numeric, Int4) -> Int4 =
        |c| bucket_of_numeric(&c.numeric(0)?, &c.numeric(1)?, &c.numeric(2)?, c.int4(3)?);
}
