//! Between a session and the interpreter: compiling, running, what a running statement may know of the world.
use crate::planned::Plan;
use crate::session::Session;
use ondol_engine::Token;
use ondol_sql::bound::Bound;
use ondol_sql::code::Program;
use ondol_sql::interpret::rows::Sink;
use ondol_types::func::Context;
use ondol_types::{SqlResult, Value, ValueRef};
use std::sync::Arc;
