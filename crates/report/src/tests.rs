use super::*;
use pocketstone_study::views::model::*;

fn claim(text: &str, verdict: Verdict) -> ClaimResult {
    ClaimResult {
        name: "c".into(),
        text: text.into(),
        verdict,
        detail: "found 12".into(),
        paper: Some("about a third".into()),
        deviation: (verdict == Verdict::Explained).then(|| "A rule has changed. It was long ago.".into()),
        origin: Default::default(),
        query: "select 1".into(),
        required: true,
    }
}

fn heat_map(blocks: Vec<u64>) -> HeatMap {
    HeatMap { id: "h".into(), title: "H".into(), caption: "C".into(), unit: "page sense".into(), blocks }
}

fn figure(series: usize, points: u32) -> Figure {
    let point = |i: u32| {
        let y = f64::from(i * 7919 % 1000) * 1.37;
        Point { x: f64::from(i + 1), y, low: Some(y * 0.9), high: Some(y * 1.1), n: Some(5) }
    };
    let line =
        |n| Series { name: format!("read-ahead {n}"), points: (0..points).map(point).collect(), ..Series::default() };
    Figure {
        id: "f".into(),
        title: "F".into(),
        caption: "C".into(),
        x: Axis { label: "Number of requests".into(), scale: Scale::Log2 },
        y: Axis { label: "Time".into(), scale: Scale::Duration },
        series: (0..series).map(line).collect(),
        ..Figure::default()
    }
}

fn table(rows: usize) -> Table {
    let row = |i: usize| vec![format!("cell {i}"), i.to_string(), "1.5 ms".into()];
    Table {
        origin: Default::default(),
        id: "t".into(),
        title: "T".into(),
        caption: "C".into(),
        columns: ["Cell", "Requests", "Time"].map(String::from).to_vec(),
        rows: (0..rows).map(row).collect(),
    }
}

fn timeline(text: &str, spans: u64) -> Timeline {
    let span = |i| Span { start_ns: i * 700, end_ns: i * 700 + 90, kind: i as usize % 3, label: text.into() };
    let lane = || Lane { name: text.into(), content: LaneContent::Spans((0..spans).map(span).collect()) };
    let steps =
        LaneContent::Steps { unit: text.into(), steps: (0..spans).map(|i| (i * 900, Some(i as f64))).collect() };
    Timeline {
        id: text.into(),
        title: text.into(),
        caption: text.into(),
        start_ns: 0,
        end_ns: spans * 1000,
        kinds: vec![text.into(); 3],
        lanes: vec![lane(), lane(), lane(), Lane { name: text.into(), content: steps }],
    }
}

fn chain(text: &str) -> Chain {
    let misses = vec![ChainMiss { file: text.into(), first_page: 1, pages: 2 }; 9];
    let flash = vec![ChainFlash { kind: text.into(), page: 1, time_ns: 5 }; 9];
    let (device, duration_ns) = (text.to_string(), None);
    let block = ChainBlock { device, write: true, first_sector: 1, sectors: 2, issue_ns: 3, duration_ns };
    let call = ChainCall {
        name: text.into(),
        file: text.into(),
        misses: misses.clone(),
        flash: flash.clone(),
        blocks: vec![block.clone()],
        ..ChainCall::default()
    };
    let query = ChainQuery {
        label: text.into(),
        sql: text.into(),
        service_ns: 100,
        calls: vec![call; 80],
        misses,
        flash,
        blocks: vec![block],
        ..ChainQuery::default()
    };
    Chain { id: text.into(), title: text.into(), caption: text.into(), queries: vec![query; 20] }
}

#[test]
fn an_empty_model_is_a_page() {
    let page = html(&Model::default()).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    for empty in ["Verdicts", "Figures", "Tables", "This run"] {
        assert!(!page.contains(&format!("<h2>{empty}</h2>")) && !page.contains(&format!(">{empty}</a>")), "{empty}");
    }
    let page = html(&Model { command: "pocketstone run x".into(), ..Model::default() }).unwrap();
    assert!(page.contains("<h2>This run</h2>") && page.contains("href=\"#s-run\""));
}

#[test]
fn what_a_program_or_a_command_says_stays_as_it_is() {
    let table = Table {
        origin: Default::default(),
        id: "t".into(),
        title: "app --wait 4 us".into(),
        caption: String::new(),
        columns: vec!["output".into(), "time".into()],
        rows: vec![vec!["took 5 us".into(), "6 us to 7 us (range of 3)".into()]],
    };
    let cell = "command=app --wait 8 us".into();
    let failed = FailedCell { cell, message: "9 us".into(), hint: None, console: None };
    let page = html(&Model {
        title: "app --wait 3 us".into(),
        answer: Some(Answer { text: "A run of `app --wait 1 us` takes 2 us".into(), figure: None }),
        tables: vec![table],
        failures: vec![failed],
        ..Model::default()
    })
    .unwrap();
    for kept in [1, 3, 4, 5, 8, 9] {
        assert!(page.contains(&format!("{kept} us")) || page.contains(&format!("{kept}\u{a0}us")), "{kept}");
    }
    assert!(page.contains("2\u{a0}µs") && page.contains(">6 µs to 7 µs (range of 3)</td>"), "{page}");
}

#[test]
fn every_text_of_the_model_is_escaped() {
    let evil = || "<script>alert('x')</script>\"><img src=x onerror=alert(1)>`<b>`".to_string();
    let mut figure = figure(1, 2);
    (figure.id, figure.title, figure.caption) = (evil(), evil(), evil());
    (figure.x.label, figure.y.label, figure.series[0].name) = (evil(), evil(), evil());
    let mut heat = heat_map(vec![1, 2]);
    (heat.id, heat.title, heat.caption, heat.unit) = (evil(), evil(), evil(), evil());
    let mut claim = claim(&evil(), Verdict::Holds);
    (claim.name, claim.detail, claim.paper, claim.query) = (evil(), evil(), Some(evil()), evil());
    let model = Model {
        answer: Some(Answer { text: evil(), figure: None }),
        title: evil(),
        description: vec![evil()],
        summary: evil(),
        command: evil(),
        facts: vec![(evil(), evil())],
        caveats: vec![evil()],
        claims: vec![claim],
        figures: vec![figure],
        tables: vec![Table {
            origin: Default::default(),
            id: evil(),
            title: evil(),
            caption: evil(),
            columns: vec![evil()],
            rows: vec![vec![evil(), evil()]],
        }],
        heat_maps: vec![heat],
        distributions: vec![Distribution {
            id: evil(),
            title: evil(),
            caption: evil(),
            series: vec![Quantiles::of(&evil(), &[1, 2])],
        }],
        timelines: vec![timeline(&evil(), 3)],
        chains: vec![chain(&evil())],
        explorer: None,
        explanations: vec![Explanation { heading: evil(), paragraphs: vec![evil()] }],
        left_out: vec![LeftOut { what: evil(), why: evil(), cure: evil() }],
        failures: vec![FailedCell { cell: evil(), message: evil(), hint: Some(evil()), console: Some(evil()) }],
    };
    let page = html(&model).unwrap();
    assert_eq!(page.matches("<script").count(), 1, "the page's own script alone");
    assert!(!page.contains("<img") && !page.contains("<b>`") && !page.contains("code><b>"));
}

#[test]
fn a_verdict_is_shown_by_its_word_with_detail_paper_and_query() {
    let claims = [Verdict::Holds, Verdict::Explained, Verdict::Unexplained, Verdict::CannotTell, Verdict::Unavailable];
    let claims = claims.map(|v| claim("Off is faster", v)).to_vec();
    let page = html(&Model { claims, ..Model::default() }).unwrap();
    for text in ["<span>holds</span>", "<span>cannot tell</span>", "<span>unavailable</span>", "about a third"] {
        assert!(page.contains(text), "{text}");
    }
    assert_eq!(page.matches("<pre>select 1</pre>").count(), 5);
    for (class, word) in [("explained", "does not hold, explained"), ("fails", "does not hold, unexplained")] {
        assert!(page.contains(&format!("<span>{word}</span>")), "{word}");
        assert!(page.contains(&format!("<li class=\"{class}\"><b>1</b> claim {word}</li>")), "{word}");
    }
    assert_eq!(page.matches("why not</span> A rule has changed.</p>").count(), 1, "in one line");
    assert_eq!(page.matches("<p class=\"note\">It was long ago.</p>").count(), 1, "the rest is folded away");
    assert!(page.contains("<b>1</b> claim cannot be judged"));
}

#[test]
fn a_figure_without_results_says_so() {
    let model = Model { figures: vec![figure(2, 0)], tables: vec![table(0)], ..Model::default() };
    let page = html(&model).unwrap();
    assert!(page.contains("There are no results for this figure.") && page.contains("no results for this table"));
}

#[test]
fn the_page_needs_no_network() {
    let model = Model {
        figures: vec![figure(3, 5)],
        tables: vec![table(3)],
        heat_maps: vec![heat_map(vec![0, 4])],
        ..Model::default()
    };
    let page = html(&model).unwrap();
    for text in ["http://", "https://", "//", "url(", "@import", "src="] {
        let own = page.lines().filter(|l| l.contains(text) && !l.trim_start().starts_with("//"));
        let own: Vec<_> = own.filter(|l| !l.contains("// ")).collect();
        assert!(own.is_empty(), "{text}: {own:?}");
    }
    assert!(page.contains("role=\"img\"") && page.contains("aria-label="));
}

#[test]
fn a_quick_study_stays_within_300_kb_even_with_full_chips() {
    let model = Model {
        figures: vec![figure(4, 10); 6],
        tables: vec![table(24); 5],
        heat_maps: vec![heat_map((0..2048).map(|i| 20_000 + i * 37).collect()); 2],
        ..Model::default()
    };
    let page = html(&model).unwrap();
    assert!(page.len() <= 300 << 10, "{} bytes", page.len());
}

#[test]
fn no_model_makes_a_page_of_more_than_a_megabyte() {
    let long = || "console line of a board that talks a lot\n".repeat(5_000);
    let failure = FailedCell { cell: "c".into(), message: long(), hint: None, console: Some(long()) };
    let text = "a label of a span";
    // One of each has far more than a page can show, and there are more than a page can hold.
    let model = Model {
        description: vec![long()],
        figures: [vec![figure(8, 5000)], vec![figure(8, 500); 19]].concat(),
        tables: vec![table(10_000); 20],
        heat_maps: vec![heat_map((0..16_384).map(|i| i * i).collect()); 12],
        failures: vec![failure; 300],
        timelines: [vec![timeline(text, 50_000)], vec![timeline(text, 5_000); 3]].concat(),
        chains: vec![chain("a file"); 3],
        ..Model::default()
    };
    let page = html(&model).unwrap();
    assert!(page.len() <= 1 << 20, "{} bytes", page.len());
    assert!(page.contains("To limit its size, this page omits") && page.contains("more rows omitted"));
}

#[test]
fn one_time_line_of_many_spans_adds_at_most_200_kb() {
    let empty = html(&Model::default()).unwrap().len();
    let model = Model { timelines: vec![timeline("a label of a span", 50_000)], ..Model::default() };
    let page = html(&model).unwrap();
    assert!(page.len() - empty <= 200 << 10, "{} bytes", page.len() - empty);
    assert!(page.contains("Layer by layer") && page.contains("the more of that time is covered."));
}

#[test]
fn a_query_opens_without_a_script() {
    let mut chain = chain("sqlite.db");
    chain.queries.truncate(2);
    let page = html(&Model { chains: vec![chain], ..Model::default() }).unwrap();
    assert_eq!(page.matches("<details class=\"query\">").count(), 2);
    assert!(page.contains("20 more calls omitted from this page."), "80 calls, of which 60 are shown");
    assert!(page.contains("unavailable") && page.contains("sqlite.db, pages 1 to 2 (2)"));
}

#[test]
fn the_scripts_are_small() {
    for script in [include_str!("script.js"), include_str!("figures.js")] {
        assert!(script.len() < 2048);
    }
}
