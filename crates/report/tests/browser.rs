//! Opens a report in headless Chromium, as a reader would: from disk, wide and narrow, light and
//! dark, with scripts and without.

mod chromium;
mod crowded;
mod sample;

use chromium::{browser, console, screenshot, visit};
use pocketstone_testing::or_skip;
use std::fs;
use std::path::Path;

#[test]
fn a_report_opens_in_a_browser() {
    or_skip!(browser());
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
    let other_axes = count(" hidden=\"\"><svg class=\"chart\"");
    assert_eq!(count("<svg class=\"chart\" role=\"img\"") - other_axes, 9, "one figure has no results");
    assert_eq!(count(" scale</button>"), other_axes, "each can be shown");
    assert_eq!(count(">CSV</a><a download="), 9, "and every figure be saved");
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
fn pointing_at_a_mark_shows_its_value() {
    or_skip!(browser());
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("report.html");
    let point_at = |element: &str, down: &str| {
        let script = format!(
            "<script>onload=()=>{{const e={element};e.scrollIntoView({{behavior:'instant'}});\
             setTimeout(()=>{{const r=e.getBoundingClientRect();e.dispatchEvent(new PointerEvent('pointermove',\
             {{bubbles:true,clientX:r.x+r.width/2+3,clientY:r.y+{down}}}))}},200)}}</script></body>"
        );
        let html = pocketstone_report::html(&sample::model()).unwrap().replace("</body>", &script);
        fs::write(&page, html).unwrap();
        let visit = visit(folder.path(), &page, &["--dump-dom", "--virtual-time-budget=2000"]);
        assert_eq!(console(&visit.log), [""; 0]);
        let tip = visit.dom.split_once("class=\"tip\"").expect("a tooltip").1;
        tip.split_once('>').unwrap().1.split_once('<').unwrap().0.to_string()
    };
    let point = |selector: &str| point_at(&format!("document.querySelector('{selector}')"), "r.height/2-2");
    assert_eq!(point("#one .pt .dot"), "random: 3.25 at 4 (98.4% interval: 2.825 to 3.675)");
    assert_eq!(point("#senses .h8 path"), "block 3: 4200 page senses");
    // At the foot of a long part of a bar the middle of the short one below is nearer than its own.
    let sync = "[...document.querySelectorAll('#workloads .pt')].find(p=>p.textContent.startsWith('sync')).lastChild";
    assert_eq!(point_at(sync, "r.height-2"), "sync: 900 µs at ycsb-a; all parts add up to 1.60 ms");
}

/// A figure is switched to its other axis and back, and saved as a picture of its own.
#[test]
fn a_figure_has_another_axis_and_is_saved_as_a_picture() {
    or_skip!(browser());
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("report.html");
    let script = "<script>onload=()=>{const figure=document.querySelector('figure:has(.plot[hidden])');\
         const axis=()=>figure.querySelector('.plot:not([hidden])').dataset.axis;const said=[axis()];\
         const button=figure.querySelector('.tools button');for(const _ of [1,2]){button.click();said.push(axis())}\
         let saved;URL.createObjectURL=(blob)=>{saved=blob;return '#'};\
         const link=[...figure.querySelectorAll('.tools a')].find(a=>a.textContent==='SVG');\
         link.addEventListener('click',e=>e.preventDefault());link.click();\
         saved.text().then(text=>{const drawn=new DOMParser().parseFromString(text,'image/svg+xml');\
         said.push(drawn.documentElement.tagName,drawn.querySelectorAll('.line,.dot,.bar').length>0,\
         /stroke:\\s?rgb/.test(text));document.body.dataset.said=said.join(' ')})}</script></body>";
    let mut model = sample::model();
    // Its values are from 2.8 to 3.7: one that is far from them makes logarithms of use.
    let first = model.figures.iter_mut().find(|f| f.id == "one").expect("a figure of a point");
    first.y.scale = pocketstone_study::views::model::Scale::Linear;
    let far = pocketstone_study::views::model::Point { x: 8.0, y: 40.0, ..Default::default() };
    first.series[0].points.push(far);
    let html = pocketstone_report::html(&model).unwrap().replace("</body>", script);
    fs::write(&page, html).unwrap();
    let visit = visit(folder.path(), &page, &["--dump-dom", "--virtual-time-budget=2000"]);
    assert_eq!(console(&visit.log), [""; 0]);
    let said = visit.dom.split_once("data-said=\"").expect("the script ran").1.split_once('"').unwrap().0;
    let (first, rest) = said.split_once(' ').unwrap();
    let other = if first == "log" { "linear" } else { "log" };
    assert_eq!(rest, format!("{other} {first} svg true true"));
}

#[test]
fn a_time_line_can_be_zoomed_in_on_and_back() {
    or_skip!(browser());
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("report.html");
    let after = |clicks: &str| {
        let script = format!(
            "<script>onload=()=>{{const figure=document.querySelector('figure:has(.zoom)');\
             const row=()=>figure.querySelector('g.row').innerHTML;window.first=row();\
             const buttons=[...figure.querySelectorAll('.zoom button')];\
             for(const word of {clicks})buttons.find(b=>b.textContent===word).click();\
             document.body.dataset.same=row()===window.first;\
             document.body.dataset.said=figure.querySelector('.zoom span').textContent}}</script></body>"
        );
        let html = pocketstone_report::html(&sample::model()).unwrap().replace("</body>", &script);
        fs::write(&page, html).unwrap();
        let visit = visit(folder.path(), &page, &["--dump-dom", "--virtual-time-budget=2000"]);
        assert_eq!(console(&visit.log), [""; 0]);
        let of = |name: &str| {
            let start = visit.dom.split_once(&format!("data-{name}=\"")).expect("the script ran").1;
            start.split_once('"').unwrap().0.to_owned()
        };
        (of("same"), of("said"))
    };
    // The middle quarter of a run of 2 s.
    assert_eq!(after("['Zoom in','Zoom in']"), ("false".into(), "750 ms to 1.25 s of 2 s".into()));
    assert_eq!(after("['Zoom in','Later','Whole run']"), ("true".into(), String::new()));
}
