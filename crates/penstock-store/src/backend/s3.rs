//! S3, and what speaks its protocol: settings checked before the first request, errors in the words of its users.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
    ReqwestConnector,
};
use object_store::{ClientConfigKey, ClientOptions, RetryConfig};
use url::Url;

use crate::{Error, Result};

/// A server that is not there is said to be so after this, not after the crate's three minutes.
const RETRY: RetryConfig = RetryConfig {
    backoff: object_store::BackoffConfig {
        init_backoff: Duration::from_millis(100),
        max_backoff: Duration::from_secs(5),
        base: 2.,
    },
    max_retries: 5,
    retry_timeout: Duration::from_secs(30),
};

/// Of an answer, besides the range that was asked for: a page of a listing has at most a thousand names of 1024 bytes.
const MOST_BYTES: usize = 16 << 20;
/// Pages of one folder: half a million objects, more than a tenant has keys.
const MOST_PAGES: usize = 500;

/// The crate's connections, for answers that end.
#[derive(Debug)]
struct BoundedConnector;

impl HttpConnector for BoundedConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(Bounded { client, pages: AtomicUsize::new(0) }))
    }
}

#[derive(Debug)]
struct Bounded {
    client: HttpClient,
    /// Of the listing that is asked for at present; a store lists one folder after another.
    pages: AtomicUsize,
}

impl HttpService for Bounded {
    // As `async_trait` writes it.
    fn call<'s, 'f>(&'s self, request: HttpRequest) -> Pin<Box<dyn Future<Output = Answer> + Send + 'f>>
    where
        's: 'f,
        Self: 'f,
    {
        Box::pin(async move {
            if let Some(query) = request.uri().query().filter(|query| query.contains("list-type=2")) {
                self.turn_page(query.contains("continuation-token="))?;
            }
            let range = request.headers().get("range").and_then(|range| range.to_str().ok());
            let most = MOST_BYTES.saturating_add(range.map_or(0, range_bytes));
            let (parts, body) = self.client.execute(request).await?.into_parts();
            let body = Limited::new(body, most).map_err(move |error| match error.downcast::<HttpError>() {
                Ok(error) => *error,
                Err(_) => endless(format!("an answer of more than {most} bytes")),
            });
            Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)))
        })
    }
}

type Answer = std::result::Result<HttpResponse, HttpError>;

impl Bounded {
    fn turn_page(&self, further: bool) -> std::result::Result<(), HttpError> {
        let pages = if further { self.pages.fetch_add(1, Ordering::Relaxed) + 1 } else { 0 };
        if !further {
            self.pages.store(0, Ordering::Relaxed);
        }
        if pages < MOST_PAGES {
            return Ok(());
        }
        Err(endless(format!("a listing of more than {MOST_PAGES} pages")))
    }
}

/// An answer that is asked for no second time.
fn endless(what: String) -> HttpError {
    let why = format!("{what}: it is not a key store's, or has no end; check the endpoint, the bucket and the prefix");
    HttpError::new(HttpErrorKind::Decode, std::io::Error::other(why))
}

/// Bytes of `bytes=FIRST-LAST`.
fn range_bytes(range: &str) -> usize {
    let ends = range.strip_prefix("bytes=").and_then(|ends| ends.split_once('-'));
    let bytes = ends.and_then(|(first, last)| Some(last.parse::<usize>().ok()?.saturating_sub(first.parse().ok()?)));
    bytes.map_or(0, |bytes| bytes.saturating_add(1))
}

/// The bucket of an `s3://bucket/prefix`. `settings`: the `AWS_*` variables in lower case; unknown ones are others' affair.
///
/// # Errors
/// `Value`: an endpoint without TLS that was not asked for, or a setting that cannot be read.
pub(super) fn bucket(url: &Url, settings: impl IntoIterator<Item = (String, String)>) -> Result<AmazonS3> {
    let mut builder =
        AmazonS3Builder::new().with_url(url.as_str()).with_retry(RETRY).with_http_connector(BoundedConnector);
    for (name, value) in settings {
        if let Ok(key) = name.parse::<AmazonS3ConfigKey>() {
            builder = builder.with_config(key, value);
        }
    }
    let asked = |key: AmazonS3ConfigKey| builder.get_config_value(&key);
    let endpoint = asked(AmazonS3ConfigKey::Endpoint).unwrap_or_default();
    let plain = asked(AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp)).unwrap_or_default();
    if endpoint.to_ascii_lowercase().starts_with("http:") && !matches!(plain.as_str(), "true" | "1") {
        const RULE: &str =
            "requests and keys would travel in the clear: name an https endpoint, or set AWS_ALLOW_HTTP=true";
        return Err(Error::value("AWS_ENDPOINT_URL", endpoint, RULE));
    }
    builder.build().map_err(|error| {
        const RULE: &str = "a bucket and AWS_* settings that S3's protocol knows (docs/guides/keystore.md)";
        Error::value("store", format!("'{url}' ({error})"), RULE)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_has_an_end() {
        let client = BoundedConnector.connect(&ClientOptions::default()).expect("a client");
        let bounded = Bounded { client, pages: AtomicUsize::new(0) };
        for _ in 0..2 {
            // Each folder begins anew.
            bounded.turn_page(false).expect("the first page");
            for _ in 1..MOST_PAGES {
                bounded.turn_page(true).expect("a further page");
            }
        }
        let error = bounded.turn_page(true).expect_err("one page more");
        assert!(error.to_string().contains("500 pages"), "{error}");
    }

    #[test]
    fn a_range_has_its_bytes() {
        let found = ["bytes=0-0", "bytes=10-29", "bytes=5-1", "bytes=5-", "bytes=-5", "x", ""].map(range_bytes);
        assert_eq!(found, [1, 20, 1, 0, 0, 0, 0]);
        assert_eq!(range_bytes(&format!("bytes=0-{}", usize::MAX)), usize::MAX);
    }
}
