//! An agent with a model that is a function: run it against a server with `SPINDLE_URL` and `SPINDLE_API_KEY` set.

use spindle_client::{Client, Rating, Role, Run, Settings, Tokens};

/// Stands in for a model.
fn model(question: &str) -> (String, Tokens) {
    let answer = format!("{question} That is on its way.");
    (answer, Tokens::new(21, 9))
}

/// A tool that may fail.
fn look_up(order: u32) -> Result<&'static str, String> {
    match order {
        4711 => Ok("shipped"),
        _ => Err(format!("there is no order {order}")),
    }
}

fn ask(run: &Run, question: &str) -> String {
    let call = run.llm("gpt-4o-mini").input(question).start();
    let (answer, tokens) = model(question);
    call.tokens(tokens).end(&answer);
    answer
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::start(Settings::from_env())?;
    let question = "Where is my order?";
    client
        .chat(Role::User, question)
        .thread("example")
        .user("ann@example.com")
        .send();

    let run = client
        .agent("clerk")
        .input(question)
        .user("ann@example.com")
        .thread("example")
        .tag("example")
        .start();
    let found = run
        .tool("look_up")
        .input(4711)
        .observe(async |_| look_up(4711))
        .await?;
    let answer = ask(&run, &format!("{question} It is {found}."));
    // A failure is reported as a run with an error, and is no reason to stop here.
    let _ = run
        .tool("look_up")
        .input(1)
        .observe_blocking(|_| look_up(1));
    let run_id = run.id().to_owned();
    run.end(&answer);

    let message = client
        .chat(Role::Assistant, answer)
        .thread("example")
        .send();
    client.feedback(message, Rating::Positive, Some("quick"));
    client.saved(&run_id);

    let stats = client.close().await;
    println!(
        "run {run_id}: {} of {} events sent",
        stats.sent, stats.queued
    );
    match stats.dropped.total() + stats.rejected {
        0 => Ok(()),
        lost => Err(format!("{lost} events did not reach the server").into()),
    }
}
