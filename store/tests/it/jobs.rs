//! Jobs: queued, one at a time, continued after a crash, and never revived by a late write of their runner.

use crate::database;
use store::jobs::{Asked, Job, JobKind, JobState, Jobs, NewJob};

const NOW_MS: i64 = 1_795_168_800_000;

async fn ask(jobs: &Jobs, kind: JobKind, project: Option<&str>, now_ms: i64) -> Asked {
    let new = NewJob {
        kind,
        project_id: project.map(str::to_owned),
        parameters: "{\"dry_run\":true}".to_owned(),
    };
    jobs.create(new, now_ms).await.unwrap()
}

async fn made(jobs: &Jobs, kind: JobKind, project: Option<&str>) -> Job {
    match ask(jobs, kind, project, NOW_MS).await {
        Asked::Made(job, _) => job,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_run_in_the_order_of_their_requests_and_the_same_request_is_one() {
    let store = database().await.unwrap();
    let jobs = store.jobs();
    let all = [
        (JobKind::Recalculate, Some("a")),
        (JobKind::Recalculate, Some("b")),
        (JobKind::Retention, None),
        (JobKind::Recalculate, None),
    ];
    let mut ids = Vec::new();
    for (at, (kind, project)) in all.into_iter().enumerate() {
        let asked = ask(&jobs, kind, project, NOW_MS + at as i64).await;
        let Asked::Made(job, place) = asked else {
            panic!("{asked:?}");
        };
        assert_eq!(place, at as u64 + 1);
        ids.push(job.job_id);
    }
    for (at, (kind, project)) in all.into_iter().enumerate() {
        let asked = ask(&jobs, kind, project, NOW_MS + 9).await;
        let Asked::Same(job, place) = asked else {
            panic!("{asked:?}");
        };
        assert_eq!((&job.job_id, place), (&ids[at], at as u64 + 1));
    }
    for id in &ids {
        let mut job = jobs.claim("one", NOW_MS).await.unwrap().unwrap();
        assert_eq!(job.job_id, *id);
        job.state = JobState::Done;
        assert!(jobs.write(&mut job, NOW_MS).await.unwrap());
    }
    assert!(jobs.claim("one", NOW_MS).await.unwrap().is_none());
    // Requested at the same time, it is one too.
    let asked = (0..8).map(|_| ask(&jobs, JobKind::Retention, None, NOW_MS));
    let asked = futures::future::join_all(asked).await;
    let made = asked
        .iter()
        .filter(|asked| matches!(asked, Asked::Made(..)));
    assert_eq!(made.count(), 1);
    assert_eq!(jobs.open().await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_has_begun_is_first_and_takes_no_further_request() {
    let store = database().await.unwrap();
    let jobs = store.jobs();
    let first = made(&jobs, JobKind::Recalculate, Some("a")).await;
    let mut job = jobs.claim("one", NOW_MS).await.unwrap().unwrap();
    // It may have passed what has changed since. The clock of this request is behind.
    let second = ask(&jobs, JobKind::Recalculate, Some("a"), NOW_MS - 5).await;
    let Asked::Made(second, 1) = second else {
        panic!("{second:?}");
    };
    job.state = JobState::Queued;
    assert!(
        jobs.write(&mut job, NOW_MS).await.unwrap(),
        "its process stops"
    );
    let queue = jobs.queue().await.unwrap();
    assert_eq!(queue.place(&first.job_id), 1);
    assert_eq!(queue.place(&second.job_id), 2);
    let third = ask(&jobs, JobKind::Recalculate, Some("a"), NOW_MS + 5).await;
    assert!(matches!(&third, Asked::Same(job, 2) if job.job_id == second.job_id));
    for id in [&first.job_id, &second.job_id] {
        let mut job = jobs.claim("two", NOW_MS).await.unwrap().unwrap();
        assert_eq!(job.job_id, *id);
        job.state = JobState::Done;
        assert!(jobs.write(&mut job, NOW_MS).await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_job_begins_when_the_runner_of_a_canceled_one_has_stopped() {
    let store = database().await.unwrap();
    let processes = [store.of_several().unwrap(), store.of_several().unwrap()];
    let [one, two] = processes.each_ref().map(store::Store::jobs);
    let first = made(&one, JobKind::Retention, None).await;
    ask(&one, JobKind::Rebuild, None, NOW_MS + 1).await;
    let running = one.claim("one", NOW_MS).await.unwrap().unwrap();
    assert_eq!(running.job_id, first.job_id);
    two.cancel(&first.job_id, NOW_MS).await.unwrap();
    assert!(two.claim("two", NOW_MS).await.unwrap().is_none());
    // Its runner is in the middle of a long piece of work.
    let later = NOW_MS + 100_000;
    assert!(!one.beat(&first.job_id, "one", later).await.unwrap());
    assert!(two.claim("two", later + 1).await.unwrap().is_none());
    one.stopped(&first.job_id, "one", later + 2).await.unwrap();
    let next = two.claim("two", later + 3).await.unwrap().unwrap();
    assert_eq!(next.kind, JobKind::Rebuild);
    // A runner that died does not stop, and is waited for no longer than its lease.
    two.cancel(&next.job_id, later + 4).await.unwrap();
    made(&one, JobKind::Check, None).await;
    assert!(one.claim("one", later + 5).await.unwrap().is_none());
    assert!(one.claim("one", later + 70_000).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_goes_from_runner_to_runner_with_its_checkpoint() {
    let store = database().await.unwrap();
    let jobs = store.jobs();
    let asked = made(&jobs, JobKind::Retention, None).await;
    let mut job = jobs.claim("one", NOW_MS).await.unwrap().unwrap();
    assert_eq!((&job.job_id, job.state), (&asked.job_id, JobState::Running));
    assert!(
        jobs.claim("one", NOW_MS).await.unwrap().is_none(),
        "it has it already"
    );
    job.checkpoint = "\"half\"".to_owned();
    job.done = 5;
    assert!(jobs.write(&mut job, NOW_MS + 1).await.unwrap());
    // Another runner on this folder: the first process is dead.
    let taken = jobs.claim("two", NOW_MS + 2).await.unwrap().unwrap();
    assert_eq!((taken.checkpoint.as_str(), taken.done), ("\"half\"", 5));
    assert!(taken.version > job.version);
    assert!(
        !jobs.write(&mut job, NOW_MS + 3).await.unwrap(),
        "the first one has no say any more"
    );
    assert!(!jobs.beat(&job.job_id, "one", NOW_MS).await.unwrap());
    assert!(jobs.beat(&job.job_id, "two", NOW_MS).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_processes_one_runs_one_job_at_a_time() {
    let store = database().await.unwrap();
    let processes = [store.of_several().unwrap(), store.of_several().unwrap()];
    let [one, two] = processes.each_ref().map(store::Store::jobs);
    made(&one, JobKind::Rebuild, Some("a")).await;
    made(&two, JobKind::Rebuild, Some("b")).await;
    let mut ended = Vec::new();
    while ended.len() < 2 {
        let (first, second) = tokio::join!(one.claim("one", NOW_MS), two.claim("two", NOW_MS));
        let mut claimed: Vec<Job> = [first, second]
            .into_iter()
            .filter_map(Result::unwrap)
            .collect();
        assert!(claimed.len() <= 1, "{claimed:?}");
        let Some(mut job) = claimed.pop() else {
            continue;
        };
        let (own, others) = if job.runner == "one" {
            (&one, &two)
        } else {
            (&two, &one)
        };
        assert!(others.claim("another", NOW_MS).await.unwrap().is_none());
        job.state = JobState::Done;
        assert!(own.write(&mut job, NOW_MS).await.unwrap());
        ended.push(job.project_id);
    }
    ended.sort();
    assert_eq!(ended, ["a", "b"]);
    // A runner that was silent for long is dead.
    made(&one, JobKind::Rebuild, Some("a")).await;
    one.claim("one", NOW_MS).await.unwrap().unwrap();
    let later = NOW_MS + 61_000;
    let taken = two.claim("two", later).await.unwrap().unwrap();
    assert_eq!(taken.runner, "two");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_job_stays_cancelled_and_is_listed() {
    let store = database().await.unwrap();
    let jobs = store.jobs();
    let asked = made(&jobs, JobKind::Recalculate, Some("a")).await;
    let mut job = jobs.claim("one", NOW_MS).await.unwrap().unwrap();
    let cancelled = jobs.cancel(&asked.job_id, NOW_MS + 1).await.unwrap();
    assert_eq!(cancelled.unwrap().state, JobState::Cancelled);
    job.state = JobState::Done;
    assert!(!jobs.write(&mut job, NOW_MS + 2).await.unwrap());
    assert!(jobs.claim("two", NOW_MS + 3).await.unwrap().is_none());
    let again = jobs
        .cancel(&asked.job_id, NOW_MS + 4)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(again.ended_at, Some(NOW_MS + 1), "over is over");
    assert!(jobs.cancel("job_none", NOW_MS).await.unwrap().is_none());
    let all = jobs.list(None, 10).await.unwrap();
    assert_eq!((all.len(), all[0].state), (1, JobState::Cancelled));
    assert!(
        jobs.list(Some(&["b".to_owned()]), 10)
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_of_any_size_is_written_and_read_back() {
    let store = database().await.unwrap();
    let jobs = store.jobs();
    made(&jobs, JobKind::Retention, None).await;
    let mut job = jobs.claim("one", NOW_MS).await.unwrap().unwrap();
    // Eight times the limit of one parameter of a statement.
    job.checkpoint = "it's \\ \t\u{1F9F5}\n".repeat(1 << 17);
    job.report = "{\"a\":1}".repeat(1 << 18);
    job.error = "why".to_owned();
    (job.done, job.total, job.changed) = (1, u64::MAX, 3);
    assert!(job.checkpoint.len() > 1 << 20 && job.report.len() >= 1 << 20);
    assert!(jobs.write(&mut job, NOW_MS + 1).await.unwrap());
    assert!(jobs.beat(&job.job_id, "one", NOW_MS + 2).await.unwrap());
    job.version += 1;
    job.updated_at = NOW_MS + 2;
    let found = jobs.get(&job.job_id).await.unwrap().unwrap();
    assert!(found == job, "what was written is read back");
    let open = jobs.open().await.unwrap();
    assert!(open == [job], "and found among those that are open");
}
