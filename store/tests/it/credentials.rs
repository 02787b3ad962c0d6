//! Projects, keys and tokens.

use schemas::credential::{Credential, Role, Scope};
use schemas::ids::{AppId, ProjectId};
use store::Secret;
use store::credentials::{Credentials, GivenSecrets, NewKey, NewToken, SecretCheck};
use store::testing::TestDatabase;

use crate::database;

async fn directory() -> (TestDatabase, Credentials) {
    let database = database().await.unwrap();
    let credentials = Credentials::new((*database).clone());
    credentials
        .put_project(&ProjectId::new("shop"), "web", &[])
        .await
        .unwrap();
    (database, credentials)
}

fn new_key() -> NewKey {
    NewKey {
        project: ProjectId::new("shop"),
        name: "ci".to_owned(),
        scopes: vec![Scope::Report],
        secret: None,
    }
}

#[tokio::test]
async fn a_key_opens_its_project_and_nothing_else_until_it_is_revoked() {
    let (_database, credentials) = directory().await;
    let created = credentials.create_key(new_key()).await.unwrap();
    let found = credentials
        .authenticate(created.secret.reveal())
        .await
        .unwrap()
        .unwrap();
    let expected = Credential::Key {
        id: created.id.clone(),
        project: ProjectId::new("shop"),
        default_app: AppId::new("web"),
        scopes: vec![Scope::Report],
    };
    assert_eq!(*found, expected);
    assert!(credentials.revoke_key(&created.id).await.unwrap());
    assert!(
        credentials
            .authenticate(created.secret.reveal())
            .await
            .unwrap()
            .is_none()
    );
    assert!(!credentials.revoke_key(&created.id).await.unwrap());
    assert!(
        credentials.keys(None).await.unwrap()[0]
            .revoked_at
            .is_some()
    );
}

#[tokio::test]
async fn what_another_process_makes_and_revokes_is_seen() {
    let (database, here) = directory().await;
    let there = Credentials::new((*database).clone());
    let created = here.create_key(new_key()).await.unwrap();
    assert!(
        there
            .authenticate(created.secret.reveal())
            .await
            .unwrap()
            .is_some()
    );
    here.revoke_key(&created.id).await.unwrap();
    there.refresh().await.unwrap();
    assert!(
        there
            .authenticate(created.secret.reveal())
            .await
            .unwrap()
            .is_none()
    );
    let second = here.create_key(new_key()).await.unwrap();
    there.refresh().await.unwrap();
    let before = there.stats();
    assert!(
        there
            .authenticate(second.secret.reveal())
            .await
            .unwrap()
            .is_some()
    );
    assert_eq!(
        there.stats().misses,
        before.misses,
        "a refresh fills the cache"
    );
}

#[tokio::test]
async fn an_unknown_secret_is_asked_for_once() {
    let (_database, credentials) = directory().await;
    for _ in 0..3 {
        assert!(
            credentials
                .authenticate("sp_key_nobody")
                .await
                .unwrap()
                .is_none()
        );
    }
    assert_eq!(
        (credentials.stats().misses, credentials.stats().hits),
        (1, 2)
    );
}

#[tokio::test]
async fn a_token_has_its_role_and_its_projects() {
    let (_database, credentials) = directory().await;
    let projects = Some(vec![ProjectId::new("shop")]);
    let new = NewToken {
        name: "ada".to_owned(),
        role: Role::Viewer,
        projects: projects.clone(),
        expires_at_ms: None,
        secret: None,
    };
    let created = credentials.create_token(new).await.unwrap();
    let found = credentials
        .authenticate(created.secret.reveal())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        *found,
        Credential::Token {
            id: created.id.clone(),
            name: "ada".to_owned(),
            role: Role::Viewer,
            projects,
            expires_at_ms: None,
        }
    );
    assert!(credentials.revoke_token(&created.id).await.unwrap());
    assert!(
        credentials
            .authenticate(created.secret.reveal())
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test]
async fn a_token_that_ends_is_refused_from_its_moment_on_without_asking_the_database() {
    let (_database, credentials) = directory().await;
    let ends_at_ms = 4_000_000_000_000;
    let new = |expires_at_ms| NewToken {
        name: "ada".to_owned(),
        role: Role::Viewer,
        projects: None,
        expires_at_ms: Some(expires_at_ms),
        secret: None,
    };
    let ends = credentials.create_token(new(ends_at_ms)).await.unwrap();
    let ended = credentials.create_token(new(1000)).await.unwrap();
    let misses = credentials.stats().misses;
    let secret = ends.secret.reveal();
    let found = credentials.check(secret, ends_at_ms - 1).await.unwrap();
    let found = found.valid().unwrap();
    assert_eq!(found.expires_at_ms(), Some(ends_at_ms));
    assert_eq!(
        credentials.check(secret, ends_at_ms).await.unwrap(),
        SecretCheck::Expired { at_ms: ends_at_ms }
    );
    assert_eq!(credentials.stats().misses, misses, "all of it in memory");
    for _ in 0..2 {
        // Expired long ago, so not loaded with the others: looked up once.
        let found = credentials.check(ended.secret.reveal(), 2000).await;
        assert_eq!(found.unwrap(), SecretCheck::Expired { at_ms: 1000 });
        assert_eq!(credentials.stats().misses, misses + 1);
    }
    let ended = credentials.authenticate(ended.secret.reveal()).await;
    assert_eq!(ended.unwrap(), None);
    // Revoked before it expires, it keeps its expiry and is unknown.
    assert!(credentials.revoke_token(&ends.id).await.unwrap());
    let listed = credentials.tokens().await.unwrap();
    let listed = listed.iter().find(|token| token.id == ends.id).unwrap();
    assert_eq!(listed.expires_at, Some(ends_at_ms));
    assert!(listed.revoked_at.is_some());
    let found = credentials.check(secret, ends_at_ms).await.unwrap();
    assert_eq!(found, SecretCheck::Unknown);
}

#[tokio::test]
async fn the_first_start_makes_a_key_and_a_token_and_the_second_none() {
    let database = database().await.unwrap();
    let credentials = Credentials::new((*database).clone());
    let first = credentials
        .bootstrap(GivenSecrets::default())
        .await
        .unwrap();
    let key = first.api_key.unwrap();
    assert!(
        credentials
            .authenticate(key.reveal())
            .await
            .unwrap()
            .is_some()
    );
    let second = credentials
        .bootstrap(GivenSecrets::default())
        .await
        .unwrap();
    assert!(second.api_key.is_none() && second.admin_token.is_none());
}

#[tokio::test]
async fn given_secrets_are_good_at_every_start_and_a_revoked_one_stays_revoked() {
    let database = database().await.unwrap();
    let credentials = Credentials::new((*database).clone());
    let given = || GivenSecrets {
        api_key: Some(Secret::new("a-key-from-outside")),
        admin_token: None,
    };
    for _ in 0..2 {
        assert!(
            credentials
                .bootstrap(given())
                .await
                .unwrap()
                .api_key
                .is_none()
        );
        assert!(
            credentials
                .authenticate("a-key-from-outside")
                .await
                .unwrap()
                .is_some()
        );
    }
    assert_eq!(credentials.keys(None).await.unwrap().len(), 1);
    let id = credentials.keys(None).await.unwrap()[0].id.clone();
    credentials.revoke_key(&id).await.unwrap();
    credentials.bootstrap(given()).await.unwrap();
    assert!(
        credentials
            .authenticate("a-key-from-outside")
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test]
async fn an_app_without_a_key_belongs_to_one_project() {
    let (_database, credentials) = directory().await;
    assert!(credentials.keyless("old-client").is_none() && !credentials.has_keyless());
    credentials
        .put_project(&ProjectId::new("shop"), "web", &["old-client"])
        .await
        .unwrap();
    assert_eq!(
        credentials.keyless("old-client").unwrap().project,
        ProjectId::new("shop")
    );
    let other = credentials
        .put_project(&ProjectId::new("other"), "x", &["old-client"])
        .await;
    assert!(other.unwrap_err().to_string().contains("old-client"));
}

#[tokio::test]
async fn no_table_holds_a_secret_x2() {
    let (database, credentials) = directory().await;
    let created = credentials.create_key(new_key()).await.unwrap();
    let rows: Vec<String> = database
        .bounded_query("SELECT toString(tuple(*)) FROM api_keys")
        .rows()
        .await
        .unwrap();
    assert!(rows.len() == 1 && !rows[0].contains(created.secret.reveal()));
}

#[tokio::test]
async fn clearing_the_cache_loses_no_credential() {
    let (_database, credentials) = directory().await;
    let created = credentials.create_key(new_key()).await.unwrap();
    credentials.clear().await.unwrap();
    assert_eq!(credentials.stats().entries, 1);
    assert!(
        credentials
            .authenticate(created.secret.reveal())
            .await
            .unwrap()
            .is_some()
    );
}
