//! Data that functions look into, and that other builds of this program may have in other versions.
//!
//! What a function of the catalogue makes of the same arguments may differ between two builds where it looks
//! into data ([`crate::func::FuncDef::data`]): it is immutable in a build, as PostgreSQL means the word. So
//! whoever keeps such results says with which version they were computed.
use crate::datetime::zone;
use std::collections::BTreeMap;

/// A body of data that has versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Data {
    /// Which characters are letters, digits and so on, and what they are in upper and lower case.
    Unicode,
    /// When clocks were set to what, in which zone.
    TimeZones,
}

/// Versions, of all data or of what something was computed with.
pub type DataVersions = BTreeMap<Data, String>;

impl Data {
    pub const ALL: [Data; 2] = [Data::Unicode, Data::TimeZones];

    /// As it is stored.
    pub fn code(self) -> &'static str {
        match self {
            Data::Unicode => "unicode",
            Data::TimeZones => "time zones",
        }
    }
    pub fn of_code(code: &str) -> Option<Data> {
        Data::ALL.into_iter().find(|d| d.code() == code)
    }
    /// As messages call it, before its version.
    pub fn name(self) -> &'static str {
        match self {
            Data::Unicode => "Unicode",
            Data::TimeZones => "time zone database",
        }
    }
    /// The version that this build has.
    pub fn version(self) -> String {
        match self {
            Data::Unicode => {
                let (major, minor, update) = char::UNICODE_VERSION;
                format!("{major}.{minor}.{update}")
            }
            Data::TimeZones => zone::VERSION.into(),
        }
    }
    /// The version that was in use where none was recorded: all builds that recorded none had these.
    pub fn unrecorded(self) -> &'static str {
        match self {
            Data::Unicode => "17.0.0",
            Data::TimeZones => "2026b",
        }
    }
    /// Those of this build.
    pub fn versions() -> DataVersions {
        Data::ALL.into_iter().map(|d| (d, d.version())).collect()
    }
}
