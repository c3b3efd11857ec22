//! Opens a report in headless Chromium, as a reader would: from disk, wide and narrow, light and
//! dark, with scripts and without.

mod sample;

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

const SKIPPED: &str = "skipped: no chromium to open the report in; apt-get install chromium";

fn browser() -> bool {
    Command::new("chromium").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// What one run of the browser left behind.
struct Visit {
    dom: String,
    log: String,
}

/// Runs Chromium on a file with a profile of its own, and ends it when it takes too long.
fn visit(folder: &Path, page: &Path, flags: &[&str]) -> Visit {
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
fn console(log: &str) -> Vec<&str> {
    log.lines().filter(|l| l.contains("CONSOLE")).collect()
}

/// Size of a PNG, from its header.
fn png_size(path: &Path) -> (u32, u32) {
    let bytes = fs::read(path).unwrap_or_else(|e| panic!("no screenshot {}: {e}", path.display()));
    assert_eq!(bytes[1..4], *b"PNG");
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

fn screenshot(folder: &Path, page: &Path, name: &str, size: (u32, u32), flags: &[&str]) -> (PathBuf, Visit) {
    let path = folder.join(name);
    let _ = fs::remove_file(&path);
    let (shot, window) = (format!("--screenshot={}", path.display()), format!("--window-size={},{}", size.0, size.1));
    let visit = visit(folder, page, &[&[shot.as_str(), window.as_str()], flags].concat());
    assert_eq!(png_size(&path), size, "{name}");
    assert!(fs::metadata(&path).unwrap().len() > 100_000, "{name} is all but empty");
    (path, visit)
}

#[test]
#[allow(clippy::print_stdout)]
fn a_report_opens_in_a_browser() {
    if !browser() {
        println!("{SKIPPED}");
        return;
    }
    // Kept after the test, so that one can look at the pictures.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report");
    fs::create_dir_all(&folder).unwrap();
    let page = folder.join("report.html");
    let html = pocketstone_report::html(&sample::model()).unwrap();
    fs::write(&page, &html).unwrap();

    // The check for messages must be able to fail.
    let control = folder.join("control.html");
    fs::write(&control, "<script>console.error('seen')</script><img src=missing.png>").unwrap();
    assert!(console(&visit(&folder, &control, &["--dump-dom"]).log).iter().any(|l| l.contains("seen")));

    let wide = visit(&folder, &page, &["--dump-dom", "--window-size=1280,900"]);
    assert_eq!(console(&wide.log), [""; 0]);
    let count = |text| wide.dom.matches(text).count();
    assert_eq!(count("<svg class=\"chart\" role=\"img\""), 9, "one figure has no results");
    assert_eq!(count("There are no results for this figure."), 1);
    assert_eq!(count("<svg class=\"heat\" role=\"img\""), 2);
    assert_eq!(count("class=\"claim "), 4);
    assert_eq!(count("class=\"tip\""), 1, "the script ran");
    assert!(wide.dom.contains("block 3: 4200 page senses") && !wide.dom.contains("\u{1b}["));

    let (light, visit) = screenshot(&folder, &page, "wide-light.png", (1280, 8000), &[]);
    assert_eq!(console(&visit.log), [""; 0]);
    let (dark, _) =
        screenshot(&folder, &page, "wide-dark.png", (1280, 8000), &["--blink-settings=preferredColorScheme=0"]);
    assert!(fs::read(&light).unwrap() != fs::read(&dark).unwrap(), "dark looks different");

    // A window cannot be as narrow as a phone, a frame can.
    let phone = folder.join("phone.html");
    fs::write(&phone, "<body style=margin:0><iframe src=report.html style='width:390px;height:15000px;border:0'>")
        .unwrap();
    screenshot(&folder, &phone, "phone-light.png", (500, 15000), &[]);
    screenshot(&folder, &phone, "phone-dark.png", (500, 15000), &["--blink-settings=preferredColorScheme=0"]);

    // Without scripts everything is there but the tooltip. The browser takes its screenshots by a
    // script of its own, so it is a policy of the page that switches them off.
    let off = folder.join("no-script.html");
    let policy = "<head><meta http-equiv=Content-Security-Policy content=\"script-src 'none'\">";
    fs::write(&off, html.replacen("<head>", policy, 1)).unwrap();
    let (still, visit) = screenshot(&folder, &off, "wide-no-script.png", (1280, 8000), &[]);
    assert!(console(&visit.log).iter().any(|l| l.contains("script-src 'none'")), "scripts are off: {}", visit.log);
    // Not to the byte, which no browser promises; a page without its pictures is far smaller.
    let size = |path| fs::metadata(path).unwrap().len();
    assert!(size(&still) > size(&light) / 10 * 9, "scripts change nothing that one sees");
}

#[test]
#[allow(clippy::print_stdout)]
fn pointing_at_a_mark_shows_its_value() {
    if !browser() {
        println!("{SKIPPED}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("report.html");
    let point = |selector: &str| {
        let script = format!(
            "<script>onload=()=>{{const \
                e=document.querySelector('{selector}');e.scrollIntoView({{behavior:'instant'}});\
             setTimeout(()=>{{const r=e.getBoundingClientRect();e.dispatchEvent(new PointerEvent('pointermove',\
             {{bubbles:true,clientX:r.x+r.width/2+3,clientY:r.y+r.height/2-2}}))}},200)}}</script></body>"
        );
        let html = pocketstone_report::html(&sample::model()).unwrap().replace("</body>", &script);
        fs::write(&page, html).unwrap();
        let visit = visit(folder.path(), &page, &["--dump-dom", "--virtual-time-budget=2000"]);
        assert_eq!(console(&visit.log), [""; 0]);
        let tip = visit.dom.split_once("class=\"tip\"").expect("a tooltip").1;
        tip.split_once('>').unwrap().1.split_once('<').unwrap().0.to_string()
    };
    assert_eq!(point("#one .pt .dot"), "random: 3.25 at 4 (90% interval 2.825 to 3.675)");
    assert_eq!(point("#senses .h8 path"), "block 3: 4200 page senses");
}
