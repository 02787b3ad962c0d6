//! Retention against a plain model (S1): what stays is what the model says, wherever saves come in between.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use schemas::job::{Retention, RetentionReport};
use serde_json::{Value, json};
use store::credentials::Credentials;
use store::jobs::{Job, JobKind, JobState};

use crate::deployment::Deployment;

const DAY_MS: i64 = 86_400_000;
/// Project and days it keeps; 0 for ever.
const PROJECTS: [(&str, u32); 3] = [("p", 3), ("q", 5), ("z", 0)];

fn today_ms() -> i64 {
    let now_ms = chrono::Utc::now().timestamp_millis();
    now_ms - now_ms.rem_euclid(DAY_MS)
}

/// What a client reported.
#[derive(Clone, Debug)]
struct Event {
    project: &'static str,
    run: String,
    name: &'static str,
    parent: Option<String>,
    at_ms: i64,
}

impl Event {
    fn is_mark(&self) -> bool {
        ["saved", "unsaved", "feedback"].contains(&self.name)
    }

    fn is_message(&self) -> bool {
        self.name == "chat"
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name, "run_id": self.run, "parent_run_id": self.parent, "timestamp": self.at_ms, "type": "llm",
            "cost": if self.is_mark() || self.is_message() { Value::Null } else { json!(self.at_ms % 7) },
            "role": "user", "content": "hello", "rating": "positive",
            "thread_id": (self.at_ms % 3 == 0 && !self.is_message()).then_some("talk"),
        })
    }
}

/// Everything that was reported, and what the rules make of it.
#[derive(Clone, Debug, Default)]
struct Model(Vec<Event>);

type Ids = BTreeSet<(&'static str, String)>;

impl Model {
    fn random(random: &mut StdRng, runs: usize) -> Self {
        let mut model = Self::default();
        for at in 0..runs {
            let (project, _) = PROJECTS[random.random_range(0..3)];
            let run = format!("r{at}");
            let start = today_ms() - random.random_range(0..9 * DAY_MS);
            // Most are over soon; some end days later, and some never end.
            let parent = random
                .random_bool(0.7)
                .then(|| format!("r{}", random.random_range(0..runs)));
            let event = |run: &str, name, parent: Option<&String>, at_ms| Event {
                project,
                run: run.to_owned(),
                name,
                parent: parent.cloned(),
                at_ms,
            };
            model
                .0
                .push(event(&run, "llm_start", parent.as_ref(), start));
            if random.random_bool(0.8) {
                let length = if random.random_bool(0.1) {
                    2 * DAY_MS
                } else {
                    5000
                };
                let end = (start + random.random_range(0..length)).min(today_ms() + DAY_MS);
                model.0.push(event(&run, "llm_end", None, end));
            }
            let near = start + random.random_range(-DAY_MS..DAY_MS);
            match random.random_range(0..12) {
                0 => model.0.push(event(&run, "saved", None, near)),
                1 => {
                    model.0.push(event(&run, "saved", None, near));
                    model.0.push(event(&run, "unsaved", None, near + 1));
                }
                2 => model.0.push(event(&run, "feedback", None, near)),
                3 => model
                    .0
                    .push(event(&format!("never-seen-{at}"), "saved", None, near)),
                4..7 => {
                    let message = format!("m{at}");
                    model.0.push(event(&message, "chat", Some(&run), near));
                    if random.random_bool(0.5) {
                        model.0.push(event(&message, "feedback", None, near));
                    }
                    if random.random_bool(0.1) {
                        model.0.push(event(&message, "saved", None, near + 5));
                    }
                }
                _ => {}
            }
        }
        model
    }

    fn cutoff_ms(project: &str) -> Option<i64> {
        let (_, days) = PROJECTS.iter().find(|(name, _)| *name == project).unwrap();
        (*days > 0).then(|| today_ms() - i64::from(*days) * DAY_MS)
    }

    /// Whether the day of this moment is older than the project keeps.
    fn is_old(project: &str, at_ms: i64) -> bool {
        Self::cutoff_ms(project).is_some_and(|cutoff_ms| at_ms < cutoff_ms)
    }

    fn runs(&self) -> BTreeMap<(&'static str, String), Vec<&Event>> {
        let mut runs: BTreeMap<_, Vec<&Event>> = BTreeMap::new();
        for event in self.0.iter().filter(|event| !event.is_message()) {
            runs.entry((event.project, event.run.clone()))
                .or_default()
                .push(event);
        }
        runs.retain(|_, events| events.iter().any(|event| !event.is_mark()));
        runs
    }

    fn started_ms(events: &[&Event]) -> i64 {
        let starts = events.iter().filter(|event| event.name == "llm_start");
        starts.map(|event| event.at_ms).min().unwrap()
    }

    fn parent(events: &[&Event]) -> Option<String> {
        events.iter().find_map(|event| event.parent.clone())
    }

    fn kept(&self) -> Ids {
        let mut newest: BTreeMap<(&str, &str), (i64, bool)> = BTreeMap::new();
        for event in self
            .0
            .iter()
            .filter(|event| ["saved", "unsaved"].contains(&event.name))
        {
            let mark = newest.entry((event.project, &event.run)).or_default();
            *mark = (*mark).max((event.at_ms, event.name == "saved"));
        }
        let runs = self.runs();
        let project_of = |name: &str| {
            PROJECTS
                .iter()
                .find(|(project, _)| *project == name)
                .unwrap()
                .0
        };
        // A save of something that never came keeps nothing.
        let is_there = |project: &str, run: &str| {
            let mut all = self.0.iter().filter(|event| event.project == project);
            all.any(|event| {
                let is_it = event.run == run && !event.is_mark();
                is_it || event.parent.as_deref() == Some(run)
            })
        };
        let saved: Ids = newest
            .into_iter()
            .filter(|((project, run), (_, saved))| *saved && is_there(project, run))
            .map(|((project, run), _)| (project_of(project), run.to_owned()))
            .collect();
        // Below: runs and messages.
        let mut below = saved.clone();
        loop {
            let more: Ids = self
                .0
                .iter()
                .filter(|event| {
                    let named = match runs.get(&(event.project, event.run.clone())) {
                        Some(events) if !event.is_message() => Self::parent(events),
                        _ => event.parent.clone(),
                    };
                    named.is_some_and(|parent| below.contains(&(event.project, parent)))
                })
                .map(|event| (event.project, event.run.clone()))
                .filter(|id| !below.contains(id))
                .collect();
            if more.is_empty() {
                break;
            }
            below.extend(more);
        }
        let mut kept = below;
        for (project, run) in &saved {
            let mut cursor = runs
                .get(&(*project, run.clone()))
                .and_then(|events| Self::parent(events));
            while let Some(parent) = cursor {
                let id = (*project, parent);
                cursor = runs.get(&id).and_then(|events| Self::parent(events));
                if !kept.insert(id) && cursor.is_none() {
                    break;
                }
                if cursor
                    .as_ref()
                    .is_some_and(|next| kept.contains(&(*project, next.clone())))
                {
                    // In a cycle, or met before: what is above it was kept then, unless it came from below.
                    let mut seen = Ids::new();
                    while let Some(next) = cursor.take() {
                        let id = (*project, next);
                        if !seen.insert(id.clone()) {
                            break;
                        }
                        cursor = runs.get(&id).and_then(|events| Self::parent(events));
                        kept.insert(id);
                    }
                    break;
                }
            }
        }
        for ((project, run), events) in &runs {
            let own: Vec<&&Event> = events.iter().filter(|event| !event.is_mark()).collect();
            let last = own.iter().map(|event| event.at_ms).max().unwrap();
            let first = own.iter().map(|event| event.at_ms).min().unwrap();
            let judged = events.iter().filter(|event| event.name == "feedback");
            let first = judged
                .map(|event| event.at_ms)
                .max()
                .unwrap_or(first)
                .min(first);
            if Self::is_old(project, first) && !Self::is_old(project, last) {
                kept.insert((project, run.clone()));
            }
        }
        // Messages under whatever is kept.
        let messages: Ids = self
            .0
            .iter()
            .filter(|event| event.is_message())
            .filter(|event| {
                event
                    .parent
                    .clone()
                    .is_some_and(|parent| kept.contains(&(event.project, parent)))
            })
            .map(|event| (event.project, event.run.clone()))
            .collect();
        kept.extend(messages);
        kept
    }

    fn stays(&self, event: &Event, kept: &Ids) -> bool {
        !Self::is_old(event.project, event.at_ms)
            || kept.contains(&(event.project, event.run.clone()))
    }

    /// Lines that say what is in the tables after retention.
    fn expected(&self) -> BTreeSet<String> {
        let kept = self.kept();
        let mut lines = BTreeSet::new();
        for event in self.0.iter().filter(|event| self.stays(event, &kept)) {
            let Event {
                project,
                run,
                name,
                at_ms,
                ..
            } = event;
            lines.insert(format!("event {project} {run} {name} {at_ms}"));
            match *name {
                "chat" => lines.insert(format!("message {project} {run} {at_ms}")),
                "feedback" => lines.insert(format!("feedback {project} {run} {at_ms}")),
                _ => false,
            };
        }
        for ((project, run), events) in self.runs() {
            let start = Self::started_ms(&events);
            if !Self::is_old(project, start) || kept.contains(&(project, run.clone())) {
                lines.insert(format!("run {project} {run} {start}"));
            }
        }
        lines
    }
}

async fn found(deployment: &Deployment) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for (table, columns) in [
        (
            "event",
            "name, ' ', toString(toUnixTimestamp64Milli(timestamp)) FROM events FINAL",
        ),
        (
            "run",
            "toString(toUnixTimestamp64Milli(started_at)) FROM runs FINAL",
        ),
        (
            "message",
            "toString(toUnixTimestamp64Milli(timestamp)) FROM messages FINAL",
        ),
        (
            "feedback",
            "toString(toUnixTimestamp64Milli(timestamp)) FROM feedback FINAL",
        ),
    ] {
        let (values, from) = columns.split_once(" FROM ").unwrap();
        let sql = format!(
            "SELECT concat('{table} ', project_id, ' ', run_id, ' ', {values}) FROM {from}"
        );
        let rows: Vec<String> = deployment.store.bounded_query(&sql).rows().await.unwrap();
        lines.extend(rows);
    }
    lines
}

fn assert_same(found: &BTreeSet<String>, expected: &BTreeSet<String>) {
    let missing: Vec<&String> = expected.difference(found).collect();
    let extra: Vec<&String> = found.difference(expected).collect();
    assert!(
        missing.is_empty() && extra.is_empty(),
        "missing {missing:#?}\nextra {extra:#?}"
    );
}

async fn deployment() -> Deployment {
    let deployment = Deployment::new().await;
    let credentials = Credentials::new((*deployment.store).clone());
    for (project, days) in PROJECTS {
        let project = schemas::ids::ProjectId::new(project);
        credentials.put_project(&project, "a", &[]).await.unwrap();
        credentials.set_retention(&project, days).await.unwrap();
    }
    deployment
}

async fn report(deployment: &Deployment, events: &[Event]) {
    for (project, _) in PROJECTS {
        let of_project = events.iter().filter(|event| event.project == project);
        let of_project: Vec<Value> = of_project.map(Event::json).collect();
        if !of_project.is_empty() {
            deployment.report(project, "a", &of_project).await;
        }
    }
}

fn retention(dry_run: bool) -> Retention {
    Retention {
        dry_run,
        trust_clock: false,
    }
}

fn report_of(job: &Job) -> RetentionReport {
    serde_json::from_str(&job.report).unwrap()
}

/// Saves of runs, below runs and above runs of what is about to be dropped.
fn late_saves(random: &mut StdRng, model: &Model, count: usize) -> Vec<Event> {
    let runs: Vec<(&'static str, String)> = model.runs().into_keys().collect();
    let saves = (0..count).map(|_| {
        let (project, run) = runs[random.random_range(0..runs.len())].clone();
        Event {
            project,
            run,
            name: "saved",
            parent: None,
            at_ms: today_ms() + random.random_range(0..1000),
        }
    });
    saves.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stays_is_what_the_rules_say_and_a_dry_run_says_what_goes_s1() {
    let mut random = StdRng::seed_from_u64(11);
    let model = Model::random(&mut random, 150);
    let mut deployment = deployment().await;
    report(&deployment, &model.0).await;
    deployment.start_runner();
    let dry = deployment
        .ask(JobKind::Retention, None, &retention(true))
        .await;
    let said = deployment.done(&dry.job_id).await;
    let everything = found(&deployment).await;
    assert_eq!(
        everything
            .iter()
            .filter(|line| line.starts_with("event"))
            .count(),
        model.0.len(),
        "a dry run drops nothing"
    );
    let job = deployment
        .ask(JobKind::Retention, None, &retention(false))
        .await;
    let did = deployment.done(&job.job_id).await;
    let left = found(&deployment).await;
    assert_same(&left, &model.expected());
    assert_eq!(
        (report_of(&did), did.changed),
        (report_of(&said), said.changed)
    );
    let gone = |kind: &str| {
        let count =
            |lines: &BTreeSet<String>| lines.iter().filter(|line| line.starts_with(kind)).count();
        (count(&everything) - count(&left)) as u64
    };
    let told = report_of(&did).projects;
    let sum = |of: fn(&schemas::job::ProjectRetention) -> u64| told.iter().map(of).sum::<u64>();
    assert_eq!(
        (
            sum(|of| of.runs),
            sum(|of| of.events),
            sum(|of| of.messages),
            sum(|of| of.feedback)
        ),
        (
            gone("run"),
            gone("event"),
            gone("message"),
            gone("feedback")
        )
    );
    assert!(
        told.iter().all(|of| of.project_id != "z" && of.bytes > 0),
        "{told:?}"
    );
    let job = deployment
        .ask(JobKind::Retention, None, &retention(false))
        .await;
    let again = deployment.done(&job.job_id).await;
    assert_eq!(
        (again.changed, report_of(&again).projects.len()),
        (0, 0),
        "nothing more goes"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_save_at_any_moment_of_the_job_is_honoured_s1() {
    for seed in 20..22 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut model = Model::random(&mut random, 120);
        let mut deployment = deployment().await;
        report(&deployment, &model.0).await;
        deployment.start_runner();
        let mut honoured = 0;
        let job = deployment
            .ask(JobKind::Retention, None, &retention(false))
            .await;
        // Each save makes the job longer: without a bound, a slow machine never catches up.
        for _ in 0..60 {
            if deployment.job(&job.job_id).await.state.is_over() {
                break;
            }
            let saves = late_saves(&mut random, &model, 1);
            report(&deployment, &saves).await;
            // A client that still sees all of it after the answer may rely on the save.
            let mut with_save = model.clone();
            with_save.0.extend(saves);
            let lines = with_save.expected();
            // The mark itself is there once it is stored.
            let is_mark = |line: &&String| line.contains(" saved ");
            if found(&deployment).await.is_superset(
                &lines
                    .iter()
                    .filter(|line| !is_mark(line))
                    .cloned()
                    .collect(),
            ) {
                model = with_save;
                honoured += 1;
            }
            tokio::time::sleep(Duration::from_millis(random.random_range(0..300))).await;
        }
        let done = deployment.done(&job.job_id).await;
        eprintln!("{honoured} saves; {:?}", report_of(&done));
        deployment.drained().await;
        let left = found(&deployment).await;
        let missing: Vec<String> = model.expected().difference(&left).cloned().collect();
        assert!(missing.is_empty(), "seed {seed}: {missing:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_anywhere_retention_comes_to_the_same_end_r1() {
    let mut random = StdRng::seed_from_u64(31);
    let mut model = Model::random(&mut random, 150);
    let mut deployment = deployment().await;
    report(&deployment, &model.0).await;
    deployment.drained().await;
    let job = deployment
        .ask(JobKind::Retention, None, &retention(false))
        .await;
    let mut kills = 0;
    let mut unfinished = 0;
    while kills < 12 {
        deployment.start_runner();
        // After so many days, and then anywhere in the next one.
        let days = random.random_range(0..12);
        for _ in 0..1000 {
            let job = deployment.job(&job.job_id).await;
            if job.state.is_over() || job.started_at.is_some() && job.done >= days {
                break;
            }
        }
        if deployment.job(&job.job_id).await.state.is_over() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(random.random_range(0..60))).await;
        if kills % 5 == 2 {
            let saves = late_saves(&mut random, &model, 1);
            report(&deployment, &saves).await;
            model.0.extend(saves);
        }
        deployment.kill_runner().await;
        kills += 1;
        unfinished += u32::from(deployment.store.retention().is_unfinished().await.unwrap());
    }
    if kills == 12 {
        deployment.start_runner();
    }
    let done = deployment.done(&job.job_id).await;
    eprintln!(
        "killed {kills} times, {unfinished} of them with days put aside; {:?}",
        report_of(&done)
    );
    deployment.drained().await;
    assert_same(&found(&deployment).await, &model.expected());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_went_forward_by_weeks_drops_nothing_until_it_is_trusted() {
    let event = |run: &str, days_ago: i64| Event {
        project: "p",
        run: run.to_owned(),
        name: "llm_start",
        parent: None,
        at_ms: today_ms() - days_ago * DAY_MS,
    };
    let mut deployment = deployment().await;
    report(&deployment, &[event("young", 20), event("old", 60)]).await;
    // Project p keeps 3 days, and retention last looked 45 days ago: to it the clock is as far ahead.
    let seen_ms = chrono::Utc::now().timestamp_millis() - 45 * DAY_MS;
    let clock = json!({"trusted_ms": seen_ms, "seen_ms": seen_ms, "lasted_ms": 0}).to_string();
    let kept = deployment
        .store
        .set_deployment_value("retention_clock", &clock);
    kept.await.unwrap();
    deployment.start_runner();
    let did = async |asked: &Retention| {
        let job = deployment.ask(JobKind::Retention, None, asked).await;
        let report = report_of(&deployment.done(&job.job_id).await);
        let runs: u64 = report.projects.iter().map(|of| of.runs).sum();
        (runs, report.clock_ahead_days)
    };
    let trusting = |dry_run| Retention {
        dry_run,
        trust_clock: true,
    };
    assert_eq!(did(&retention(true)).await, (1, 45));
    assert_eq!(did(&retention(false)).await, (1, 45), "only the old one");
    assert_eq!(did(&trusting(true)).await, (1, 0), "says what would go");
    assert_eq!(did(&retention(false)).await, (0, 45), "and trusts nothing");
    assert_eq!(did(&trusting(false)).await, (1, 0));
    assert_eq!(did(&retention(false)).await, (0, 0), "from then on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_job_whose_steps_keep_failing_makes_way_for_others() {
    let mut deployment = deployment().await;
    // Every row takes more memory than a statement may have: an error that may be gone the next time, and never is.
    let table = "CREATE TABLE retention_limits (project_id String, cutoff DateTime64(3, 'UTC'), \
                 much UInt64 MATERIALIZED length(range(toUInt64(200000000 + length(project_id))))) \
                 ENGINE = MergeTree ORDER BY project_id";
    deployment.store.run(table).await.unwrap();
    let asked = retention(true);
    let stuck = deployment.ask(JobKind::Retention, None, &asked).await;
    deployment.start_runner();
    let begins = async {
        while deployment.job(&stuck.job_id).await.state != JobState::Running {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), begins)
        .await
        .expect("begins");
    let now_ms = chrono::Utc::now().timestamp_millis();
    let jobs = deployment.store.jobs();
    jobs.cancel(&stuck.job_id, now_ms).await.unwrap();
    let repair = "DROP TABLE retention_limits SYNC";
    let next = deployment
        .ask(JobKind::Recalculate, None, &json!({"dry_run": true}))
        .await;
    deployment.done(&next.job_id).await;
    deployment.store.run(repair).await.unwrap();
    let stuck = deployment.job(&stuck.job_id).await;
    assert_eq!(stuck.state, JobState::Cancelled);
}
