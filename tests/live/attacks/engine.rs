//! The embedded engine, attacked by another user of the machine and by a page in a browser.

use std::collections::HashSet;
use std::fs;
use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder, StatusCode};
use rustix::process::Signal;

use crate::harness::{Server, Setup, event, kill};

/// The user without rights of Linux: owns no file and reads only world-readable ones.
const STRANGER: u32 = 65534;
/// A lost listener is noticed after 15 s; then the engine starts again.
const NOTICED_WITHIN: Duration = Duration::from_secs(90);

/// Sends bytes to the engine's port as another user of the machine and returns what comes back. Only root can become
/// another user; anyone else sends them as itself, which the engine cannot tell apart.
fn send_as_stranger(port: u16, request: &str) -> String {
    let script = "exec 3<>/dev/tcp/127.0.0.1/$0; printf %s \"$1\" >&3; exec timeout 10 cat <&3";
    run_as_stranger(&["-c", script, &port.to_string(), request])
}

fn run_as_stranger(arguments: &[&str]) -> String {
    use std::os::unix::process::CommandExt;
    let mut command = std::process::Command::new("bash");
    command.args(arguments).current_dir("/").env_clear();
    command.env("PATH", "/usr/bin:/bin");
    if rustix::process::getuid().is_root() {
        command.uid(STRANGER).gid(STRANGER);
    }
    let output = command.output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn request(method: &str, target: &str, headers: &[&str], body: &str) -> String {
    let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    format!(
        "{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://page.example\r\n{headers}\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// The TCP ports a process listens on, as `address:port` in the kernel's notation.
fn listeners(pid: u32) -> Vec<String> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let sockets: HashSet<String> = descriptors
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .filter_map(|target| {
            let text = target.to_str()?.strip_prefix("socket:[")?.to_owned();
            text.strip_suffix(']').map(str::to_owned)
        })
        .collect();
    let tables =
        ["tcp", "tcp6"].map(|table| fs::read_to_string(format!("/proc/{pid}/net/{table}")));
    let text: String = tables.into_iter().map(Result::unwrap_or_default).collect();
    let listening = text.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        (fields.get(3) == Some(&"0A") && sockets.contains(*fields.get(9)?))
            .then(|| fields[1].to_owned())
    });
    listening.collect()
}

/// The engine's only listener, on 127.0.0.1.
fn engine_port(server: &Server) -> u16 {
    let listening = listeners(server.engine_pid().unwrap());
    assert_eq!(listening.len(), 1, "{listening:?}");
    let port = listening[0].strip_prefix("0100007F:").unwrap();
    u16::from_str_radix(port, 16).unwrap()
}

fn password(setup: &Setup) -> String {
    fs::read_to_string(setup.data().join("engine/password")).unwrap()
}

/// A statement as the engine's own user.
fn as_owner(port: u16, password: &str, sql: &str) -> RequestBuilder {
    Client::new()
        .post(format!("http://127.0.0.1:{port}/"))
        .header("X-ClickHouse-User", "spindle")
        .header("X-ClickHouse-Key", password)
        .timeout(Duration::from_secs(20))
        .body(sql.to_owned())
}

/// The users file that version 0.1.0 left in its data folder.
const USERS_OF_0_1_0: &str = "<clickhouse><profiles><default/></profiles><quotas><default/></quotas><users><default>\
    <password></password><profile>default</profile><quota>default</quota></default></users></clickhouse>";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_user_of_the_machine_and_a_page_reach_nothing_of_the_engine_x2() {
    let setup = Setup::new();
    let folder = setup.data().join("engine");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("users.xml"), USERS_OF_0_1_0).unwrap();
    let server = setup.start_ready().await;
    let port = engine_port(&server);
    let engine = server.engine_pid().unwrap();

    // Every user, named in every way, with and without a wrong password.
    let wrong = "X-ClickHouse-Key: wrong";
    for headers in [
        &[][..],
        &["X-ClickHouse-User: default"],
        &["X-ClickHouse-User: default", wrong],
        &["X-ClickHouse-User: default", "X-ClickHouse-User: spindle"],
        &["X-ClickHouse-User: spindle"],
        &["X-ClickHouse-User: spindle", wrong],
        &["X-ClickHouse-User: spindle", "X-ClickHouse-User: default"],
        &["X-ClickHouse-User: stranger"],
        // default: and spindle:
        &["Authorization: Basic ZGVmYXVsdDo="],
        &["Authorization: Basic c3BpbmRsZTo="],
        &["Authorization: Negotiate eA=="],
    ] {
        for target in [
            "/?query=SELECT+file('/proc/self/environ')&add_http_cors_header=1",
            "/?user=default&password=&query=SELECT+1&add_http_cors_header=1",
            "/?user=spindle&query=SELECT+1",
            "/",
        ] {
            for method in ["GET", "POST", "PUT", "HEAD", "OPTIONS"] {
                let body = match method {
                    "POST" | "PUT" if !target.contains("query=") => "SELECT 1",
                    _ => "",
                };
                let asked = request(method, target, headers, body);
                let answer = send_as_stranger(port, &asked).to_lowercase();
                let status = answer.split_whitespace().nth(1).unwrap_or("none");
                assert!(
                    ["401", "403", "404", "500", "501"].contains(&status),
                    "{asked}\n{answer}"
                );
                assert!(
                    !answer.contains("access-control-allow"),
                    "{asked}\n{answer}"
                );
            }
        }
    }
    // A page must ask before it sends a header of its own, and is refused.
    let preflight = [
        "Access-Control-Request-Method: POST",
        "Access-Control-Request-Headers: x-clickhouse-user",
    ];
    let answer = send_as_stranger(port, &request("OPTIONS", "/", &preflight, ""));
    assert!(!answer.contains(" 200 ") && !answer.to_lowercase().contains("access-control-allow"));
    for path in [
        "/ping",
        "/play",
        "/dashboard",
        "/binary",
        "/merges",
        "/jemalloc",
        "/metrics",
        "/webterminal",
        "/replicas_status",
        "/js/uplot.js",
    ] {
        let answer = send_as_stranger(port, &request("GET", path, &[], ""));
        assert!(answer.starts_with("HTTP/1.1 404"), "{path}: {answer}");
    }

    // Neither the password nor the engine's environment is for others, and there is no secret in the environment.
    let environment = fs::read(format!("/proc/{engine}/environ")).unwrap();
    let environment = String::from_utf8_lossy(&environment);
    for secret in [&setup.key, &setup.token, &password(&setup)] {
        assert!(!environment.contains(secret.as_str()), "{environment}");
    }
    assert!(!environment.contains("SPINDLE_API_KEY"), "{environment}");
    if rustix::process::getuid().is_root() {
        for file in [
            folder.join("password"),
            format!("/proc/{engine}/environ").into(),
            format!("/proc/{}/environ", server.processes[0].pid()).into(),
        ] {
            let seen = run_as_stranger(&["-c", "cat \"$0\"", file.to_str().unwrap()]);
            assert_eq!(seen, "", "{}", file.display());
        }
    }

    the_owner_stays_inside(&setup, port).await;
    nobody_logs_in_while_it_restarts(&server, port).await;
    assert_eq!(engine_port(&server), port);
    assert_eq!(server.get("/api/run").await.0, StatusCode::OK);
}

/// What a statement that got past the binding of parameters could do: nothing outside of the tables.
async fn the_owner_stays_inside(setup: &Setup, port: u16) {
    let password = password(setup);
    for sql in [
        "SELECT * FROM file('/etc/passwd', 'LineAsString')",
        "SELECT * FROM `default`.`/etc/passwd`",
        "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')",
        "SELECT * FROM remote('127.0.0.1', system.one)",
        "SELECT * FROM filesystem('/etc')",
        "INSERT INTO FUNCTION file('/tmp/spindle-attack', 'LineAsString', 'line String') VALUES ('x')",
        "CREATE TABLE spindle.attack (line String) ENGINE = File(LineAsString, '/etc/passwd')",
        "CREATE DICTIONARY spindle.attack (a UInt64) PRIMARY KEY a SOURCE(FILE(path '/etc/passwd' format 'CSV')) \
         LAYOUT(FLAT()) LIFETIME(0)",
        "CREATE FUNCTION attack AS x -> x",
        "CREATE USER attack",
        "BACKUP DATABASE spindle TO File('/tmp/spindle-attack')",
        "SYSTEM STOP LISTEN HTTP",
        "SYSTEM START LISTEN TCP",
        "SYSTEM SHUTDOWN",
    ] {
        let answer = as_owner(port, &password, sql).send().await.unwrap();
        let text = answer.text().await.unwrap();
        assert!(text.contains("ACCESS_DENIED"), "{sql}: {text}");
    }
    // ClickHouse lets everyone call this one; the kernel does not, where it can.
    let files = [
        "/etc/passwd".to_owned(),
        format!("/proc/{}/environ", std::process::id()),
        setup.data().join("address").display().to_string(),
    ];
    for file in files.iter().filter(|_| kernel_confines()) {
        let sql = format!("SELECT file('{file}')");
        let answer = as_owner(port, &password, &sql).send().await.unwrap();
        let text = answer.text().await.unwrap();
        assert!(text.contains("Permission denied"), "{sql}: {text}");
    }
    let target = format!("http://127.0.0.1:{port}/?add_http_cors_header=1");
    let cors = Client::new()
        .post(target)
        .header("X-ClickHouse-User", "spindle")
        .header("X-ClickHouse-Key", &password)
        .body("SELECT 1");
    let answer = cors
        .header("Origin", "http://page.example")
        .send()
        .await
        .unwrap();
    assert!(!answer.headers().contains_key("access-control-allow-origin"));
    assert_ne!(answer.status(), StatusCode::OK);
    let answer = as_owner(port, &password, "SELECT 1").send().await.unwrap();
    assert_eq!(answer.text().await.unwrap(), "1\n");
}

/// Whether this kernel has what the engine is confined with.
fn kernel_confines() -> bool {
    use landlock::{ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr};
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let handled = ruleset.handle_access(AccessFs::from_all(ABI::V2));
    handled.and_then(Ruleset::create).is_ok()
}

/// From the kill until the engine is back, no request of `default` is answered.
async fn nobody_logs_in_while_it_restarts(server: &Server, port: u16) {
    let before = server.engine_pid().unwrap();
    kill(before, Signal::KILL);
    let client = Client::new();
    let url = format!("http://127.0.0.1:{port}/");
    server
        .until("reading works again", NOTICED_WITHIN, async || {
            for _ in 0..20 {
                let ask = client.request(Method::POST, &url).body("SELECT 1");
                if let Ok(answer) = ask.timeout(Duration::from_secs(5)).send().await {
                    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
                }
            }
            let is_back = server.engine_pid().is_some_and(|pid| pid != before);
            (is_back && server.get("/api/run").await.0 == StatusCode::OK).then_some(())
        })
        .await;
}

/// A client that has the password, and an engine whose user may do more than the product grants.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_that_was_stopped_is_brought_back_r1() {
    let setup = Setup::new();
    store::testing::grant_everything(&setup.data().join("engine")).unwrap();
    let server = setup.start_ready().await;
    let report = server.report(&[event("lost", "r", "agent_start", 0)]).await;
    assert_eq!(report.unwrap().status(), StatusCode::OK);
    let port = engine_port(&server);
    let before = server.engine_pid().unwrap();
    let stop = as_owner(port, &password(&setup), "SYSTEM STOP LISTEN HTTP");
    let _ = stop.send().await;
    server
        .until("the engine is another one", NOTICED_WITHIN, async || {
            let engine = server.engine_pid()?;
            (engine != before).then_some(())
        })
        .await;
    server
        .until("the run is read", NOTICED_WITHIN, async || {
            let (_, page) = server.get("/api/run?app_id=lost").await;
            (page["data"].as_array()?.len() == 1).then_some(())
        })
        .await;
    assert_eq!(
        server.metric("spindle_store_engine_restarts_total").await,
        1.0
    );
}

/// A flipped bit is searched for by hashing the block once for each of its bits: a read that nothing cancels.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_part_is_damaged_answers_an_error_and_the_engine_comes_to_rest_q1() {
    let setup = Setup::new();
    let server = setup.start_ready().await;
    // One compressed block of about half a megabyte.
    for n in 0..2 {
        let mut event = event(
            "damaged",
            "r",
            if n == 0 { "agent_start" } else { "agent_end" },
            n,
        );
        let digits = (0..32_000).map(|_| format!("{:08x}", rand::random::<u32>()));
        event["output"] = serde_json::json!(digits.collect::<String>());
        let answer = server.report(&[event]).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
    }
    server
        .until("the run is read", NOTICED_WITHIN, async || {
            (server.get("/api/run/r?app_id=damaged").await.0 == StatusCode::OK).then_some(())
        })
        .await;
    let largest = files_of(&setup.data().join("engine/data/store"), "data.bin");
    flip_two_bytes(&largest.into_iter().max().unwrap().1);

    let before = server.engine_pid().unwrap();
    let started = std::time::Instant::now();
    let (status, fault) = server.get("/api/run/r?app_id=damaged").await;
    assert!(status.is_server_error(), "{status} {fault}");
    assert_ne!(
        fault,
        serde_json::Value::Null,
        "the server answers by itself"
    );
    assert!(started.elapsed() < Duration::from_secs(25));
    server
        .until("the engine is another one", NOTICED_WITHIN, async || {
            server.engine_pid().filter(|engine| *engine != before)
        })
        .await;
    assert!(setup.logged().contains("runs long past its time limit"));
    server
        .until("other reads are answered", NOTICED_WITHIN, async || {
            (server.get("/api/run?app_id=other").await.0 == StatusCode::OK).then_some(())
        })
        .await;
}

/// Files of this name with their sizes.
fn files_of(folder: &std::path::Path, name: &str) -> Vec<(u64, std::path::PathBuf)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files_of(&entry.path(), name)),
            false if entry.file_name() == name => {
                found.push((entry.metadata().unwrap().len(), entry.path()))
            }
            false => {}
        }
    }
    found
}

/// Two, because one would be found and named.
fn flip_two_bytes(path: &std::path::Path) {
    use std::os::unix::fs::FileExt;
    let mut options = fs::OpenOptions::new();
    let file = options.read(true).write(true).open(path).unwrap();
    let middle = file.metadata().unwrap().len() / 2;
    let mut bytes = [0; 2];
    file.read_exact_at(&mut bytes, middle).unwrap();
    file.write_all_at(&bytes.map(|byte| !byte), middle).unwrap();
}
