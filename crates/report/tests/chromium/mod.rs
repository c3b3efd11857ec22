//! Runs headless Chromium on a page.

use pocketstone_testing::{Need, Skip, installed};
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A browser that is read from a busy disk takes minutes.
const LIMIT: Duration = Duration::from_secs(600);

/// Whether there is a browser.
pub fn browser() -> Result<(), Skip> {
    let missing = || Need::Browser.lacks("no chromium to open the report in: apt-get install chromium");
    installed("chromium").map(drop).ok_or_else(missing)
}

/// What one run of the browser left behind.
pub struct Visit {
    pub dom: String,
    pub log: String,
}

/// Runs Chromium on a file with a profile of its own, and ends it when it takes too long.
pub fn visit(folder: &Path, page: &Path, flags: &[&str]) -> Visit {
    let profile = tempfile::tempdir_in(folder).unwrap();
    let (out, err) = (profile.path().join("stdout"), profile.path().join("stderr"));
    let mut child = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--enable-logging=stderr", "--v=0", "--hide-scrollbars"])
        .arg(format!("--user-data-dir={}", profile.path().join("profile").display()))
        .args(flags)
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .stdout(File::create(&out).unwrap())
        .stderr(File::create(&err).unwrap())
        .process_group(0)
        .spawn()
        .unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > LIMIT {
            // Its helpers are in its process group.
            let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", child.id())]).status();
            let _ = child.kill();
            let _ = child.wait();
            panic!("chromium took more than {LIMIT:?}: {}", fs::read_to_string(&err).unwrap_or_default());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let read = |path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
    Visit { dom: read(out), log: read(err) }
}

/// What the page said on the console, errors of scripts and of the content policy included.
pub fn console(log: &str) -> Vec<&str> {
    log.lines().filter(|l| l.contains("CONSOLE")).collect()
}

/// Size of a PNG, from its header.
fn png_size(path: &Path) -> (u32, u32) {
    let bytes = fs::read(path).unwrap_or_else(|e| panic!("no screenshot {}: {e}", path.display()));
    assert_eq!(bytes[1..4], *b"PNG");
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

pub fn screenshot(folder: &Path, page: &Path, name: &str, size: (u32, u32), flags: &[&str]) -> (PathBuf, Visit) {
    let path = folder.join(name);
    let _ = fs::remove_file(&path);
    let (shot, window) = (format!("--screenshot={}", path.display()), format!("--window-size={},{}", size.0, size.1));
    let visit = visit(folder, page, &[&[shot.as_str(), window.as_str()], flags].concat());
    assert_eq!(png_size(&path), size, "{name}");
    assert!(fs::metadata(&path).unwrap().len() > 100_000, "{name} is all but empty");
    (path, visit)
}

/// What is wrong with a page's layout where it is as wide as this, once `ready` (a script's expression) holds in it:
/// sentences, none where nothing is. A window cannot be as narrow as a phone, a frame can.
pub fn layout_faults(folder: &Path, page: &Path, width: u32, ready: &str) -> Vec<String> {
    let (inner, outer) = (folder.join("layout-inner.html"), folder.join("layout.html"));
    let check = include_str!("layout.js").trim_end();
    let script = format!(
        "<script>{{const look=()=>{{if(!({ready}))return setTimeout(look,100);\
         setTimeout(()=>parent.postMessage({check},'*'),300)}};addEventListener('load',look)}}</script></body>"
    );
    let html = fs::read_to_string(page).unwrap();
    assert!(html.contains("</body>"), "{} is no page", page.display());
    fs::write(&inner, html.replace("</body>", &script)).unwrap();
    let frame = format!(
        "<body style=margin:0><script>addEventListener('message',e=>{{document.title='found:'+\
         e.data.join(' | ')}})</script><iframe src=layout-inner.html style='width:{width}px;height:900px;border:0'>"
    );
    fs::write(&outer, frame).unwrap();
    let window = format!("--window-size={},1000", width + 100);
    // The browser's virtual time does not wait for its compiler of WebAssembly.
    for _ in 0..6 {
        let visit = visit(folder, &outer, &["--dump-dom", "--virtual-time-budget=20000", &window]);
        assert_eq!(console(&visit.log), [""; 0]);
        if let Some((_, rest)) = visit.dom.split_once("<title>found:") {
            let found = rest.split_once("</title>").unwrap().0;
            return found.split(" | ").filter(|fault| !fault.is_empty()).map(str::to_owned).collect();
        }
    }
    panic!("the page was never ready: {ready}");
}

/// The widths at which pages are looked at: a large window, a small one, and a phone.
pub const WIDTHS: [u32; 3] = [1400, 1100, 390];
