//! Probes the document storage by listing buckets with a signed request.

use instant_xml::FromXml;
use reqwest::Url;
use rusty_s3::Method;

use super::probe::Prober;
use super::settings::StorageConfig;

/// Bytes of one page (X1): tens of thousands of buckets.
const PAGE_BYTES: usize = 4 << 20;
/// Pages (X1): accounts have at most some tens of thousands of buckets.
const PAGES_MAX: usize = 10;
/// Validity of a signed URL: longer than differences between clocks, and too short to be useful in a log.
const SIGNED_FOR_S: u64 = 300;

/// The number of buckets.
///
/// # Errors
/// Why they cannot be listed.
pub(crate) async fn buckets(prober: &Prober, storage: &StorageConfig) -> Result<u64, String> {
    let mut buckets = 0;
    let mut token: Option<String> = None;
    for _ in 0..PAGES_MAX {
        let url = signed(storage, token.as_deref(), jiff::Timestamp::now());
        let response = prober.get(&url, "application/xml", PAGE_BYTES).await?;
        match response.status {
            200 => {}
            401 | 403 => {
                return Err(format!(
                    "it rejected the credentials (status {})",
                    response.status
                ));
            }
            status => return Err(format!("it answered with status {status}")),
        }
        let body = response.body.ok_or("its list of buckets is too long")?;
        let page = std::str::from_utf8(&body).ok().and_then(read);
        let page = page.ok_or("its answer is not a list of buckets")?;
        buckets += page.buckets;
        match page.token.filter(|token| !token.is_empty()) {
            Some(next) => token = Some(next),
            None => break,
        }
    }
    Ok(buckets)
}

/// The signed URL that lists buckets.
fn signed(storage: &StorageConfig, token: Option<&str>, now: jiff::Timestamp) -> Url {
    let query = token.map(|token| ("continuation-token", token));
    rusty_s3::signing::sign(
        &now,
        Method::Get,
        storage.endpoint.clone(),
        &storage.access_key,
        storage.secret_key.reveal(),
        None,
        &storage.region,
        SIGNED_FOR_S,
        query.into_iter(),
        std::iter::empty(),
    )
}

/// A page of buckets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) buckets: u64,
    pub(crate) token: Option<String>,
}

/// The shape of the response; some storages omit the namespace.
macro_rules! listing {
    ($module:ident, $namespace:tt) => {
        mod $module {
            use super::FromXml;

            #[derive(FromXml)]
            #[xml(rename = "ListAllMyBucketsResult", ns($namespace))]
            pub(super) struct Listing {
                pub(super) buckets: Option<Buckets>,
                #[xml(rename = "ContinuationToken")]
                pub(super) token: Option<String>,
            }

            #[derive(FromXml)]
            #[xml(rename = "Buckets", ns($namespace))]
            pub(super) struct Buckets {
                pub(super) buckets: Vec<Bucket>,
            }

            #[derive(FromXml)]
            #[xml(rename = "Bucket", ns($namespace))]
            pub(super) struct Bucket {
                #[xml(rename = "Name")]
                _name: String,
            }

            pub(super) fn read(text: &str) -> Option<super::Page> {
                let listing: Listing = instant_xml::from_str(text).ok()?;
                let buckets = listing.buckets.map_or(0, |list| list.buckets.len());
                Some(super::Page {
                    buckets: buckets as u64,
                    token: listing.token,
                })
            }
        }
    };
}
listing!(named, "http://s3.amazonaws.com/doc/2006-03-01/");
listing!(unnamed, "");

pub(crate) fn read(text: &str) -> Option<Page> {
    named::read(text).or_else(|| unnamed::read(text))
}

#[cfg(test)]
mod tests {
    use store::Secret;

    use super::*;

    #[test]
    fn buckets_are_counted_with_namespace_and_without() {
        for namespace in [" xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"", ""] {
            let list = |buckets: &str, rest: &str| {
                format!(
                    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListAllMyBucketsResult{namespace}><Owner><ID>i</ID><DisplayName>d</DisplayName></Owner><Buckets>{buckets}</Buckets>{rest}</ListAllMyBucketsResult>"
                )
            };
            let bucket = "<Bucket><Name>a</Name><CreationDate>2026-01-01T00:00:00.000Z</CreationDate></Bucket>";
            let page = |buckets, token: Option<&str>| {
                Some(Page {
                    buckets,
                    token: token.map(str::to_owned),
                })
            };
            assert_eq!(read(&list("", "")), page(0, None), "{namespace}");
            assert_eq!(read(&list(&bucket.repeat(3), "")), page(3, None));
            let more = "<ContinuationToken>t</ContinuationToken>";
            assert_eq!(read(&list(bucket, more)), page(1, Some("t")));
        }
        for bad in [
            "",
            "<html></html>",
            "<Error><Code>AccessDenied</Code></Error>",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn requests_are_signed_and_hold_no_secret_x2() {
        let storage = StorageConfig {
            name: String::new(),
            endpoint: "http://s3.local:9000".parse().unwrap(),
            region: "eu-central-1".to_owned(),
            access_key: "AKIA".to_owned(),
            secret_key: Secret::new("hunter2"),
        };
        let now = "2026-11-21T10:00:00Z".parse().unwrap();
        let url = signed(&storage, Some("t/1"), now).to_string();
        for part in [
            "http://s3.local:9000/?",
            "X-Amz-Signature=",
            "AKIA%2F20261121%2Feu-central-1%2Fs3%2Faws4_request",
            "continuation-token=t%2F1",
        ] {
            assert!(url.contains(part), "{part}: {url}");
        }
        assert!(!url.contains("hunter2"));
        assert!(!format!("{storage:?}").contains("hunter2"));
    }
}
