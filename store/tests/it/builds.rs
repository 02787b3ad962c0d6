//! Builds of applications: stored, replaced, listed, and loaded by other processes.

use store::platform::builds::{BUILDS_LISTED_MAX, Builds, NewBuild};
use store::reads::filter_sql::Projects;

use crate::database;

const NOW_MS: i64 = 1_795_219_200_000;

fn build<'a>(project_id: &'a str, build_id: &'a str, definition: &'a str) -> NewBuild<'a> {
    NewBuild {
        project_id,
        app_id: "shop",
        build_id,
        status: "COMMITTED",
        definition,
        changed_by: "tok_1",
        now_ms: NOW_MS,
    }
}

fn only(project: &str) -> Projects {
    Projects::Only(vec![project.to_owned()])
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_version_of_a_build_counts_and_each_project_has_its_own_t1() {
    let database = database().await.unwrap();
    let builds = Builds::new((*database).clone());
    let first = r#"{"processes":[{"name":"Order"},{"name":"ä/[b]"}]}"#;
    let second = r#"{"processes":[]}"#;
    builds.put(build("ours", "b1", first)).await.unwrap();
    builds.put(build("theirs", "b1", first)).await.unwrap();
    // At the same millisecond, or with a clock that was set back: the last one counts.
    for now_ms in [NOW_MS, NOW_MS - 5000] {
        let again = NewBuild {
            status: "DRAFT",
            now_ms,
            ..build("ours", "b1", second)
        };
        builds.put(again).await.unwrap();
    }
    let ours = builds.of_pair("shop", "b1", &only("ours")).await.unwrap();
    assert_eq!(ours.len(), 1);
    assert_eq!(
        (&*ours[0].definition, &*ours[0].status, ours[0].changed_at),
        (second, "DRAFT", NOW_MS - 5000)
    );
    let all = builds.of_pair("shop", "b1", &Projects::All).await.unwrap();
    let projects: Vec<&str> = all.iter().map(|build| build.project_id.as_str()).collect();
    assert_eq!(projects, ["ours", "theirs"]);
    assert_eq!(
        builds.of_pair("shop", "b2", &Projects::All).await.unwrap(),
        []
    );
    assert_eq!(
        builds.of_pair("sho", "b1", &Projects::All).await.unwrap(),
        []
    );
    let listed = builds.of_app("shop", &only("theirs")).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].processes, ["Order", "ä/[b]"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_builds_is_bounded_and_says_that_there_are_more() {
    let database = database().await.unwrap();
    let builds = Builds::new((*database).clone());
    for number in 0..3 {
        let id = format!("b{number}");
        let put = NewBuild {
            now_ms: NOW_MS + number,
            ..build("ours", &id, "{}")
        };
        builds.put(put).await.unwrap();
    }
    let listed = builds.of_app("shop", &only("ours")).await.unwrap();
    let ids: Vec<&str> = listed.iter().map(|build| build.build_id.as_str()).collect();
    assert_eq!(ids, ["b2", "b1", "b0"]);
    database
        .run(
            "INSERT INTO process_builds (project_id, app_id, build_id, version, changed_at) \
             SELECT 'ours', 'shop', toString(number), 1, now64(3) FROM numbers(1000)",
        )
        .await
        .unwrap();
    let listed = builds.of_app("shop", &only("ours")).await.unwrap();
    assert_eq!(listed.len(), BUILDS_LISTED_MAX + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_process_sees_at_its_next_look_that_a_build_changed() {
    let database = database().await.unwrap();
    let (here, there) = (
        Builds::new((*database).clone()),
        Builds::new((*database).clone()),
    );
    there.refresh().await.unwrap();
    let before = there.generation();
    there.refresh().await.unwrap();
    assert_eq!(there.generation(), before, "nothing changed");
    let mut told = here.made_here();
    let known_here = here.generation();
    here.put(build("ours", "b1", "{}")).await.unwrap();
    assert!(told.has_changed().unwrap() && here.generation() > known_here);
    told.mark_unchanged();
    there.refresh().await.unwrap();
    assert!(there.generation() > before);
}
