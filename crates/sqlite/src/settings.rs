//! What a database's URI asks for.
use crate::sharing::Mechanism;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// SQLite's own layout and checkpoints; a database that is in our care already is used as it is.
    Copy,
    /// Takes databases into our care, so that checkpoints can share blocks.
    Remap,
    /// The one or the other, as it pays.
    Auto,
    /// As copy, and the files are mapped where they can be.
    Pmem,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub mode: Mode,
    /// Become the default VFS.
    pub default: bool,
    /// Blocks of 4 KiB that a run must have to be shared; a shorter one is copied. None where nothing is
    /// said.
    pub least_blocks: Option<u32>,
    /// How blocks are shared; None: by exchanging them, where the file system does.
    pub mechanism: Option<Mechanism>,
}

impl Settings {
    /// `parameter` gives a URI parameter's value. The error says what was found and what is understood.
    pub fn read(parameter: impl Fn(&'static std::ffi::CStr) -> Option<String>) -> Result<Settings, String> {
        let mode = match parameter(c"ondol").as_deref() {
            None | Some("auto") => Mode::Auto,
            Some("copy") => Mode::Copy,
            Some("remap") => Mode::Remap,
            Some("pmem") => Mode::Pmem,
            Some(other) => return Err(format!("ondol={other} is unknown: use auto, remap, pmem or copy")),
        };
        let default = match parameter(c"ondol_default").as_deref() {
            None | Some("0") => false,
            Some("1") => true,
            Some(other) => return Err(format!("ondol_default={other} is unknown: use 0 or 1")),
        };
        let least_blocks = match parameter(c"ondol_run") {
            None => None,
            Some(text) => match text.parse() {
                Ok(blocks @ 1..=4096) => Some(blocks),
                _ => {
                    return Err(format!(
                        "ondol_run={text}: expected a number of 4 KiB blocks from 1 to 4096"
                    ));
                }
            },
        };
        let mechanism = match parameter(c"ondol_mechanism").as_deref() {
            None => None,
            Some("clone") => Some(Mechanism::Clone),
            Some("exchange") => Some(Mechanism::Exchange),
            Some(other) => return Err(format!("ondol_mechanism={other} is unknown: use clone or exchange")),
        };
        Ok(Settings { mode, default, least_blocks, mechanism })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &'static str) -> Result<Settings, String> {
        Settings::read(|key| {
            let key = key.to_str().expect("ASCII");
            text.split('&').find_map(|p| p.strip_prefix(key)?.strip_prefix('=').map(str::to_string))
        })
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let plain = Settings { mode: Mode::Auto, default: false, least_blocks: None, mechanism: None };
        assert_eq!(of(""), Ok(plain));
        assert_eq!(
            of("ondol=remap&ondol_run=2").map(|s| (s.mode, s.least_blocks)),
            Ok((Mode::Remap, Some(2)))
        );
        assert_eq!(of("ondol_mechanism=exchange").map(|s| s.mechanism), Ok(Some(Mechanism::Exchange)));
        assert_eq!(of("ondol=copy").map(|s| s.mode), Ok(Mode::Copy));
        assert_eq!(of("ondol=pmem").map(|s| s.mode), Ok(Mode::Pmem));
        assert_eq!(of("ondol_default=1").map(|s| s.default), Ok(true));
        for (text, says) in [
            ("ondol=REMAP", "unknown"),
            ("ondol_default=yes", "unknown"),
            ("ondol_run=0", "from 1"),
            ("ondol_mechanism=move", "unknown"),
        ] {
            assert!(of(text).is_err_and(|e| e.contains(says)), "{text}");
        }
    }
}
