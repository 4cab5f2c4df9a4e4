//! Answers of the server: objects, and listings of them.

use std::sync::Arc;

use super::{Answer, Asked, Fault, Object, Server};

/// Objects' times of change are one second apart, starting here.
const FIRST_SECOND: u64 = 1_700_000_000;

impl Server {
    pub(super) fn answer(&self, asked: &Asked) -> Answer {
        if let Some(name) = asked.path.strip_prefix("/web/") {
            return self.object(asked, name);
        }
        if let Some(path) = asked.path.strip_prefix("/webhdfs/v1/") {
            return self.name_node(asked, path);
        }
        if let Some(path) = asked.path.strip_prefix("/datanode/") {
            return self.data_node(asked, path);
        }
        match asked.path.strip_prefix("/bucket").map(|key| key.trim_start_matches('/')) {
            Some("") => self.listing(asked),
            Some(key) => {
                let mut answer = self.object(asked, key);
                let code = match answer.status {
                    404 => "NoSuchKey",
                    403 => "AccessDenied",
                    _ => return answer,
                };
                answer.body = format!("<Error><Code>{code}</Code></Error>").into_bytes();
                answer
            }
            None => Answer::of(404, "<Error><Code>NoSuchBucket</Code></Error>"),
        }
    }

    /// Applies and returns the next fault.
    fn fault(&self, name: &str) -> Fault {
        let fault = self.state().faults.pop_front().unwrap_or(Fault::None);
        match fault {
            Fault::Slow(time) => std::thread::sleep(time),
            Fault::Change => {
                let bytes = self.state().objects[name].bytes.iter().rev().copied().collect();
                self.put(name, bytes);
            }
            _ => {}
        }
        fault
    }

    fn found(&self, name: &str) -> Result<Object, Answer> {
        let state = self.state();
        if let Some((_, status)) =
            state.refused.as_ref().filter(|(refused, _)| name.starts_with(refused.as_str()))
        {
            return Err(Answer::of(*status, ""));
        }
        state.objects.get(name).cloned().ok_or_else(|| Answer::of(404, "nothing here"))
    }

    /// An object, or a part of it.
    fn object(&self, asked: &Asked, name: &str) -> Answer {
        let is_head = asked.method == "HEAD";
        if is_head && self.state().headless {
            return Answer::of(403, "");
        }
        let fault = match (is_head, self.found(name)) {
            (_, Err(answer)) => return answer,
            (true, _) => Fault::None,
            (false, _) => self.fault(name),
        };
        let Ok(Object { bytes, version }) = self.found(name) else { return Answer::of(404, "") };
        if let Fault::Status(status) = fault {
            return Answer::of(status, "trouble");
        }
        let tag = format!("\"v{version}\"");
        if asked.header("if-match").is_some_and(|wanted| wanted != tag) {
            return Answer::of(412, "");
        }
        let mut answer = ranged(asked, &bytes, fault);
        if !self.state().untagged {
            answer.headers.push(("etag", tag));
        }
        if !self.state().undated {
            answer.headers.push(("last-modified", date(version)));
        }
        answer
    }

    /// The objects of a bucket under a prefix, as XML.
    fn listing(&self, asked: &Asked) -> Answer {
        let (prefix, deep) = (asked.query("prefix"), asked.query("delimiter").is_empty());
        let mut xml = "<?xml version=\"1.0\"?><ListBucketResult>".to_owned();
        for (name, object) in &self.state().objects {
            let Some(rest) = name.strip_prefix(prefix) else { continue };
            if !deep && rest.contains('/') {
                continue;
            }
            let (size, version) = (object.bytes.len(), object.version);
            xml += &format!(
                "<Contents><Key>{name}</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified>\
                 <ETag>\"v{version}\"</ETag><Size>{size}</Size></Contents>"
            );
        }
        Answer::of(200, xml + "<IsTruncated>false</IsTruncated></ListBucketResult>")
    }

    /// Answers of the NameNode of HDFS.
    fn name_node(&self, asked: &Asked, path: &str) -> Answer {
        match asked.query("op") {
            "LISTSTATUS" => self.folder(path),
            "OPEN" => {
                let (offset, length) = (asked.query("offset"), asked.query("length"));
                let to =
                    format!("http://{}/datanode/{path}?offset={offset}&length={length}", self.host);
                let mut answer = Answer::of(307, "");
                answer.headers.push(("location", to));
                answer
            }
            _ => match self.found(path) {
                Ok(object) => Answer::of(200, format!("{{\"FileStatus\":{}}}", file("", &object))),
                Err(answer) => refusal(answer.status),
            },
        }
    }

    fn folder(&self, path: &str) -> Answer {
        let path = path.trim_end_matches('/');
        let inside = format!("{path}/");
        let mut found = Vec::new();
        for (name, object) in &self.state().objects {
            let Some(rest) = name.strip_prefix(&inside) else { continue };
            let entry = match rest.split_once('/') {
                None => file(rest, object),
                Some((folder, _)) => {
                    format!("{{\"pathSuffix\":\"{folder}\",\"type\":\"DIRECTORY\",\"length\":0}}")
                }
            };
            if !found.contains(&entry) {
                found.push(entry);
            }
        }
        let found = found.join(",");
        Answer::of(200, format!("{{\"FileStatuses\":{{\"FileStatus\":[{found}]}}}}"))
    }

    fn data_node(&self, asked: &Asked, path: &str) -> Answer {
        let fault = match self.found(path) {
            Err(answer) => return refusal(answer.status),
            Ok(_) => self.fault(path),
        };
        if let Fault::Status(status) = fault {
            return Answer::of(status, "trouble");
        }
        let Ok(object) = self.found(path) else { return refusal(404) };
        let number = |name| asked.query(name).parse::<usize>().unwrap();
        let (start, length) = (number("offset"), number("length"));
        let mut answer = Answer::of(200, &object.bytes[start..start + length]);
        if let Fault::Cut(bytes) = fault {
            answer.cut = Some(bytes);
        }
        answer
    }
}

/// The requested range, as changed by a fault.
fn ranged(asked: &Asked, bytes: &Arc<Vec<u8>>, fault: Fault) -> Answer {
    let range = asked.header("range").and_then(|range| range.strip_prefix("bytes="));
    let range = range.filter(|_| !matches!(fault, Fault::Whole));
    let Some((start, end)) = range.and_then(|range| range.split_once('-')) else {
        return Answer::of(200, bytes.to_vec());
    };
    let (start, end): (usize, usize) = (start.parse().unwrap(), end.parse().unwrap());
    let all = bytes.len();
    if start >= all {
        let mut answer = Answer::of(416, "");
        answer.headers.push(("content-range", format!("bytes */{all}")));
        return answer;
    }
    let end = (end + 1).min(all);
    let mut answer = Answer::of(206, &bytes[start..end]);
    let mut said = all as u64;
    match fault {
        Fault::Cut(bytes) => answer.cut = Some(bytes),
        Fault::Longer(more) => said += more,
        _ => {}
    }
    answer.headers.push(("content-range", format!("bytes {start}-{}/{said}", end - 1)));
    answer
}

fn file(name: &str, object: &Object) -> String {
    let (bytes, time) = (object.bytes.len(), (FIRST_SECOND + object.version) * 1000);
    format!(
        "{{\"pathSuffix\":\"{name}\",\"type\":\"FILE\",\"length\":{bytes},\
         \"modificationTime\":{time}}}"
    )
}

/// An error in the format of HDFS.
fn refusal(status: u16) -> Answer {
    let name = match status {
        404 => "FileNotFoundException",
        _ => "AccessControlException",
    };
    let text = format!("{{\"RemoteException\":{{\"exception\":\"{name}\",\"message\":\"no\"}}}}");
    Answer::of(status, text)
}

/// A time in the format of HTTP.
fn date(version: u64) -> String {
    format!("Wed, 15 Nov 2023 00:00:{:02} GMT", version % 60)
}
