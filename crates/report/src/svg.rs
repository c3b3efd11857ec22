//! A tiny SVG writer: elements, attributes, escaping. It knows nothing of charts.

/// Text with everything escaped that means something in markup, and control characters dropped.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

/// A coordinate with at most one decimal: a tenth of a unit cannot be seen.
pub(crate) fn num(value: f64) -> String {
    debug_assert!(value.is_finite(), "only finite coordinates are drawn");
    let text = format!("{value:.1}");
    match text.strip_suffix(".0").unwrap_or(&text) {
        "-0" => "0".into(),
        text => text.into(),
    }
}

/// Markup under construction.
#[derive(Debug, Default)]
pub(crate) struct Svg {
    out: String,
}

impl Svg {
    /// Starts an element that will have content.
    pub(crate) fn open(&mut self, tag: &str, attributes: &[(&str, &str)]) {
        self.tag(tag, attributes);
        self.out.push('>');
    }

    /// Ends the element.
    pub(crate) fn close(&mut self, tag: &str) {
        self.out.push_str("</");
        self.out.push_str(tag);
        self.out.push('>');
    }

    /// An element without content.
    pub(crate) fn empty(&mut self, tag: &str, attributes: &[(&str, &str)]) {
        self.tag(tag, attributes);
        self.out.push_str("/>");
    }

    /// An element that holds text alone.
    pub(crate) fn leaf(&mut self, tag: &str, attributes: &[(&str, &str)], text: &str) {
        self.open(tag, attributes);
        self.out.push_str(&escape(text));
        self.close(tag);
    }

    /// What was written.
    pub(crate) fn finish(self) -> String {
        self.out
    }

    fn tag(&mut self, tag: &str, attributes: &[(&str, &str)]) {
        self.out.push('<');
        self.out.push_str(tag);
        for (name, value) in attributes {
            self.out.push(' ');
            self.out.push_str(name);
            self.out.push_str("=\"");
            self.out.push_str(&escape(value));
            self.out.push('"');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_text_and_attributes_stays_text() {
        let mut svg = Svg::default();
        svg.leaf("text", &[("class", "a\" onload=\"x")], "<script>&'\u{1b}[0m</script>");
        assert_eq!(
            svg.finish(),
            "<text class=\"a&quot; onload=&quot;x\">&lt;script&gt;&amp;&#39;[0m&lt;/script&gt;</text>"
        );
    }

    #[test]
    fn coordinates_are_short() {
        assert_eq!(num(12.0), "12");
        assert_eq!(num(12.34), "12.3");
        assert_eq!(num(-0.01), "0");
    }
}
