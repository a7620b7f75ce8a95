//! tokio-postgres and sqlx: what a program does with them. Prints a line for each exercise.
mod sqlx_;
mod tokio_postgres_;

pub type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Fails with what was found instead.
pub fn expect(good: bool, what: impl std::fmt::Debug) -> Outcome {
    if good { Ok(()) } else { Err(format!("unexpected: {what:?}").into()) }
}

pub fn tell(name: &str, outcome: Outcome) {
    match outcome {
        Ok(()) => println!("ok {name}"),
        Err(e) => println!("FAIL {name}: {}", e.to_string().replace('\n', " ")),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments[1].as_str() {
        "sqlx" => sqlx_::run(&arguments[2]).await,
        _ => tokio_postgres_::run(&arguments[2]).await,
    }
}
