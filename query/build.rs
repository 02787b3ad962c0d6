//! Has the page put into the program again when it was built again.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Debug builds read the page from disk when it is asked for. While there is none, Cargo runs this for every release
    // build, so that the first one is found.
    if std::env::var("PROFILE").as_deref() == Ok("release") {
        println!("cargo:rerun-if-changed=../web/dist");
    }
}
